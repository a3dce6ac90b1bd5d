package server

import (
	"crypto/rand"
	"encoding/hex"
	"math"
	"strconv"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/valyala/fasthttp"

	"stile/config"
	"stile/decide"
	"stile/network"
	"stile/pow"
	"stile/server/page"
)

// baseParts is into how many parts a puzzle is cut at the base price. The time to
// find n parts has a relative spread of 1/√n: 32 parts spread by 18 %, and are
// checked in a few microseconds.
const baseParts = 32

// maxParts is how many parts are asked for at most when the price has risen between
// issue and redemption: 2^MaxDoublings times the base.
const maxParts = 1024

// levels of a pass
const (
	waitLevel = 1 // earned by waiting
	workLevel = 2 // earned by work
	maxLevel  = 3 // by more work
)

// challenge serves what a visitor sees in place of a page that asks for a proof. It is
// reached only from nginx's named location, with the verdict that check gave.
func (s *Server) challenge(ctx *fasthttp.RequestCtx) {
	now := s.now()
	st := s.state.Load()
	f := s.facts.Get().(*facts)
	defer s.facts.Put(f)
	f.read(ctx.Request.Header.RawHeaders())
	v, _, ok := decide.ParseToken(borrow(f.verdict))
	if !ok || v.Action != decide.Challenge {
		// nginx's own 401, of auth_basic perhaps: not ours to answer. nginx keeps the
		// WWW-Authenticate of the first answer.
		noStore(ctx)
		ctx.Response.SetStatusCode(fasthttp.StatusUnauthorized)
		ctx.Response.Header.SetContentType("text/plain; charset=utf-8")
		ctx.Response.SetBodyString("401 Authorization Required\n")
		return
	}
	f.identify(st, uint32(now.Unix()))
	noStore(ctx)
	// A crawler takes 503 with Retry-After as temporary, and keeps the page it knows.
	ctx.Response.SetStatusCode(st.cfg.Challenge.Status)
	ctx.Response.Header.Set("Retry-After", "60")
	if !decide.Navigation(&f.req.Header) {
		s.plain(ctx, f, page.ProofRequired, 60)
		return
	}
	s.challengePage(ctx, st, f, v.Level, false, now)
}

// prove serves a challenge to be solved in a tab of its own: for somebody whose form
// was refused, and who wants to send it again.
func (s *Server) prove(ctx *fasthttp.RequestCtx, query []byte) {
	now := s.now()
	st := s.state.Load()
	f := s.facts.Get().(*facts)
	defer s.facts.Put(f)
	f.read(ctx.Request.Header.RawHeaders())
	if f.req.From == 0 {
		s.misconfiguredPage(ctx, f)
		return
	}
	f.identify(st, uint32(now.Unix()))
	level := uint8(workLevel)
	if string(query) == "level=3" {
		level = maxLevel
	}
	noStore(ctx)
	ctx.Response.SetStatusCode(fasthttp.StatusOK)
	s.challengePage(ctx, st, f, level, true, now)
}

// framed tells whether another site shows the page in a frame of its own. There a
// browser is not to work for a pass: its network would pay for it, and it would hardly
// keep the cookie.
func (f *facts) framed() bool {
	switch f.req.Header[config.HeaderSecFetchDest] {
	case "iframe", "frame", "embed", "object", "fencedframe":
		return f.req.Header[config.HeaderSecFetchSite] == "cross-site"
	}
	return false
}

// challengePage issues a token and renders the page around it.
func (s *Server) challengePage(ctx *fasthttp.RequestCtx, st *state, f *facts, level uint8, prove bool, now time.Time) {
	h := &ctx.Response.Header
	h.SetContentType("text/html; charset=utf-8")
	h.Set("Content-Security-Policy", st.pages.CSP())
	if prove {
		h.Set("Content-Security-Policy", st.pages.ProveCSP())
	}
	if f.framed() {
		f.page = st.pages.AppendChallenge(f.page[:0], &page.Challenge{Framed: true, Lang: page.PickLanguage(f.req.Header[config.HeaderAcceptLanguage]), Support: f.support()})
		ctx.Response.SetBody(f.page)
		return
	}
	c := s.newChallenge(st, f, level, now)
	f.token = st.issuer.Append(f.token[:0], &c)
	p := page.Challenge{
		Lang:      page.PickLanguage(f.req.Header[config.HeaderAcceptLanguage]),
		Token:     f.token,
		Algorithm: uint8(c.Algorithm),
		Bits:      c.Bits,
		Parts:     int(c.Parts),
		Support:   f.support(),
		Prove:     prove,
	}
	if level <= waitLevel && !prove {
		target := xxhash.Sum64(f.target)
		p.Target = borrow(f.target)
		p.NoCookies = s.ledger.JustWaited(f.req.From, target, now.UnixNano())
		ready := s.ledger.Wait(f.req.From, now.UnixNano())
		p.WaitSeconds = int(max(time.Duration(ready-now.UnixNano()), time.Second)+time.Second-1) / int(time.Second)
		w := c
		w.Kind, w.Level, w.Target, w.Bits, w.Parts = pow.Wait, waitLevel, target, 0, 0
		if !f.held {
			w.ID = st.waitID(f.req.From, now)
		}
		s.stats.issuedWaits.Inc()
		n := len(f.token)
		f.token = st.issuer.Append(f.token, &w)
		p.Token, p.WaitToken = f.token[:n], f.token[n:]
	}
	s.stats.issued.Inc()
	f.page = st.pages.AppendChallenge(f.page[:0], &p)
	ctx.Response.SetBody(f.page)
}

