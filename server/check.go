package server

import (
	"time"

	"github.com/valyala/fasthttp"

	"stile/decide"
)

// verifyAgent is who asks in `./deploy.sh verify`: the script sees by a counter whether its question has come here,
// whatever else is asked at the same time. Otherwise it is treated as anybody.
const verifyAgent = "stile deploy.sh verify"

var (
	nameVerdict      = []byte("X-Stile-Verdict")
	nameLease        = []byte("X-Stile-Lease")
	valueLease       = []byte("1")
	nameCacheControl = []byte("Cache-Control")
	valueNoStore     = []byte("no-store")
)

// check answers nginx's question about one request: 200, 401 or 429, never anything
// else, with the verdict in a header and no body.
func (s *Server) check(ctx *fasthttp.RequestCtx) {
	start := s.now()
	st := s.state.Load()
	f := s.facts.Get().(*facts)
	v := s.judge(st, f, ctx.Request.Header.RawHeaders(), start)
	policy := s.engine.Policy()
	v, leased, waited := s.turn(ctx.Conn(), policy, f, v)
	rule := policy.RuleName(v)
	f.verdictText = v.AppendToken(f.verdictText[:0], rule)

	// Names that fasthttp need not bring into canonical form.
	h := &ctx.Response.Header
	h.SetCanonical(nameVerdict, f.verdictText)
	h.SetCanonical(nameCacheControl, valueNoStore)
	if leased {
		h.SetCanonical(nameLease, valueLease)
	}
	ctx.Response.SetStatusCode(s.status(v, policy.Observing()))
	if f.req.Agent == verifyAgent && v.Reason != decide.Misconfig {
		s.stats.verified.Inc()
	}
	s.facts.Put(f)
	s.stats.check(v, s.now().Sub(start)-waited)
}

// judge reads the facts and decides.
func (s *Server) judge(st *state, f *facts, raw []byte, now time.Time) decide.Verdict {
	f.read(raw)
	if f.fault != "" {
		s.stats.misconfigured(s.log, f.fault, f.host)
		if f.missing() {
			// A broken configuration is the operator's, not the visitor's: the site stays up.
			return decide.Verdict{Action: decide.Allow, Reason: decide.Misconfig}
		}
	}
	if f.badTarget {
		return decide.Verdict{Action: decide.Refuse, Reason: decide.Malformed}
	}
	f.identify(st, uint32(now.Unix()))
	return s.engine.Decide(&f.req, now.UnixNano())
}

func (s *Server) status(v decide.Verdict, observing bool) int {
	switch {
	case observing || v.Action == decide.Allow:
		return fasthttp.StatusOK
	case v.Action == decide.Challenge:
		return fasthttp.StatusUnauthorized
	}
	return fasthttp.StatusTooManyRequests
}
