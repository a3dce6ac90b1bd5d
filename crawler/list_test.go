package crawler

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"stile/network"
)

// now is a day on which the built-in lists are fresh.
var now = time.Date(2026, 9, 30, 12, 0, 0, 0, time.UTC)

func load(t testing.TB, dir string) *Lists {
	t.Helper()
	l, err := Load(dir, 90*24*time.Hour, now)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// Every list in the binary is right, dated, with its source, and of a crawler that has
// a use for it.
func TestBuiltInLists(t *testing.T) {
	files, err := built.ReadDir("lists")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		b, err := built.ReadFile("lists/" + f.Name())
		if err != nil {
			t.Fatal(err)
		}
		l, err := ReadList(b)
		if err != nil {
			t.Fatalf("%s: %v", f.Name(), err)
		}
		if l.Name+".json" != f.Name() || len(l.Sources) == 0 {
			t.Errorf("%s: name %q, sources %v", f.Name(), l.Name, l.Sources)
		}
		if age := l.Age(time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)); age <= 0 || age > 365*24*time.Hour {
			t.Errorf("%s: %v old", f.Name(), age)
		}
	}
	l := load(t, "")
	f := func(addr, want string) {
		t.Helper()
		var in []string
		for i := range Known {
			if l.Contains(ID(i+1), netip.MustParseAddr(addr)) {
				in = append(in, Known[i].Name)
			}
		}
		if got := strings.Join(in, " "); got != want {
			t.Errorf("%s: %q, want %q", addr, got, want)
		}
	}
	f("66.249.66.1", "google")
	f("2001:4860:4801:10::1", "google")
	f("66.249.80.1", "google-user")
	f("157.55.39.1", "bing")
	f("17.241.75.1", "apple")
	f("20.171.207.4", "openai")
	f("216.73.216.10", "anthropic")
	f("18.97.9.170", "commoncrawl")
	f("207.241.237.3", "archive")
	f("::ffff:157.55.39.1", "bing")
	f("8.8.8.8", "")
	f("192.0.2.1", "")
	// No address is of two crawlers: verified is verified as one.
	for i, a := range l.lists {
		for j, b := range l.lists {
			if i >= j || a == nil || b == nil {
				continue
			}
			for _, p := range a.Nets {
				if n := slices.IndexFunc(b.Nets, p.Overlaps); n >= 0 {
					t.Errorf("%s of %s overlaps %s of %s", p, a.Name, b.Nets[n], b.Name)
				}
			}
		}
	}
}

func TestKnown(t *testing.T) {
	if len(Known) > 64 {
		t.Fatal("a Set has 64 bits")
	}
	names := map[string]bool{}
	for i := range Known {
		k := &Known[i]
		if names[k.Name] || k.Name != strings.ToLower(k.Name) || k.Owner == "" || len(k.Tokens) == 0 {
			t.Errorf("%+v", k)
		}
		names[k.Name] = true
		for _, s := range slices.Concat(k.Tokens, k.Domains) {
			if s != strings.ToLower(s) || len(s) < 4 {
				t.Errorf("%s: %q", k.Name, s)
			}
		}
		for _, d := range k.Domains {
			for _, anybody := range []string{"googleusercontent.com", "amazonaws.com", "cloudapp.net", "azure.com"} {
				if strings.HasSuffix(anybody, d) || strings.HasSuffix(d, anybody) {
					t.Errorf("%s: anybody may have a machine in %s", k.Name, d)
				}
			}
		}
		for _, u := range k.URLs {
			if !strings.HasPrefix(u, "https://") {
				t.Errorf("%s: %s", k.Name, u)
			}
		}
		if Find(k.Name).Name() != k.Name {
			t.Errorf("%s is not found", k.Name)
		}
	}
	if Find("") != 0 || Find("nobody") != 0 || ID(0).Name() != "" || ID(200).Name() != "" {
		t.Error("nobody has a name")
	}
}

func TestParseClaim(t *testing.T) {
	f := func(s, want string) {
		t.Helper()
		c, ok := Parse(s)
		got := "no"
		if ok {
			got = c.State.String() + " " + c.Crawler.Name()
		}
		if got != want {
			t.Errorf("%q: %s, want %s", s, got, want)
		}
	}
	f("google", "verified google")
	f("verified:google", "verified google")
	f("spoofed:bing", "spoofed bing")
	f("spoofed", "spoofed ")
	f("unknown", "unknown ")
	f("pending:yandex", "pending yandex")
	f("verified", "no")
	f("verified:nobody", "no")
	f("nobody", "no")
	f("none:google", "no")
	f("", "no")
}