// newChallenge is a puzzle at today's price for a caller. One that holds a pass gets
// its upgrade: the same id, so that no step-up yields a new meter.
func (s *Server) newChallenge(st *state, f *facts, level uint8, now time.Time) pow.Challenge {
	level = max(level, workLevel)
	if f.held { // or a pass of a high level could be renewed at the price of a low one
		level = max(level, f.pass.Level)
	}
	c := pow.Challenge{
		Algorithm: pow.SHA256,
		Kind:      pow.Work,
		Level:     level,
		Bits:      s.price(f.req.From, level, now),
		Parts:     baseParts,
		Issued:    uint32(now.Unix()),
		Expires:   uint32(now.Add(st.cfg.Pass.Lifetime).Unix()),
		Network:   f.req.From,
	}
	if !f.held {
		rand.Read(c.ID[:]) // never fails
		return c
	}
	c.ID = f.pass.ID
	if f.pass.Key == st.passes.SignID() { // tags are made with the key that signs
		own := st.passes.Tag(f.pass.Key, f.req.From)
		n := 0
		for _, t := range f.pass.Proven {
			if t != 0 && t != own && n < len(c.Proven) {
				c.Proven[n] = t
				n++
			}
		}
	}
	return c
}

// price is the difficulty of one part, in bits, for a pass of that level and a caller
// from that network.
func (s *Server) price(n network.Network, level uint8, now time.Time) uint8 {
	return min(s.ledger.BaseBits()+surcharge(level)+s.ledger.Price(n, now.UnixNano()), maxBits)
}

// surcharge is what a level costs, in doublings over the base.
func surcharge(level uint8) uint8 {
	if level >= maxLevel {
		return 2
	}
	return 0
}

// bitsFor is the difficulty with which solving takes a typical visitor that long, as far
// as can be known before anybody has solved anything: 32 parts of 2^19 hashes, a second
// for a browser that does 17 million in it (one thread of a laptop with WebAssembly,
// four of a phone). The calibration goes on from there, but not far.
func bitsFor(target time.Duration) uint8 {
	return uint8(19 + math.Round(math.Log2(target.Seconds())))
}

// maxBits keeps a part humane: 2^22 hashes, 32 times over, is a minute on a slow phone.
const maxBits = 22

// support is a short id that a visitor can quote and an operator can find in a log that
// has $request_id.
func (f *facts) support() string {
	if f.req.ID == ([16]byte{}) {
		return ""
	}
	return hex.EncodeToString(f.req.ID[:4])
}

// noStore marks an answer that no cache may keep. no-cache comes second for lynx, which
// otherwise shows the challenge again from its memory after a wait that has earned a pass.
// Pragma says the same to it: in place of a page nginx sends a Cache-Control of its own.
func noStore(ctx *fasthttp.RequestCtx) {
	ctx.Response.Header.Set("Cache-Control", "no-store, no-cache")
	ctx.Response.Header.Set("Pragma", "no-cache")
}

// plain answers somebody who is not looking at a page.
func (s *Server) plain(ctx *fasthttp.RequestCtx, f *facts, reason string, retry int) {
	json := wantsJSON(&f.req.Header)
	if json {
		ctx.Response.Header.SetContentType("application/json")
	} else {
		ctx.Response.Header.SetContentType("text/plain; charset=utf-8")
	}
	f.page = page.AppendPlain(f.page[:0], json, reason, retry)
	ctx.Response.SetBody(f.page)
}

func (s *Server) misconfiguredPage(ctx *fasthttp.RequestCtx, f *facts) {
	s.stats.misconfigured(s.log, "X-Real-IP", f.host)
	noStore(ctx)
	ctx.Response.SetStatusCode(fasthttp.StatusServiceUnavailable)
	ctx.Response.Header.SetContentType("text/plain; charset=utf-8")
	ctx.Response.SetBodyString("stile: nginx does not say who is asking; see the server's log\n")
}

func retryAfter(ctx *fasthttp.RequestCtx, seconds uint32) {
	ctx.Response.Header.Set("Retry-After", strconv.FormatUint(uint64(seconds), 10))
}
