package server

import (
	"bytes"
	"encoding/base64"
	"errors"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/valyala/fasthttp"

	"stile/decide"
	"stile/decide/mint"
	"stile/pow"
	"stile/server/page"
)

// wait redeems a timed wait: the way in without JavaScript. The link carries the path to
// go back to, and the token its hash, so that only a path that was really asked for, on
// this site, is ever redirected to.
func (s *Server) wait(ctx *fasthttp.RequestCtx, query []byte) {
	now := s.now()
	st := s.state.Load()
	f := s.facts.Get().(*facts)
	defer s.facts.Put(f)
	f.read(ctx.Request.Header.RawHeaders())
	noStore(ctx)
	if f.req.From == 0 {
		s.misconfiguredPage(ctx, f)
		return
	}
	f.identify(st, uint32(now.Unix()))
	c, target, err := s.redeemWait(ctx, st, f, query, now)
	if err != nil {
		s.waitRefused(ctx, st, f, target, err)
		return
	}
	if !f.hasPass || f.pass.Level < c.Level {
		s.setPass(ctx, st, f, &c, now) // never in the place of a better one
	}
	ctx.Response.SetStatusCode(fasthttp.StatusSeeOther)
	// Not ctx.Redirect: it would make an absolute URL, with a host of the client's.
	ctx.Response.Header.SetBytesV("Location", location(target))
}

// errNetwork: a wait costs nothing, so it counts only where it was begun. Nobody waits
// in another's name.
var errNetwork = errors.New("the wait was begun on another network")

// errForeign: another site's link would put a pass into this browser that others share.
var errForeign = errors.New("the link was on another site")

// redeemWait checks a link and redeems its wait.
func (s *Server) redeemWait(ctx *fasthttp.RequestCtx, st *state, f *facts, query []byte, now time.Time) (c pow.Challenge, target []byte, err error) {
	token, target, ok := parseWait(query)
	if !ok || !ctx.IsGet() && !ctx.IsHead() {
		return c, nil, pow.ErrMalformed
	}
	var seed [32]byte
	if err := st.issuer.Parse(token, uint32(now.Unix()), &c, &seed); err != nil {
		return c, target, err
	}
	if c.Kind != pow.Wait || c.Target != xxhash.Sum64(target) {
		return c, nil, pow.ErrMalformed
	}
	if _, ok := f.sameOrigin(); !ok {
		return c, target, errForeign
	}
	if c.Network != f.req.From {
		return c, target, errNetwork
	}
	first, err := s.ledger.Waited(pow.Distinct(&seed), c.Network, c.Target, now.UnixNano())
	if first {
		s.stats.waited.Inc()
		s.stats.minted(c.Level)
	}
	return c, target, err
}

// waitRefused says why a wait has earned nothing, with the way back to the page.
func (s *Server) waitRefused(ctx *fasthttp.RequestCtx, st *state, f *facts, target []byte, err error) {
	status, why, p := fasthttp.StatusBadRequest, "malformed", page.Refused{Reason: page.Failed, Target: string(location(target))}
	var early mint.ErrEarly
	var full mint.ErrCeiling
	switch {
	case errors.Is(err, pow.ErrExpired), errors.Is(err, pow.ErrUnknown):
		status, why = fasthttp.StatusGone, "expired"
	case errors.Is(err, errForeign):
		status, why = fasthttp.StatusForbidden, "origin"
	case errors.Is(err, errNetwork):
		status, why = fasthttp.StatusForbidden, "network"
	case errors.As(err, &early):
		status, why = fasthttp.StatusTooManyRequests, "early"
		p = page.Refused{Reason: page.Early, RetrySeconds: int((early.Retry + time.Second - 1) / time.Second)}
	case errors.As(err, &full):
		status, why = fasthttp.StatusTooManyRequests, "ceiling"
		p.Reason, p.RetrySeconds = page.Ceiling, int((full.Retry+time.Second-1)/time.Second)
	case errors.Is(err, mint.ErrNone):
		status, why = fasthttp.StatusTooManyRequests, "none"
	}
	s.stats.failed(kindWait, why)
	ctx.Response.SetStatusCode(status)
	if p.RetrySeconds > 0 {
		retryAfter(ctx, uint32(p.RetrySeconds))
	}
	if !decide.Navigation(&f.req.Header) {
		s.plain(ctx, f, why, p.RetrySeconds)
		return
	}
	s.refusedPage(ctx, st, f, &p)
}

// parseWait takes the two parts out of "t=TOKEN&u=TARGET", in that order: we wrote it.
func parseWait(query []byte) (token, target []byte, ok bool) {
	rest, ok := bytes.CutPrefix(query, []byte("t="))
	if !ok {
		return nil, nil, false
	}
	token, u, ok := bytes.Cut(rest, []byte("&u="))
	if !ok {
		return nil, nil, false
	}
	target = make([]byte, base64.RawURLEncoding.DecodedLen(len(u)))
	n, err := base64.RawURLEncoding.Strict().Decode(target, u)
	return token, target[:n], err == nil
}

// location is where a wait leads: the target itself if it is surely a path on this
// site and nothing a header may not hold, else the front page.
func location(target []byte) []byte {
	home := []byte("/")
	if len(target) == 0 || target[0] != '/' {
		return home
	}
	if len(target) > 1 && (target[1] == '/' || target[1] == '\\') {
		return home // "//host/…" is another site, to a browser
	}
	out := make([]byte, 0, len(target)+16)
	const hex = "0123456789ABCDEF"
	for _, c := range target {
		switch {
		case c < ' ' || c == 0x7F:
			return home
		case c >= 0x80 || c == ' ':
			out = append(out, '%', hex[c>>4], hex[c&15])
		default:
			out = append(out, c)
		}
	}
	if len(out) > maxLocation {
		return home
	}
	return out
}

// maxLocation fits into the buffer in which nginx reads our answer's header, beside the
// cookie.
const maxLocation = 6 << 10
