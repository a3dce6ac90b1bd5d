package server

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"stile/config"
	"stile/crawler"
	"stile/crawler/dnstest"
	"stile/geo/geotest"
)

const (
	crawlerTOML = `
[[rule]]
name = "crawlers"
crawler = "verified"
do = "allow"
[[rule]]
name = "forged"
crawler = "spoofed"
suspect = 20
[[rule]]
name = "all"
path = "/x/**"
do = "challenge"
`
	yandex    = "User-Agent: " + dnstest.YandexBot
	googlebot = "User-Agent: Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)"
	archive   = "User-Agent: Mozilla/5.0 (compatible; archive.org_bot +http://archive.org/details/archive.org_bot)"
)

// lookups is a world whose lookups are done by a DNS server of its own.
func lookups(t *testing.T, toml string, zone *dnstest.Zone) *world {
	return newWorld(t, fmt.Sprintf("%s\n[crawler]\nresolver = %q\n", toml, zone.Addr))
}

// looked does the lookups that wait.
func (w *world) looked() { w.s.crawlers.LookUp(w.t.Context()) }

// What a crawler sees by what is known of it (C122, C126): never a 200 of ours, and while
// it is being looked up nothing that it would take for final.
func TestCrawlerStates(t *testing.T) {
	zone := dnstest.Yandex(t, "192.0.2.1", "192.0.2.2", "192.0.2.3")
	w := lookups(t, crawlerTOML, zone)
	f := func(request, addr, agent string, status int, verdict string) *fasthttp.Response {
		t.Helper()
		r := w.visit(request, addr, agent, "Accept: text/html")
		if r.StatusCode() != status {
			t.Errorf("%s from %s: %d, want %d", request, addr, r.StatusCode(), status)
		}
		if got := string(w.check(request, addr, agent).Header.Peek("X-Stile-Verdict")); got != verdict {
			t.Errorf("%s from %s: %s, want %s", request, addr, got, verdict)
		}
		return r
	}
	waits := "refuse;reason=crawler;retry=10;rule=crawlers"
	r := w.visit("GET /x/y", "192.0.2.1", yandex, "Accept: text/html")
	if r.StatusCode() != 503 || len(r.Header.Peek("Retry-After")) == 0 || !strings.Contains(string(r.Header.Peek("Cache-Control")), "no-store") {
		t.Errorf("while it is looked up: %v", r)
	}
	w.looked()
	f("GET /x/y", "192.0.2.1", yandex, 200, "allow;rule=crawlers")
	if got := string(w.check("GET /x/y", "192.0.2.2", yandex).Header.Peek("X-Stile-Verdict")); got != waits {
		t.Errorf("the first request of an imitator: %s", got)
	}
	w.looked()
	f("GET /x/y", "192.0.2.2", yandex, 503, "challenge;level=2;reason=demand;rule=all")
	// One that DNS says nothing about waits once, and is a stranger then, but never asked.
	if got := string(w.check("GET /x/y", "192.0.2.3", yandex).Header.Peek("X-Stile-Verdict")); got != waits {
		t.Errorf("the first request of an unknown one: %s", got)
	}
	w.looked()
	r = f("GET /x/y", "192.0.2.3", yandex, 429, "refuse;reason=demand;retry=600;rule=all")
	if len(r.Header.Peek("Retry-After")) == 0 {
		t.Errorf("an unknown one is not told when to come again: %v", r)
	}
	// By its published addresses at once, whatever DNS says.
	f("GET /x/y", "66.249.66.1", googlebot, 200, "allow;rule=crawlers")
	f("GET /x/y", "::ffff:66.249.66.1", googlebot, 200, "allow;rule=crawlers")
	f("GET /x/y", "207.241.225.9", archive, 200, "allow;rule=crawlers")
	// robots.txt is never withheld (C128).
	for _, target := range []string{"/robots.txt", "/favicon.ico", "/.well-known/security.txt"} {
		if r := w.check("GET "+target, "192.0.2.99", yandex); r.StatusCode() != 200 {
			t.Errorf("%s: %d while it is looked up", target, r.StatusCode())
		}
	}
	if n := zone.Asked.Load(); n == 0 || n > 20 {
		t.Errorf("%d questions", n)
	}
	if w.s.crawlers.Lookups(crawler.ResultVerified) != 1 || w.s.crawlers.Lookups(crawler.ResultSpoofed) != 1 || w.s.crawlers.Lookups(crawler.ResultFailed) != 1 {
		t.Error("the lookups are not counted")
	}
}