func TestPublished(t *testing.T) {
	good := func(text, want, wantDate string) {
		t.Helper()
		nets, date, err := Published([]byte(text))
		if err != nil {
			t.Errorf("%s: %v", text, err)
			return
		}
		if got := strings.Trim(fmt.Sprint(nets), "[]"); got != want || date != wantDate {
			t.Errorf("%s: %s of %q, want %s of %q", text, got, date, want, wantDate)
		}
	}
	bad := func(text, want string) {
		t.Helper()
		if nets, _, err := Published([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.80s: %v %v, want %q", text, nets, err, want)
		}
	}
	good(`{"creationTime":"2026-09-03T14:45:48.000000","prefixes":[{"ipv6Prefix":"2a00::/32"},{"ipv4Prefix":"8.8.8.0/24"}]}`, "8.8.8.0/24 2a00::/32", "2026-09-03")
	good(`{"prefixes":["8.8.8.0/24","8.8.4.4"]}`, "8.8.4.4/32 8.8.8.0/24", "")
	good(`["8.8.8.0/24"]`, "8.8.8.0/24", "")
	good(`[{"prefix":"8.8.8.0/24"},{"cidr":"2a00::/32"}]`, "8.8.8.0/24 2a00::/32", "")
	good("# ours\n8.8.8.0/24 # here\r\n\n2a00::/32\n", "8.8.8.0/24 2a00::/32", "")
	good("\ufeff8.8.8.8\n", "8.8.8.8/32", "")
	good(`{"prefixes":[{"ipv4Prefix":"18.97.1.229/30"},{"ipv4Prefix":"18.97.1.228/30"}]}`, "18.97.1.228/30", "") // as Perplexity writes them
	good(`{"prefixes":["::ffff:8.8.8.0/120"],"creationTime":"yesterday, and so on"}`, "8.8.8.0/24", "")
	bad("", "it is empty")
	bad(" \n", "it is empty")
	bad("<!doctype html><title>404</title>", "it is a web page, not a list")
	bad(`{"prefixes":[]}`, "it has no address")
	bad(`{}`, "it has no address")
	bad(`{"error":"moved"}`, "it has no address")
	bad("# nothing\n", "it has no address")
	bad(`{"prefixes":[{"ipv4Prefix":"8.8.8.0/24"},{"ipv4Pre`, "not whole JSON")
	bad(`{"prefixes":[{"ipv4Prefix":"8.8.8.0/24"}]} and more`, "not whole JSON")
	bad(`{"prefixes":"8.8.8.0/24"}`, "not whole JSON")
	bad(`{"prefixes":[{"ipv4Prefix":"8.8.8.0/24"},{"service":"x"}]}`, "has no prefix")
	bad(`{"prefixes":[7]}`, "want a prefix")
	bad("8.8.8.0/24\nSorry, too many requests\n", `line 2: "Sorry, too many requests"`)
	bad("8.8.8.0/33\n", "want an address or a network")
	bad("0.0.0.0/0\n", "too much of the Internet")
	bad("8.0.0.0/7\n", "too much of the Internet")
	bad("2000::/3\n", "too much of the Internet")
	bad("8.8.8.0/24\n10.1.0.0/16\n", "10.1.0.0/16 is not of the public Internet")
	bad("127.0.0.1\n", "not of the public Internet")
	bad("::ffff:192.168.1.0/120\n", "not of the public Internet")
	bad("fd00::/32\n", "not of the public Internet")
	bad("172.0.0.0/8\n", "not of the public Internet") // 172.16.0.0/12 is in it
	bad("fe80::1%eth0\n", "want an address or a network")
	bad(strings.Repeat("8.8.8.8\n", maxPrefixes+1), "at most")
	bad(strings.Repeat("# x\n", maxListBytes/4+1), "larger than")
}

func TestListsOnDisk(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "crawlers")
	list := func(name, date string, nets ...string) *List {
		l := &List{Name: name, Date: date, Sources: []string{"https://example.org/x"}}
		for _, n := range nets {
			l.Nets = append(l.Nets, netip.MustParsePrefix(n))
		}
		return l
	}
	in := func(l *Lists, name, addr string) bool { return l.Contains(Find(name), netip.MustParseAddr(addr)) }
	l := load(t, dir) // none yet
	if !in(l, "bing", "157.55.39.1") || in(l, "bing", "9.9.9.9") {
		t.Error("without files the built-in lists hold")
	}
	if err := WriteList(dir, list("bing", "2026-09-29", "9.9.9.0/24")); err != nil {
		t.Fatal(err)
	}
	if l = load(t, dir); in(l, "bing", "157.55.39.1") || !in(l, "bing", "9.9.9.9") {
		t.Error("the newer list does not hold")
	}
	file := filepath.Join(dir, "bing.json")
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	// What is no list is not written, and the old one stays.
	for _, bad := range []*List{list("bing", "2026-09-30"), list("bing", "2026-09-30", "10.0.0.0/8"), list("bing", "2026-09-30", "8.0.0.0/6")} {
		if err := WriteList(dir, bad); err == nil {
			t.Errorf("%v is written", bad.Nets)
		}
	}
	if now, err := os.ReadFile(file); err != nil || string(now) != string(whole) {
		t.Errorf("the old list has changed: %s", now)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("files are left: %v", entries)
	}
	// A file that is broken is said, with the way out, and done without.
	for name, text := range map[string]string{"cut": string(whole[:len(whole)/2]), "empty": "", "html": "<html>", "more": string(whole) + "{}", "other keys": `{"name":"bing","dates":"x"}`, "another": strings.Replace(string(whole), `"bing"`, `"apple"`, 1), "nobody": strings.Replace(string(whole), `"bing"`, `"nobody"`, 1), "date": strings.Replace(string(whole), "2026-09-29", "soon", 1)} {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		l, err := Load(dir, 0, now)
		if err == nil || !strings.Contains(err.Error(), file) {
			t.Errorf("%s: %v", name, err)
		}
		if !in(l, "bing", "157.55.39.1") {
			t.Errorf("%s: the built-in list does not hold", name)
		}
	}
	// An older file than the built-in list is of before an upgrade.
	if err := WriteList(dir, list("bing", "2020-01-01", "9.9.9.0/24")); err != nil {
		t.Fatal(err)
	}
	if l = load(t, dir); in(l, "bing", "9.9.9.9") {
		t.Error("a list of 2020 holds")
	}
}

