package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"stile/config"
	"stile/cookie"
	"stile/decide/mint"
	"stile/pow"
)

// maxProofBytes bounds what a proof may be: a token and maxParts nonces in base64.
const maxProofBytes = 8 << 10

// proofBody is what the page's script posts.
type proofBody struct {
	Token    string `json:"token"`
	Solution string `json:"solution"` // base64url without padding, 4 bytes a part
}

// proof redeems a solution for a pass. The pass's id, expiry and level come from the
// challenge alone, so redeeming twice, here or on a replica, gives the same pass.
func (s *Server) proof(ctx *fasthttp.RequestCtx) {
	now := s.now()
	st := s.state.Load()
	f := s.facts.Get().(*facts)
	defer s.facts.Put(f)
	f.read(ctx.Request.Header.RawHeaders())
	noStore(ctx)
	if !ctx.IsPost() {
		ctx.Response.Header.Set("Allow", "POST")
		s.proofError(ctx, fasthttp.StatusMethodNotAllowed, "malformed")
		return
	}
	if f.req.From == 0 {
		s.misconfiguredPage(ctx, f)
		return
	}
	sameSite, ok := f.sameOrigin()
	if !ok {
		// Another site can make a visitor's browser post a proof that it has bought
		// itself, and so drive up the price of the visitor's network.
		s.failed(ctx, fasthttp.StatusForbidden, "origin")
		return
	}
	token, solution, err := parseProof(f.req.Header[config.HeaderContentType], ctx.Request.Body())
	if err != nil {
		s.failed(ctx, fasthttp.StatusBadRequest, "malformed")
		return
	}
	var c pow.Challenge
	var seed [32]byte
	if err := st.issuer.Parse([]byte(token), uint32(now.Unix()), &c, &seed); err != nil || c.Kind != pow.Work {
		if errors.Is(err, pow.ErrExpired) || errors.Is(err, pow.ErrUnknown) {
			s.failed(ctx, fasthttp.StatusGone, "expired")
			return
		}
		s.failed(ctx, fasthttp.StatusBadRequest, "malformed")
		return
	}
	redeemed := f.req.From
	if !sameSite && redeemed != c.Network {
		redeemed = 0 // no evidence against a network that another site may have used
	}
	// What was solved beyond the parts that the token names was asked for because the
	// price had risen: it counts in doublings.
	parts, met := int(c.Parts), c.Bits
	for len(solution)/4 >= 2*parts && parts < maxParts {
		parts, met = 2*parts, met+1
	}
	if err := pow.Verify(&c, &seed, parts, solution); err != nil {
		s.failed(ctx, fasthttp.StatusForbidden, "wrong")
		return
	}
	base := s.ledger.BaseBits() + surcharge(c.Level)
	paid := max(met, base) - base
	if met >= maxBits {
		paid = mint.MaxDoublings // no more is ever asked for
	}
	first, err := s.ledger.MintPaid(pow.Distinct(&seed), c.Network, redeemed, paid, now.UnixNano())
	var risen mint.ErrPrice
	switch {
	case errors.As(err, &risen):
		s.tooCheap(ctx, &c, min(base+risen.Price, maxBits), parts)
		return
	case err != nil:
		s.ceiling(ctx, err)
		return
	}
	if first {
		s.stats.solved.Inc()
		s.stats.minted(c.Level)
		if !c.Surge && parts == int(c.Parts) && c.Bits == base && c.Level == workLevel {
			// Issued is in whole seconds: on average half a second too early.
			took := max(now.Sub(time.Unix(int64(c.Issued), 0))-time.Second/2, time.Millisecond)
			s.ledger.Solved(c.Network, took, c.Bits, now.UnixNano())
		}
	}
	s.setPass(ctx, st, f, &c, now)
	ctx.Response.SetStatusCode(fasthttp.StatusOK)
	ctx.Response.Header.SetContentType("application/json")
	ctx.Response.SetBodyString(`{"ok":true}`)
}

// tooCheap asks for the missing parts: many passes were minted since the challenge was
// issued, and there is to be nothing in fetching ten thousand challenges first and
// solving them later. What was paid already stays paid.
func (s *Server) tooCheap(ctx *fasthttp.RequestCtx, c *pow.Challenge, bits uint8, solved int) {
	parts := int(c.Parts)
	for ; bits > c.Bits && parts < maxParts; bits-- {
		parts *= 2
	}
	parts = min(max(parts, 2*solved), maxParts)
	s.stats.failed(kindWork, "price")
	ctx.Response.SetStatusCode(fasthttp.StatusPaymentRequired)
	ctx.Response.Header.SetContentType("application/json")
	ctx.Response.SetBodyString(`{"error":"price","parts":` + strconv.Itoa(parts) + `}`)
}