// A policy that does not ask who a crawler is looks nothing up, and withholds nothing.
func TestNoRuleNoLookup(t *testing.T) {
	zone := dnstest.New(t)
	w := lookups(t, "include = []", zone)
	for _, agent := range []string{yandex, googlebot} {
		if r := w.check("GET /", "192.0.2.1", agent); r.StatusCode() != 200 {
			t.Errorf("%s: %v", agent, r)
		}
	}
	if n, _ := w.s.crawlers.Queue(); n != 0 || zone.Asked.Load() != 0 {
		t.Errorf("%d lookups, %d questions", n, zone.Asked.Load())
	}
}

// A person's browser through Google's translation has Google's address, and is let
// through where a rule says so (C123).
func TestTranslatedPages(t *testing.T) {
	w := lookups(t, "[[rule]]\nname = 'translated'\ncrawler = 'google-user'\ndo = 'meter'\nmeter = 'pages'\nproof = 'never'\n"+crawlerTOML, dnstest.New(t))
	browser := "User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"
	if got := string(w.check("GET /x/y", "66.249.84.200", browser).Header.Peek("X-Stile-Verdict")); got != "allow;rule=translated" {
		t.Errorf("from Google: %s", got)
	}
	if r := w.check("GET /x/y", "192.0.2.1", browser); r.StatusCode() != 401 {
		t.Errorf("from elsewhere: %v", r)
	}
}

