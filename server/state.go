package server

import (
	"fmt"

	"stile/config"
	"stile/cookie"
	"stile/key"
	"stile/network"
	"stile/pow"
	"stile/server/page"
)

// state is everything that a reload swaps, built whole before it is swapped.
type state struct {
	cfg    *config.Config
	pages  *page.Pages
	passes *cookie.Passes
	issuer *pow.Issuer
	ring   *key.Ring
}

func newState(cfg *config.Config) (*state, error) {
	ring, created, err := key.LoadOrCreate(cfg.Key.File)
	if err != nil {
		if created {
			return nil, err
		}
		return nil, fmt.Errorf("%w (set [key] file, or run: stile key new)", err)
	}
	return &state{
		cfg:    cfg,
		pages:  page.New(page.Options{Title: cfg.Challenge.Title, Logo: cfg.Challenge.Logo, Contact: cfg.Challenge.Contact}),
		passes: cookie.New(ring),
		issuer: pow.NewIssuer(ring),
		ring:   ring,
	}, nil
}

// accepts tells whether a pass counts for a request from that network.
func (st *state) accepts(p *cookie.Pass, from network.Network) bool {
	return st.cfg.Pass.Bind != config.BindNetwork || st.passes.ProvenFrom(p, from)
}
