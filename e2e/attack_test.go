package e2e

import (
	"strings"
	"testing"

	"stile/nginx/nginxtest"
)

// What a client sends never opens the site, however large nginx lets it be: the daemon
// answers what is too large for it, and reads the rest before it closes.
func TestOversizedHeadersOpenNothing(t *testing.T) {
	conf := strings.Replace(plainSite, "listen 80;", "listen 80; large_client_header_buffers 8 128k;", 1)
	s := open(t, "include = []\n[[rule]]\nname = \"all\"\npath = \"/**\"\ndo = \"deny\"\n", conf)
	var headers []string
	for _, name := range []string{"User-Agent", "Cookie", "Referer", "Accept", "Origin", "Authorization"} {
		headers = append(headers, name+": "+strings.Repeat("a", 128<<10-100))
	}
	for range 50 {
		r := s.Raw(80, nginxtest.Request("GET", "/x", "", append(headers, "Connection: close")...))
		if r.Status != 403 {
			t.Fatalf("status %d", r.Status)
		}
	}
	if hits := s.app.Hits(); len(hits) > 0 {
		t.Errorf("%d requests reached the app", len(hits))
	}
	if n := s.daemon.metric("stile_protocol_errors_total", ""); n != 50 {
		t.Errorf("the daemon counted %v requests that were too large, want 50", n)
	}
}
