package server

import (
	"time"

	"stile/botauth"
	"stile/config"
	"stile/cookie"
	"stile/crawler"
	"stile/geo"
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
	waits  *key.MAC

	crawlers *crawler.Checker  // the daemon's one
	bots     *botauth.Verifier // likewise
	places   *geo.DB           // nil: no rule asks for a place
}

// waitID is the id of every pass that a network earns by waiting on one day: a wait
// raises a network's budget, it does not multiply it. IPv6 counts by the /56.
func (st *state) waitID(n network.Network, now time.Time) (id [cookie.IDLen]byte) {
	if w := n.Wider()[0]; !n.Is4() && w != 0 {
		n = w
	}
	var sealed [16]byte
	st.waits.Seal(uint64(n), uint64(now.Unix()/86400), &sealed)
	copy(id[:], sealed[:])
	return id
}

// newState builds it around the keys that have been read.
func newState(cfg *config.Config, ring *key.Ring) *state {
	return &state{
		cfg:    cfg,
		pages:  page.New(page.Options{Title: cfg.Challenge.Title, Logo: cfg.Challenge.Logo, Contact: cfg.Challenge.Contact}),
		passes: cookie.New(ring),
		issuer: pow.NewIssuer(ring),
		ring:   ring,
		waits:  ring.MAC("wait"),
	}
}

// accepts tells whether a pass counts for a request from that network.
func (st *state) accepts(p *cookie.Pass, from network.Network) bool {
	return st.cfg.Pass.Bind != config.BindNetwork || st.passes.ProvenFrom(p, from)
}
