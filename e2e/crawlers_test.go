package e2e

import (
	"fmt"
	"strings"
	"testing"

	"stile/crawler/dnstest"
)

// A crawler comes, is looked up, and comes again, behind the real nginx (C122, C126,
// C128, C130).
func TestCrawlersBehindNginx(t *testing.T) {
	zone := dnstest.New(t,
		dnstest.Reverse("127.0.0.5", "spider.yandex.com."), "spider.yandex.com. 60 IN A 127.0.0.5",
		dnstest.Reverse("127.0.0.2", "mine.evil.example."), "mine.evil.example. 60 IN A 127.0.0.2")
	zone.Break("3.0.0.127.in-addr.arpa.")
	s := open(t, fmt.Sprintf(`
[crawler]
resolver = %q
[[rule]]
name = "crawlers"
crawler = "verified"
do = "allow"
[[rule]]
name = "forged"
crawler = "spoofed"
suspect = 20
[[rule]]
name = "dear"
path = "/dear/**"
do = "challenge"
`, zone.Addr), "")
	const yandex = "Mozilla/5.0 (compatible; YandexBot/3.0; +http://yandex.com/bots)"
	ask := func(from, target string, args ...string) (out string, status int) {
		t.Helper()
		return s.curl(target, append([]string{"--interface", from, "-A", yandex, "-i"}, args...)...)
	}
	temporary := func(what, out string, status, want int) {
		t.Helper()
		if status != want || !strings.Contains(strings.ToLower(out), "\nretry-after: ") || !strings.Contains(out, "no-store") || strings.Contains(strings.ToLower(out), "noindex") {
			t.Errorf("%s: %d\n%s\nwant %d and when to come again", what, status, out, want)
		}
	}
	for from, want := range map[string]int{"127.0.0.5": 200, "127.0.0.2": 503, "127.0.0.3": 429} {
		before := len(s.app.Hits())
		out, status := ask(from, "/dear/page")
		temporary("the first request from "+from, out, status, 503)
		if len(s.app.Hits()) != before {
			t.Errorf("the application has worked for %s", from)
		}
		if _, status := ask(from, "/robots.txt"); status != 200 {
			t.Errorf("robots.txt for %s: %d", from, status)
		}
		// It comes again, until it is known who it is.
		eventually(t, "it is known who "+from+" is", func() bool {
			out, status = ask(from, "/dear/page")
			return status != 503 || !strings.Contains(out, "being-verified")
		})
		if status != want {
			t.Errorf("from %s: %d, want %d", from, status, want)
		}
		if status != 200 {
			temporary("what "+from+" gets", out, status, want) // never to be archived as the page
		}
		if _, status := ask(from, "/dear/page", "-I"); status != want {
			t.Errorf("HEAD from %s: %d, want %d", from, status, want)
		}
	}
	for state, want := range map[string]bool{"verified": true, "spoofed": true, "unknown": true, "pending": true} {
		if got := s.daemon.metric("stile_crawler_checks_total", fmt.Sprintf("crawler=\"yandex\",state=%q", state)) > 0; got != want {
			t.Errorf("%s is counted: %v", state, got)
		}
	}
	if n := s.daemon.metric("stile_crawler_lookups_total", ""); n < 3 {
		t.Errorf("%g lookups are counted", n)
	}
	// A browser from the same addresses is asked as ever.
	if out, status := s.curl("/dear/page", "-A", "Mozilla/5.0 Firefox/140.0", "-H", "Accept: text/html"); status != 503 || !strings.Contains(out, "/.stile/stile.js") {
		t.Errorf("a browser: %d %s", status, out)
	}
}
