package crawler

import (
	"context"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"stile/crawler/dnstest"
)

func TestConfirm(t *testing.T) {
	records := []string{
		dnstest.Reverse("192.0.2.1", "crawl-1.googlebot.com."), "crawl-1.googlebot.com. 60 IN A 192.0.2.1",
		dnstest.Reverse("192.0.2.2", "crawl-2.googlebot.com."), "crawl-2.googlebot.com. 60 IN A 192.0.2.99", // another's name
		dnstest.Reverse("192.0.2.3", "crawl-3.evilgooglebot.com."), "crawl-3.evilgooglebot.com. 60 IN A 192.0.2.3",
		dnstest.Reverse("192.0.2.4", "googlebot.com.evil.example."), "googlebot.com.evil.example. 60 IN A 192.0.2.4",
		dnstest.Reverse("192.0.2.5", "crawl-5.googlebot.com."), // and no such name
		dnstest.Reverse("192.0.2.6", "host.example."), dnstest.Reverse("192.0.2.6", "crawl-6.googlebot.com."), "crawl-6.googlebot.com. 60 IN A 192.0.2.6",
		dnstest.Reverse("192.0.2.7", "Crawl-7.GoogleBot.COM."), "crawl-7.googlebot.com. 60 IN A 192.0.2.7",
		"crawl-8.googlebot.com. 60 IN CNAME real.googlebot.com.", "real.googlebot.com. 60 IN A 192.0.2.8",
		dnstest.Reverse("192.0.2.8", "crawl-8.googlebot.com."),
		// The first name is confirmed by the address of the second: not the same name.
		dnstest.Reverse("192.0.2.9", "crawl-9.googlebot.com."), dnstest.Reverse("192.0.2.9", "mine.example."),
		"crawl-9.googlebot.com. 60 IN A 192.0.2.98", "mine.example. 60 IN A 192.0.2.9",
		dnstest.Reverse("192.0.2.10", "spider.yandex.com."), "spider.yandex.com. 60 IN A 192.0.2.10",
		dnstest.Reverse("192.0.2.11", "crawl-11.googlebot.com."), dnstest.Reverse("192.0.2.12", "crawl-12.googlebot.com."),
		dnstest.Reverse("192.0.2.13", "googlebot.com."), "googlebot.com. 60 IN A 192.0.2.13",
		dnstest.Reverse("2001:db8::1", "crawl-v6.googlebot.com."), "crawl-v6.googlebot.com. 60 IN AAAA 2001:db8::1", "crawl-v6.googlebot.com. 60 IN A 192.0.2.1",
		// A page that somebody has translated, in the name of Googlebot.
		dnstest.Reverse("192.0.2.30", "google-proxy-30.google.com."), "google-proxy-30.google.com. 60 IN A 192.0.2.30",
		dnstest.Reverse("192.0.2.31", "rate-limited-proxy-31.google.com."), "rate-limited-proxy-31.google.com. 60 IN A 192.0.2.31",
	}
	// Too many names and too many addresses to be sent in a packet: over TCP they come.
	for i := range 500 {
		records = append(records, dnstest.Reverse("192.0.2.20", fmt.Sprintf("h%d.example.", i)), fmt.Sprintf("crawl-21.googlebot.com. 60 IN A 198.51.100.%d", i%250))
	}
	records = append(records, dnstest.Reverse("192.0.2.20", "crawl-20.googlebot.com."), "crawl-20.googlebot.com. 60 IN A 192.0.2.20",
		dnstest.Reverse("192.0.2.21", "crawl-21.googlebot.com."), "crawl-21.googlebot.com. 60 IN A 192.0.2.21")
	// Names in the crawler's domain that all deny: only some are tried.
	for i := range 50 {
		records = append(records, dnstest.Reverse("192.0.2.22", fmt.Sprintf("no%d.googlebot.com.", i)))
	}
	z := dnstest.New(t, records...)
	z.Break("crawl-11.googlebot.com.")
	z.Silence("crawl-12.googlebot.com.")
	z.Break("14.2.0.192.in-addr.arpa.")
	z.Silence("15.2.0.192.in-addr.arpa.")
	r := NewResolver(z.Addr)
	f := func(addr, agent, want string, sure bool) {
		t.Helper()
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		if !sure {
			ctx, cancel = context.WithTimeout(context.Background(), 300*time.Millisecond)
		}
		defer cancel()
		id, ok := confirm(ctx, r, Claimed(agent), netip.MustParseAddr(addr))
		if id.Name() != want || ok != sure {
			t.Errorf("%s as %s: %q, sure %v; want %q, %v", addr, agent, id.Name(), ok, want, sure)
		}
	}
	f("192.0.2.1", "Googlebot/2.1", "google", true)
	f("192.0.2.2", "Googlebot/2.1", "", true)
	f("192.0.2.3", "Googlebot/2.1", "", true)
	f("192.0.2.4", "Googlebot/2.1", "", true)
	f("192.0.2.5", "Googlebot/2.1", "", true)
	f("192.0.2.6", "Googlebot/2.1", "google", true)
	f("192.0.2.7", "Googlebot/2.1", "google", true)
	f("192.0.2.8", "Googlebot/2.1", "google", true)
	f("192.0.2.9", "Googlebot/2.1", "", true)
	f("192.0.2.10", "Googlebot/2.1", "", true) // genuine, but another
	f("192.0.2.10", "Googlebot/2.1 YandexBot/3.0", "yandex", true)
	f("192.0.2.11", "Googlebot/2.1", "", false)
	f("192.0.2.12", "Googlebot/2.1", "", false)
	f("192.0.2.13", "Googlebot/2.1", "", true) // below the domain, not the domain
	f("192.0.2.14", "Googlebot/2.1", "", false)
	f("192.0.2.15", "Googlebot/2.1", "", false)
	f("192.0.2.16", "Googlebot/2.1", "", true) // no name at all
	f("192.0.2.20", "Googlebot/2.1", "google", true)
	f("192.0.2.21", "Googlebot/2.1", "google", true)
	f("192.0.2.30", "Googlebot/2.1,gzip(gfe) (via translate.google.com)", "", true)
	f("192.0.2.31", "AdsBot-Google", "google", true)
	f("2001:db8::1", "Googlebot/2.1", "google", true)
	before := z.Asked.Load()
	f("192.0.2.22", "Googlebot/2.1", "", true)
	if n := z.Asked.Load() - before; n > 1+2*maxNames+1 { // one truncated, A and AAAA of each
		t.Errorf("%d questions for one address", n)
	}

	// No server at all.
	r = NewResolver("127.0.0.1:1")
	f("192.0.2.1", "Googlebot/2.1", "", false)
}

func TestWithin(t *testing.T) {
	good := []string{"a.googlebot.com", "crawl-66-249-66-1.googlebot.com", "a.b.googlebot.com"}
	bad := []string{"googlebot.com", "evilgooglebot.com", ".googlebot.com", "a.googlebot.com.example", "a.googlebot.comx", "", "com"}
	for _, name := range good {
		if !within(name, "googlebot.com") {
			t.Errorf("%s is below googlebot.com", name)
		}
	}
	for _, name := range bad {
		if within(name, "googlebot.com") {
			t.Errorf("%s is not below googlebot.com", name)
		}
	}
	for name, want := range map[string]bool{
		"rate-limited-proxy-66-249-90-1.google.com": true, "google-proxy-66-249-81-1.google.com": false,
		"rate-limited-proxy-.google.com": false, "rate-limited-proxy-1.evil.google.com": false, "x.rate-limited-proxy-1.google.com": false,
		"rate-limited-proxy-1.evilgoogle.com": false, "rate-limited-proxy-1.google.com.example": false,
	} {
		if within(name, "rate-limited-proxy-*.google.com") != want {
			t.Errorf("%s: want %v", name, want)
		}
	}
}
