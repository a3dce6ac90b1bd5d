package server

import (
	"bytes"
	"encoding/base64"
	"errors"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/valyala/fasthttp"

	"stile/decide/mint"
	"stile/pow"
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
	if !ctx.IsGet() && !ctx.IsHead() || f.req.From == 0 {
		s.waitRefused(ctx, fasthttp.StatusBadRequest, "This link cannot be used like this. Go back and load the page again.")
		return
	}
	if _, ok := f.sameOrigin(); !ok {
		// Another site's link would put a pass into this browser that others share.
		s.stats.failed(kindWait, "origin")
		s.waitRefused(ctx, fasthttp.StatusForbidden, "This link works only on the page that it was on. Go back and load the page again.")
		return
	}
	f.identify(st, uint32(now.Unix()))
	token, target, ok := parseWait(query)
	var c pow.Challenge
	var seed [32]byte
	if !ok {
		s.stats.failed(kindWait, "malformed")
		s.waitRefused(ctx, fasthttp.StatusBadRequest, "This link is damaged. Go back and load the page again.")
		return
	}
	err := st.issuer.Parse(token, uint32(now.Unix()), &c, &seed)
	switch {
	case errors.Is(err, pow.ErrExpired), errors.Is(err, pow.ErrUnknown):
		s.stats.failed(kindWait, "expired")
		s.waitRefused(ctx, fasthttp.StatusGone, "This link is too old. Go back and load the page again.")
		return
	case err != nil || c.Kind != pow.Wait || c.Target != xxhash.Sum64(target):
		s.stats.failed(kindWait, "malformed")
		s.waitRefused(ctx, fasthttp.StatusBadRequest, "This link is damaged. Go back and load the page again.")
		return
	case c.Network != f.req.From:
		// A wait costs nothing, so it counts only where it was begun: nobody waits in
		// another's name.
		s.stats.failed(kindWait, "network")
		s.waitRefused(ctx, fasthttp.StatusForbidden, "Your network has changed since the page was loaded. Go back and load it again.")
		return
	}
	first, err := s.ledger.Waited(pow.Distinct(&seed), c.Network, c.Target, now.UnixNano())
	if err != nil {
		var early mint.ErrEarly
		var full mint.ErrCeiling
		switch {
		case errors.As(err, &early):
			s.stats.failed(kindWait, "early")
			retryAfter(ctx, uint32((early.Retry+time.Second-1)/time.Second))
			s.waitRefused(ctx, fasthttp.StatusTooManyRequests, "Not yet. Wait a few more seconds, then load this page again.")
		case errors.As(err, &full):
			s.stats.failed(kindWait, "ceiling")
			retryAfter(ctx, uint32((full.Retry+time.Second-1)/time.Second))
			s.waitRefused(ctx, fasthttp.StatusTooManyRequests, "Too many visitors from your network have come in today. Try again later.")
		default:
			s.stats.failed(kindWait, "none")
			s.waitRefused(ctx, fasthttp.StatusTooManyRequests, "Somebody else on your network was waiting too. Go back and load the page again.")
		}
		return
	}
	if first {
		s.stats.waited.Inc()
		s.stats.minted(c.Level)
	}
	if !f.hasPass || f.pass.Level < c.Level {
		s.setPass(ctx, st, f, &c, now) // never in the place of a better one
	}
	ctx.Response.SetStatusCode(fasthttp.StatusSeeOther)
	// Not ctx.Redirect: it would make an absolute URL, with a host of the client's.
	ctx.Response.Header.SetBytesV("Location", location(target))
}

func (s *Server) waitRefused(ctx *fasthttp.RequestCtx, status int, text string) {
	ctx.Response.SetStatusCode(status)
	ctx.Response.Header.SetContentType("text/plain; charset=utf-8")
	ctx.Response.SetBodyString(text + "\n")
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
