package server

import (
	"github.com/valyala/fasthttp"
)

// handleAdmin serves the operator's side: its own listener, never reachable through a
// site.
func (s *Server) handleAdmin(ctx *fasthttp.RequestCtx) {
	defer s.recovered(ctx)
	noStore(ctx)
	ctx.Response.Header.SetContentType("text/plain; charset=utf-8")
	switch string(ctx.Path()) {
	case "/metrics":
		s.stats.write(ctx, s.engine.Policy(), s.ledger, &s.gates, &s.holds, s.now().UnixNano())
	case "/healthz":
		ctx.SetBodyString("ok\n")
	case "/hold":
		s.hold(ctx)
	default:
		ctx.Response.SetStatusCode(fasthttp.StatusNotFound)
		ctx.SetBodyString("404 Not Found: there are /metrics, /healthz and /hold\n")
	}
}