// That lists are old is told calmly, and once; of those who are not in them nobody is taken
// for an imitator (C130).
func TestOldListsAreToldOnce(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "stile.toml")
	if err := os.WriteFile(file, []byte(fmt.Sprintf("[key]\nfile = %q\n[state]\ndir = %q\n", filepath.Join(dir, "key"), dir)), 0o644); err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 9, 4, 0, 0, 0, 0, time.UTC)
	var log bytes.Buffer
	s, err := New(cfg, Options{File: file, Now: func() time.Time { return now }, Log: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	told := func(want int) {
		t.Helper()
		text := log.String()
		if got := strings.Count(text, "lists of crawlers' addresses are old"); got != want || strings.Contains(text, "level=WARN") || strings.Contains(text, "level=ERROR") {
			t.Errorf("at %s told %d times, want %d:\n%s", now, got, want, text)
		}
	}
	told(0)
	now = now.AddDate(10, 0, 0) // whenever they are renewed
	for range 3 {
		if err := s.reload(); err != nil {
			t.Fatal(err)
		}
	}
	told(1)
	w := &world{t: t, s: s, now: now}
	for range 200 {
		w.check("GET /", "192.0.2.1", "User-Agent: GPTBot/1.1")
	}
	if got := string(w.check("GET /", "192.0.2.1", "User-Agent: GPTBot/1.1").Header.Peek("X-Stile-Verdict")); !strings.HasPrefix(got, "refuse;reason=meter;") {
		t.Errorf("a crawler that is not in the list: %s", got)
	}
}

// That they are old is told when a reload brings the first rule that asks for them.
func TestOldListsAreToldWhenTheyCount(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "stile.toml")
	write := func(rules string) {
		t.Helper()
		if err := os.WriteFile(file, fmt.Appendf(nil, "include = []\n[key]\nfile = %q\n[state]\ndir = %q\n%s", filepath.Join(dir, "key"), dir, rules), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("")
	cfg, err := config.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2027, 9, 4, 0, 0, 0, 0, time.UTC)
	var log bytes.Buffer
	s, err := New(cfg, Options{File: file, Now: func() time.Time { return now }, Log: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	for want, rules := range []string{"", "[[rule]]\nname = 'a'\ncrawler = 'google'\ndo = 'allow'\n"} {
		write(rules)
		if err := s.reload(); err != nil {
			t.Fatal(err)
		}
		if got := strings.Count(log.String(), "lists of crawlers' addresses are old"); got != want {
			t.Errorf("told %d times, want %d:\n%s", got, want, log.String())
		}
	}
}

// By default a swarm of strangers stops neither crawlers nor translated pages; and they have
// limits of their own, for all of them together, too.
func TestCrawlersBesideASwarm(t *testing.T) {
	w := lookups(t, "", dnstest.New(t))
	browser := "User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"
	// served is how many of n requests from addresses of one network after another are.
	served := func(network, agent string, addresses, n int) (served int) {
		t.Helper()
		for i := range n {
			addr := fmt.Sprintf(network, i%addresses)
			v := string(w.check("GET /page", addr, agent).Header.Peek("X-Stile-Verdict"))
			switch {
			case strings.HasPrefix(v, "allow;"):
				served++
			case strings.HasPrefix(v, "challenge;") && agent != browser, !strings.Contains(v, "reason=collective"):
				t.Fatalf("%s as %.40s: %s", addr, agent, v)
			}
		}
		return served
	}
	if n := served("198.18.%d.1", browser, 200, 4000); n != 3000 {
		t.Errorf("%d strangers are served, want 3000", n)
	}
	if n := served("66.249.66.%d", googlebot, 30, 1500); n != 1200 {
		t.Errorf("Google is served %d times, want 1200", n)
	}
	if n := served("66.249.84.%d", "User-Agent: Mozilla/5.0 (X11) Chrome/140.0,gzip(gfe) (via translate.google.com)", 30, 400); n != 300 {
		t.Errorf("%d translated pages are served, want 300", n)
	}
	// Who only says that he is one is in the swarm.
	if n := served("198.19.%d.1", "User-Agent: GPTBot/1.1", 200, 200); n != 0 {
		t.Errorf("%d pages for who says he is a crawler", n)
	}
}

func TestReloadReadsListsAndPlaces(t *testing.T) {
	dir := t.TempDir()
	file, places := filepath.Join(dir, "stile.toml"), filepath.Join(dir, "asn.mmdb")
	write := func(asn uint32, rules string) {
		t.Helper()
		if err := geotest.Write(places, "ASN", map[string]map[string]any{"198.51.100.0/24": {"autonomous_system_number": asn}}); err != nil {
			t.Fatal(err)
		}
		text := fmt.Sprintf("include = []\n[key]\nfile = %q\n[state]\ndir = %q\n[geo]\nfile = %q\n%s", filepath.Join(dir, "key"), dir, places, rules)
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	const rules = "[[rule]]\nname = 'as'\nasn = 64496\ndo = 'deny'\n[[rule]]\nname = 'openai'\ncrawler = 'openai-user'\ndo = 'deny'\n"
	write(64496, rules)
	cfg, err := config.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(cfg, Options{File: file})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, s: s}
	f := func(addr, agent string, want int) {
		t.Helper()
		if r := w.check("GET /", addr, agent); r.StatusCode() != want {
			t.Errorf("%s as %s: %d, want %d", addr, agent, r.StatusCode(), want)
		}
	}
	chatgpt := "User-Agent: ChatGPT-User/1.0"
	f("198.51.100.9", "X: y", 429)
	f("8.8.8.8", chatgpt, 200) // there is no list: unknown
	write(64497, rules)
	list, err := crawler.ReadList([]byte(`{"name":"openai-user","date":"2026-11-30","sources":["x"],"prefixes":["8.8.8.0/24"]}`))
	if err != nil {
		t.Fatal(err)
	}
	if err := crawler.WriteList(crawler.Dir(dir), list); err != nil {
		t.Fatal(err)
	}
	s.Reload()
	f("198.51.100.9", "X: y", 200)
	f("8.8.8.8", chatgpt, 429)
	// A file that is gone changes nothing.
	if err := os.Remove(places); err != nil {
		t.Fatal(err)
	}
	if err := s.reload(); err == nil || !strings.Contains(err.Error(), "there is no such file") {
		t.Errorf("without the file: %v", err)
	}
	f("8.8.8.8", chatgpt, 429)
	if _, err := New(cfg, Options{File: file}); err == nil || !strings.Contains(err.Error(), "GeoLite2-ASN.mmdb") {
		t.Errorf("a start without the file: %v", err)
	}
	write(1, "[[rule]]\nname = 'c'\ncountry = 'DE'\ndo = 'deny'\n")
	if err := s.reload(); err == nil || !strings.Contains(err.Error(), "rules have country, and no file has any") {
		t.Errorf("a file of the other kind: %v", err)
	}
}
