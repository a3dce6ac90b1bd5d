package nginx_test

import (
	"testing"

	"stile/nginx/nginxtest"
)

// gated is for the server of plainSite.
const gated = `
    location /gated/ { include snippets/stile-gate.conf; proxy_pass http://app; }
`

// N4: a request that a gate has let in sends one line when it ends, and nobody else does.
func TestLeaseLines(t *testing.T) {
	w := start(t, plain(gated))
	l := nginxtest.StartLeaseLog(t, w.LeaseSocket())
	for _, a := range []*nginxtest.Answer{nginxtest.Allow, nginxtest.Challenge, nginxtest.Refuse, nginxtest.Deny, nginxtest.Full} {
		w.d.Always(a)
		w.Get("/gated/x")
	}
	w.d.Reset()
	w.app.Reset()
	w.d.Always(nginxtest.Admit)
	r := w.Get("/gated/last")
	header(t, r, "X-Stile-Lease", "")
	id := w.d.Calls("/check")[0].Header.Get("X-Request-Id")
	w.expect("let in", r, 200, 1, 1)
	w.Get("/.stile/x")
	if got := l.Wait(1); len(got) != 1 || got[0].ID != id || got[0].Status != "200" || !got[0].Done || got[0].Cost != "-" {
		t.Errorf("lines: %+v", got)
	}
	w.AccessLines(6) // the site's own log has them all
	w.noErrors()
}
