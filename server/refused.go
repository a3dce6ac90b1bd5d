package server

import (
	"strings"

	"github.com/valyala/fasthttp"

	"stile/config"
	"stile/decide"
	"stile/server/page"
)

// refused serves what a visitor sees in place of a page that was refused. It is reached
// only from nginx's named location, with the verdict that check gave.
func (s *Server) refused(ctx *fasthttp.RequestCtx) {
	f := s.facts.Get().(*facts)
	defer s.facts.Put(f)
	f.read(ctx.Request.Header.RawHeaders())
	noStore(ctx)
	v, _, ok := decide.ParseToken(borrow(f.verdict))
	if !ok || v.Action != decide.Refuse {
		// nginx's own 403, of deny perhaps: a plain one, as without stile.
		ctx.Response.SetStatusCode(fasthttp.StatusForbidden)
		ctx.Response.Header.SetContentType("text/plain; charset=utf-8")
		ctx.Response.SetBodyString("403 Forbidden\n")
		return
	}
	p := page.Refused{Posted: f.req.Method != "GET" && f.req.Method != "HEAD"}
	reason := "too-many-requests"
	switch {
	case v.Reason == decide.Deny:
		p.Reason, reason = page.Denied, "denied"
		ctx.Response.SetStatusCode(fasthttp.StatusForbidden)
	case v.Reason == decide.Gate && !v.Unsafe:
		p.Reason, reason = page.Busy, "busy"
		ctx.Response.SetStatusCode(fasthttp.StatusServiceUnavailable)
	case v.Reason == decide.Crawler: // temporary, so that a genuine one comes again
		p.Reason, reason = page.Busy, "being-verified"
		ctx.Response.SetStatusCode(fasthttp.StatusServiceUnavailable)
	case v.Reason == decide.Closed: // not the site's fault, and over in a moment
		p.Reason, reason = page.Busy, "busy"
		ctx.Response.SetStatusCode(fasthttp.StatusTooManyRequests)
	default:
		p.Reason = page.Limit
		if v.Unsafe {
			p.Reason, reason = page.Unsafe, page.ProofRequired
		}
		ctx.Response.SetStatusCode(fasthttp.StatusTooManyRequests)
	}
	if v.Reason != decide.Deny {
		retry := decide.Retry(v.Retry)
		p.RetrySeconds = int(retry)
		retryAfter(ctx, retry)
	}
	if !decide.Navigation(&f.req.Header) {
		s.plain(ctx, f, reason, p.RetrySeconds)
		return
	}
	s.refusedPage(ctx, s.state.Load(), f, &p)
}

// refusedPage renders a page without a challenge.
func (s *Server) refusedPage(ctx *fasthttp.RequestCtx, st *state, f *facts, p *page.Refused) {
	p.Lang, p.Support = page.PickLanguage(f.req.Header[config.HeaderAcceptLanguage]), f.support()
	ctx.Response.Header.SetContentType("text/html; charset=utf-8")
	ctx.Response.Header.Set("Content-Security-Policy", st.pages.CSP())
	f.page = st.pages.AppendRefused(f.page[:0], p)
	ctx.Response.SetBody(f.page)
}

// wantsJSON tells whether a program asked that reads JSON rather than text.
func wantsJSON(h *decide.Header) bool {
	return strings.Contains(h[config.HeaderAccept], "json") || h[config.HeaderXRequestedWith] != ""
}
