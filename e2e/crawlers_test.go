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
	zone := dnstest.Yandex(t, "127.0.0.5", "127.0.0.2", "127.0.0.3")
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
	ask := func(from, target string, args ...string) (out string, status int) {
		t.Helper()
		return s.curl(target, append([]string{"--interface", from, "-A", dnstest.YandexBot, "-i"}, args...)...)
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

// The default configuration, without a rule about crawlers of one's own: who is verified goes on
// where a stranger's limits end, up to a limit of its own; who is not is a stranger, who is told
// to come again and never challenged; who is refuted is asked as anybody (C122, C126, C128).
func TestCrawlersByDefault(t *testing.T) {
	t.Parallel()
	zone := dnstest.Yandex(t, "192.0.2.1", "192.0.2.2", "192.0.2.3")
	zone.Silence("4.2.0.192.in-addr.arpa.")
	s := open(t, fmt.Sprintf("[crawler]\nresolver = %q\n", zone.Addr), anyAddress)
	const (
		googlebot = "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)"
		archive   = "Mozilla/5.0 (compatible; archive.org_bot +http://archive.org/details/archive.org_bot)"
	)
	from := func(agent, addr string) *visitor {
		v := s.visitor("User-Agent: "+agent, "X-Client: "+addr, "Accept: text/html")
		v.kept = true
		return v
	}
	// Whatever the form in which it asks.
	temporary := func(who string, v *visitor, target string, want int) {
		t.Helper()
		for _, method := range []string{"GET", "HEAD"} {
			for _, accept := range []string{"text/html", "*/*"} {
				r := v.ask(method, target, "", "Accept: "+accept)
				s.expect(who+" over its limit, "+method, r, want, 0)
				if r.Header.Get("Retry-After") == "" || strings.Contains(r.Body, "proof") || strings.Contains(r.Body, "noindex") || r.Header.Get("X-Robots-Tag") != "" {
					t.Errorf("%s: %v %.300q: want when to come again, and no challenge", who, r.Header, r.Body)
				}
			}
		}
		s.expect(who+" asks for robots.txt", v.get("/robots.txt"), 200, 1)
	}
	state := func(agent, state string) {
		t.Helper()
		eventually(t, agent+" is "+state, func() bool {
			return s.daemon.metric("stile_crawler_lookups_total", fmt.Sprintf("result=%q", state)) > 0
		})
	}

	// By the addresses that its owner publishes. What is expensive stays so.
	google := from(googlebot, "66.249.66.1")
	google.use("/page", 300)
	temporary("Google", google, "/page", 429)
	google.use("/search?q=x", 30)
	temporary("Google, searching", google, "/search?q=x", 429)

	// By DNS: as a stranger until that has answered, and not kept waiting.
	yandex := from(dnstest.YandexBot, "192.0.2.1")
	s.expect("Yandex, not known yet", yandex.get("/page"), 200, 1)
	state("Yandex", "verified")
	yandex.use("/page", 300)
	temporary("Yandex", yandex, "/page", 429)

	// Refuted: asked at once, as a person would be, and as anybody where it is expensive.
	forged := from(dnstest.YandexBot, "192.0.2.2")
	s.expect("an imitator, not known yet", forged.get("/page"), 200, 1)
	state("the imitator", "spoofed")
	because := func(who string, v *visitor, target, reason string) {
		t.Helper()
		r := v.get(target, "Accept: application/json")
		if s.expect(who, r, 503, 0); !strings.Contains(r.Body, reason) || r.Header.Get("Retry-After") == "" {
			t.Errorf("%s: %v %.300q, want %s", who, r.Header, r.Body, reason)
		}
	}
	because("an imitator", forged, "/page", "proof-required")
	forged.use("/search?q=x", 30)
	because("an imitator", forged, "/search?q=x", "proof-required")
	s.expect("an imitator asks for robots.txt", forged.get("/robots.txt"), 200, 1)

	// DNS fails; or it is silent, and somebody waits for it; or it does not confirm an archive.
	unknown := from(dnstest.YandexBot, "192.0.2.3")
	s.expect("one of whom DNS says nothing", unknown.get("/page"), 200, 1)
	state("it", "failed")
	unknown.use("/page", 119)
	temporary("who is not known", unknown, "/page", 429)
	pending := from(dnstest.YandexBot, "192.0.2.4")
	pending.use("/search?q=x", 30)
	because("who is being looked up", pending, "/search?q=x", "being-verified")
	wayback := from(archive, "192.0.2.5")
	wayback.use("/page", 120)
	temporary("an archive from nowhere", wayback, "/page", 429)

	// Nobody else has anything to do with it.
	person := s.visitor(append([]string{"X-Client: 192.0.2.9"}, firefox...)...)
	s.expect("a person meanwhile", person.get("/page"), 200, 1)
}

// No resolver, or a broken one, does nothing to anybody (the name of a host that is not there
// would be no address, and is refused as a configuration).
func TestWithoutResolver(t *testing.T) {
	t.Parallel()
	s := open(t, "[crawler]\nresolver = \"127.0.0.1:1\"\n", anyAddress)
	for i, agent := range []string{dnstest.YandexBot, "Mozilla/5.0 (compatible; bingbot/2.0; +http://www.bing.com/bingbot.htm)", "Mozilla/5.0 Firefox/140.0"} {
		v := s.visitor("User-Agent: "+agent, fmt.Sprintf("X-Client: 192.0.2.%d", i+1), "Accept: text/html")
		v.kept = true
		v.use("/page", 120)
	}
	listed := s.visitor("User-Agent: bingbot/2.0", "X-Client: 157.55.39.1", "Accept: text/html")
	listed.kept = true
	listed.use("/page", 200)
	eventually(t, "the lookups have failed", func() bool { return s.daemon.metric("stile_crawler_lookups_total", "result=\"failed\"") == 2 })
	if n := s.daemon.metric("stile_crawler_queue_length", ""); n != 0 {
		t.Errorf("%g lookups wait", n)
	}
}
