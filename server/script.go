package server

import (
	"strings"

	"github.com/valyala/fasthttp"
)

// script serves the one script: the solver and the page's own, as page and as worker.
func (s *Server) script(ctx *fasthttp.RequestCtx, query []byte) {
	pages := s.state.Load().pages
	body, gzipped, version := pages.Script()
	h := &ctx.Response.Header
	h.SetContentType("text/javascript; charset=utf-8")
	// A worker takes its policy from its own script's answer.
	h.Set("Content-Security-Policy", pages.CSP())
	h.Set("Vary", "Accept-Encoding")
	if string(query) == "v="+version {
		h.Set("Cache-Control", "public, max-age=31536000, immutable")
	} else {
		h.Set("Cache-Control", "no-cache") // another version's page is still open somewhere
	}
	if acceptsGzip(string(ctx.Request.Header.Peek("Accept-Encoding"))) {
		h.Set("Content-Encoding", "gzip")
		body = gzipped
	}
	ctx.Response.SetBodyRaw(body)
}

// acceptsGzip reads an Accept-Encoding header (RFC 9110 §12.5.3).
func acceptsGzip(header string) bool {
	star := false
	for header != "" {
		var item string
		item, header, _ = strings.Cut(header, ",")
		coding, params, _ := strings.Cut(item, ";")
		coding = strings.TrimSpace(coding)
		wanted := true
		if k, q, ok := strings.Cut(params, "="); ok && strings.EqualFold(strings.TrimSpace(k), "q") {
			wanted = strings.Trim(strings.TrimSpace(q), "0.") != ""
		}
		switch {
		case strings.EqualFold(coding, "gzip"), strings.EqualFold(coding, "x-gzip"):
			return wanted
		case coding == "*":
			star = wanted
		}
	}
	return star
}