// setPass sends the pass that a challenge makes.
func (s *Server) setPass(ctx *fasthttp.RequestCtx, st *state, f *facts, c *pow.Challenge, now time.Time) {
	p := cookie.Pass{Level: c.Level, Expires: c.Expires, ID: c.ID}
	p.Proven[0] = st.passes.Tag(st.passes.SignID(), c.Network)
	if c.Key == st.passes.SignID() { // the tags of another key name nothing in this one's passes
		copy(p.Proven[1:], c.Proven[:])
	}
	f.token = st.passes.Append(f.token[:0], &p)
	left := uint32(0)
	if n := uint32(now.Unix()); c.Expires > n {
		left = c.Expires - n
	}
	ctx.Response.Header.SetBytesV("Set-Cookie", cookie.AppendSet(nil, st.cfg.Pass.Cookie, f.token, left, f.secure()))
}

// hasPass tells a script whether the cookie that was set has come back.
func (s *Server) hasPass(ctx *fasthttp.RequestCtx) {
	f := s.facts.Get().(*facts)
	defer s.facts.Put(f)
	f.read(ctx.Request.Header.RawHeaders())
	f.identify(s.state.Load(), uint32(s.now().Unix()))
	noStore(ctx)
	if f.hasPass {
		ctx.Response.SetStatusCode(fasthttp.StatusNoContent)
		return
	}
	ctx.Response.SetStatusCode(fasthttp.StatusForbidden)
}

func (s *Server) failed(ctx *fasthttp.RequestCtx, status int, why string) {
	s.stats.failed(kindWork, why)
	s.proofError(ctx, status, why)
}

func (s *Server) proofError(ctx *fasthttp.RequestCtx, status int, why string) {
	ctx.Response.SetStatusCode(status)
	ctx.Response.Header.SetContentType("application/json")
	ctx.Response.SetBodyString(`{"error":"` + why + `"}`)
}

// ceiling answers a network that has had its passes for today.
func (s *Server) ceiling(ctx *fasthttp.RequestCtx, err error) {
	retry := uint32(3600)
	var full mint.ErrCeiling
	if errors.As(err, &full) {
		retry = uint32(max(full.Retry/time.Second, 1))
	}
	s.stats.failed(kindWork, "ceiling")
	retryAfter(ctx, retry)
	ctx.Response.SetStatusCode(fasthttp.StatusTooManyRequests)
	ctx.Response.Header.SetContentType("application/json")
	ctx.Response.SetBodyString(`{"error":"ceiling","retry":` + strconv.FormatUint(uint64(retry), 10) + `}`)
}

// sameOrigin tells whether the request certainly comes from one of our own pages
// (certain), and whether it may be served at all (ok): not if another site sent it.
// Programs that are no browsers say nothing, and are served without certainty.
func (f *facts) sameOrigin() (certain, ok bool) {
	site, origin := f.req.Header[config.HeaderSecFetchSite], f.req.Header[config.HeaderOrigin]
	if site != "" && site != "same-origin" && site != "none" {
		return false, false
	}
	if origin == "" {
		return site != "", true
	}
	u, err := url.Parse(origin)
	if err != nil || u.Host == "" {
		return false, false // "null": a sandboxed frame or a data: page
	}
	if len(f.host) == 0 {
		return false, true
	}
	return true, strings.EqualFold(u.Hostname(), hostname(borrow(f.host)))
}

// hostname is a host without its port.
func hostname(host string) string {
	u := url.URL{Host: host}
	return u.Hostname()
}

var errProof = errors.New("not a proof")

// parseProof reads the body of a proof. JSON is asked for by its media type because a
// browser lets no other site send that without asking us first (CORS).
func parseProof(contentType string, body []byte) (token string, solution []byte, err error) {
	media, _, _ := strings.Cut(contentType, ";")
	if !strings.EqualFold(strings.TrimSpace(media), "application/json") || len(body) > maxProofBytes {
		return "", nil, errProof
	}
	var b proofBody
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(&b); err != nil {
		return "", nil, errProof
	}
	if _, err := d.Token(); err != io.EOF {
		return "", nil, errProof // something after the object
	}
	solution, err = pow.AppendSolution(nil, []byte(b.Solution))
	if err != nil || len(solution) == 0 || len(solution)%4 != 0 {
		return "", nil, errProof
	}
	return b.Token, solution, nil
}
