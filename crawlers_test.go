package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"stile/crawler"
	"stile/geo/geotest"
)

func TestCrawlersCommand(t *testing.T) {
	var answer atomic.Value
	answer.Store(`{"prefixes":[{"ipv4Prefix":"9.9.9.0/24"}]}`)
	list := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, answer.Load()) }))
	defer list.Close()
	dir := t.TempDir()
	file := filepath.Join(dir, "stile.toml")
	text := fmt.Sprintf("[state]\ndir = %q\n[crawler]\nurls = { openai-user = %q, bing = %q }\n", dir, list.URL, list.URL)
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	f := func(status int, want string, args ...string) {
		t.Helper()
		out, errs, got := stile(t, append([]string{"crawlers"}, args...)...)
		if got != status || !strings.Contains(out+errs, want) {
			t.Errorf("%s: status %d\n%s%s\nwant %d and %q", args, got, out, errs, status, want)
		}
	}
	f(0, "openai-user  nothing yet", "-c", file)
	all, _, _ := stile(t, "crawlers", "-c", file)
	for _, name := range crawler.Names() {
		if !strings.Contains("\n"+all, "\n"+name+" ") {
			t.Errorf("%s is not in\n%s", name, all)
		}
	}
	f(2, "want update", "-c", file, "updaet")
	f(2, `there is no crawler "googel"; there are google,`, "update", "-c", file, "googel")
	f(2, "name it", "update", "-c", file, "--from", file)
	f(1, "it is verified by DNS; the list stays as it was", "update", "-c", file, "yandex")
	f(0, "openai-user: 1 ranges: 1 new, 0 gone", "update", "-c", file, "openai-user")
	f(0, "openai-user  address", "-c", file)
	f(0, "bing: 1 ranges: 1 new, 28 gone", "update", "-c", file, "bing", "bing")
	saved := filepath.Join(dir, "crawlers", "bing.json")
	before, err := os.ReadFile(saved)
	if err != nil {
		t.Fatal(err)
	}
	for _, broken := range []string{"", "<html>", `{"prefixes":[`, "10.0.0.0/8\n"} {
		answer.Store(broken)
		f(1, "the list stays as it was", "update", "-c", file, "bing")
		if now, err := os.ReadFile(saved); err != nil || string(now) != string(before) {
			t.Fatalf("%s has changed the list: %s %v", broken, now, err)
		}
	}
	brought := filepath.Join(dir, "brought")
	if err := os.WriteFile(brought, []byte(`{"creationTime":"2026-12-01T00:00:00","prefixes":[{"ipv4Prefix":"8.8.4.0/24"},{"ipv4Prefix":"8.8.8.0/24"}]}`), 0o644); err != nil {
		t.Fatal(err)
	}
	f(0, "bing: 2 ranges: 2 new, 1 gone", "update", "-c", file, "--from", brought, "bing")
	f(0, "2026-12-01", "-c", file)
	f(1, "no such file", "update", "-c", file, "--from", brought+"x", "bing")
	if err := os.WriteFile(saved, before[:20], 0o644); err != nil {
		t.Fatal(err)
	}
	f(1, "`stile crawlers update bing` makes the file anew", "-c", file)
	f(0, "bing: 2 ranges", "update", "-c", file, "--from", brought, "bing")
}

// That lists are old, or cannot be read, is said where rules use them, and is no fault.
func TestCheckSaysOldLists(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "stile.toml")
	f := func(want bool, rules string) {
		t.Helper()
		text := fmt.Sprintf("include = []\n[state]\ndir = %q\n[crawler]\nmax_age = '1d'\n%s", dir, rules)
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		out, errs, status := stile(t, "check", "-c", file)
		if old := strings.Contains(out, "older than 1 days (google, "); status != 0 || old != want {
			t.Errorf("%s: status %d\n%s%s", rules, status, out, errs)
		}
		if broken := strings.Contains(errs, "makes the file anew"); broken != want {
			t.Errorf("%s: a broken list: %s", rules, errs)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "crawlers"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "crawlers", "bing.json"), []byte("<html>"), 0o644); err != nil {
		t.Fatal(err)
	}
	f(true, "[[rule]]\nname = 'a'\ncrawler = 'google'\ndo = 'allow'\n")
	f(false, "[[rule]]\nname = 'a'\npath = '/x'\ndo = 'allow'\n")
}

func TestExplainAssumes(t *testing.T) {
	dir := t.TempDir()
	file, places := filepath.Join(dir, "stile.toml"), filepath.Join(dir, "places.mmdb")
	text := fmt.Sprintf("include = []\n[state]\ndir = %q\n[geo]\nfile = %q\n[[rule]]\nname = 'a'\ncrawler = 'google'\ndo = 'allow'\n[[rule]]\nname = 'b'\nasn = 64496\ncountry = 'DE'\ndo = 'deny'\n", dir, places)
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := geotest.Write(places, "All", map[string]map[string]any{"198.51.100.0/24": {"autonomous_system_number": uint32(64496), "country": map[string]any{"iso_code": "DE"}}}); err != nil {
		t.Fatal(err)
	}
	f := func(status int, want string, args ...string) {
		t.Helper()
		out, errs, got := stile(t, append([]string{"explain", "-c", file}, args...)...)
		if got != status || !strings.Contains(out+errs, want) {
			t.Errorf("%s: status %d\n%s%s\nwant %d and %q", args, got, out, errs, status, want)
		}
	}
	bot := "User-Agent: Googlebot/2.1"
	f(0, "verdict    allow", "--addr", "66.249.66.1", "-H", bot, "/x")
	f(0, "2 crawler  verified: google", "--addr", "66.249.66.1", "-H", bot, "/x")
	f(0, "unknown, not looked up: --crawler verified:google", "-H", bot, "/x")
	f(0, `rule "a": yes`, "--crawler", "verified:google", "/x")
	f(0, `rule "a": no: its crawler does not hold`, "--crawler", "spoofed", "/x")
	f(0, "503 and", "--crawler", "pending:google", "/x")
	f(2, "want verified:NAME", "--crawler", "googlebot", "/x")
	f(0, "2 country  DE", "--addr", "198.51.100.1", "/x")
	f(0, "verdict    deny", "--addr", "198.51.100.1", "/x")
	f(0, "verdict    deny", "--asn", "64496", "--country", "DE", "/x")
	f(0, "2 asn      not known", "/x")
	f(2, "want the two letters", "--country", "Germany", "/x")
	out, errs, status := stile(t, "check", "-c", file)
	if status != 0 {
		t.Errorf("check: %d %s%s", status, out, errs)
	}
	if err := os.Remove(places); err != nil {
		t.Fatal(err)
	}
	f(0, "there is no such file", "/x")
	if _, errs, status := stile(t, "check", "-c", file); status != 1 || !strings.Contains(errs, "there is no such file: get one in MaxMind's format") {
		t.Errorf("check without the file: %d %s", status, errs)
	}
}