// In a list that somebody renews who is missing is an imitator; an old one, the one that
// came with stile, and one that is not meant to be whole, prove nothing (C130).
func TestVerdictOfLists(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"openai", "google-user"} {
		list, _ := load(t, "").Of(Find(name))
		renewed := *list
		renewed.Date = now.Format(time.DateOnly)
		if err := WriteList(dir, &renewed); err != nil {
			t.Fatal(err)
		}
	}
	built, fresh := load(t, ""), load(t, dir)
	old, err := Load(dir, 90*24*time.Hour, now.AddDate(1, 0, 0))
	if err != nil {
		t.Fatal(err)
	}
	if len(old.Stale()) < 5 || len(fresh.Stale()) > 0 || len(built.Stale()) > 0 {
		t.Errorf("stale: %v, and fresh: %v, built in: %v", old.Stale(), fresh.Stale(), built.Stale())
	}
	f := func(l *Lists, agent, addr, want string) {
		t.Helper()
		c, dns := l.verdict(Claimed(agent), netip.MustParseAddr(addr))
		got := c.String()
		if dns != 0 {
			got += ", DNS"
		}
		if got != want {
			t.Errorf("%s from %s: %s, want %s", agent, addr, got, want)
		}
	}
	f(fresh, "GPTBot/1.1", "20.171.207.4", "openai")
	f(old, "GPTBot/1.1", "20.171.207.4", "openai")
	f(fresh, "GPTBot/1.1", "192.0.2.1", "spoofed")
	f(old, "GPTBot/1.1", "192.0.2.1", "unknown")
	f(built, "GPTBot/1.1", "20.171.207.4", "openai")
	f(built, "GPTBot/1.1", "192.0.2.1", "unknown")
	f(built, "DuckDuckBot/1.1", "192.0.2.1", "unknown")
	f(built, "Googlebot", "192.0.2.1", "spoofed, DNS") // if DNS says no
	f(fresh, "FeedFetcher-Google", "192.0.2.1", "unknown")
	f(fresh, "ChatGPT-User/1.0", "192.0.2.1", "unknown") // no list at all
	f(fresh, "Googlebot", "66.249.66.1", "google")
	f(fresh, "Googlebot", "192.0.2.1", "spoofed, DNS")
	f(fresh, "Googlebot", "157.55.39.1", "spoofed, DNS") // Bing's
	f(fresh, "bingbot Googlebot", "157.55.39.1", "bing")
	f(fresh, "archive.org_bot", "207.241.237.3", "archive")
	f(fresh, "archive.org_bot", "192.0.2.1", "unknown, DNS")
	// Somebody has a page translated in the name of Googlebot, or bids Google fetch it.
	f(fresh, "Googlebot/2.1,gzip(gfe) (via translate.google.com)", "66.249.84.200", "google-user")
	f(fresh, "Googlebot/2.1", "35.187.132.1", "spoofed, DNS")
	f(fresh, "GPTBot ChatGPT-User", "192.0.2.1", "unknown")
}

func FuzzPublished(f *testing.F) {
	for _, s := range []string{`{"prefixes":[{"ipv4Prefix":"8.8.8.0/24"}]}`, `["8.8.8.0/24"]`, "8.8.8.8\n2a00::/32 # x\n", "<html>", `{"prefixes":[{}]}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		nets, date, err := Published(b)
		if err != nil {
			return
		}
		// What is accepted can be written and read again.
		if date == "" {
			date = "2026-11-30"
		}
		text, err := json.Marshal(&List{Name: "bing", Date: date, Sources: []string{"x"}, Nets: nets})
		if err != nil {
			t.Fatal(err)
		}
		l, err := ReadList(text)
		if err != nil || !slices.Equal(l.Nets, nets) {
			t.Fatalf("%s: %v", text, err)
		}
	})
}

func FuzzReadList(f *testing.F) {
	b, err := built.ReadFile("lists/commoncrawl.json")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add([]byte(`{"name":"bing","date":"2026-11-30","sources":[],"prefixes":["8.8.8.0/24"]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		l, err := ReadList(b)
		if err != nil {
			return
		}
		for _, p := range l.Nets {
			if !p.IsValid() || p != p.Masked() || !network.Public(p.Addr()) {
				t.Fatalf("%v", p)
			}
		}
	})
}
