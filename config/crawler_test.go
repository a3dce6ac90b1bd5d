package config

import (
	"strings"
	"testing"
	"time"
)

func TestCrawlersAndPlaces(t *testing.T) {
	c, err := Parse("stile.toml", []byte(`include = []
[crawler]
resolver = "127.0.0.1:53"
max_age = "30d"
urls = { google = ["https://a.example/g.json", "https://a.example/h.json"], openai-user = "http://127.0.0.1:8000/x" }
[geo]
file = ["/srv/asn.mmdb", "/srv/country.mmdb"]
[[rule]]
name = "a"
crawler = ["google", "spoofed"]
asn = [64496, 4200000000]
country = "DE"
not = { crawler = "unknown", asn = 64497, country = ["FR", "NL"] }
do = "deny"
[[expect]]
request = "GET /"
crawler = "google"
asn = 64496
country = "DE"
verdict = "deny"
`))
	if err != nil {
		t.Fatal(err)
	}
	if c.Crawler.Resolver != "127.0.0.1:53" || c.Crawler.MaxAge != 30*24*time.Hour || len(c.Crawler.URLs["google"]) != 2 || len(c.Crawler.URLs["openai-user"]) != 1 {
		t.Errorf("%+v", c.Crawler)
	}
	m := c.Rules[0].Match
	if len(m.Crawler) != 2 || len(m.ASN) != 2 || len(m.Country) != 1 || len(m.Not.Crawler) != 1 || len(m.Not.ASN) != 1 || m.Not.Country[1].String() != "NL" {
		t.Errorf("%+v not %+v", m, m.Not)
	}
	if x := c.Expects[0]; x.Crawler.String() != "google" || x.Place.ASN != 64496 || x.Place.Country.String() != "DE" {
		t.Errorf("%+v", x)
	}
	if asn, country := c.UsesGeo(); !asn || !country || !c.UsesCrawler() {
		t.Error("it does not know what its rules use")
	}
	for text, want := range map[string]bool{"": true, "include = []\n": false} {
		c, err := Parse("stile.toml", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if asn, country := c.UsesGeo(); asn || country || c.UsesCrawler() != want {
			t.Errorf("%q looks up systems %v, countries %v, crawlers %v", text, asn, country, c.UsesCrawler())
		}
	}
}

func TestCrawlerMistakes(t *testing.T) {
	const geo = "[geo]\nfile = '/srv/asn.mmdb'\n"
	f := func(text, want string) {
		t.Helper()
		_, err := Parse("stile.toml", []byte("include = []\n"+text))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %q", text, err, want)
		}
	}
	rule := func(line string) string { return geo + "[[rule]]\nname = 'a'\ndo = 'deny'\n" + line + "\n" }
	f(rule(`crawler = "googlebot"`), `did you mean "google"?`)
	f(rule(`crawler = "Google"`), `did you mean "google"?`)
	f(rule(`crawler = ["bing", "verifed"]`), `did you mean "verified"?`)
	f(rule(`crawler = "pending"`), `did you mean "unknown"?`)
	f(rule(`crawler = "altavista"`), `want "verified", "spoofed", "unknown", "google"`)
	f(rule(`crawler = true`), `want text in quotes`)
	f(rule(`crawler = []`), `the list is empty`)
	f(rule(`crawler = ["bing", "bing"]`), `named twice`)
	f(rule(`not = { crawler = "bingbot" }`), `did you mean "bing"?`)
	f(rule(`asn = "AS64496"`), `want the number alone: 64496`)
	f(rule(`asn = ["64496"]`), `want the number alone: 64496`)
	f(rule(`asn = [0]`), `want numbers of autonomous systems`)
	f(rule(`asn = [1.5]`), `want numbers of autonomous systems`)
	f(rule(`asn = 4294967296`), `want numbers of autonomous systems`)
	f(rule(`asn = []`), `the list is empty`)
	f(rule(`asn = [1, 1]`), `named twice`)
	f(rule(`country = "de"`), `written in capital letters: "DE"`)
	f(rule(`country = "Germany"`), `two letters of ISO 3166`)
	f(rule(`country = "UK"`), `it is "GB"`)
	f(rule(`country = ""`), `matches no country`)
	f(rule(`country = ["DE", "DE"]`), `named twice`)
	f("[[rule]]\nname = 'a'\ndo = 'deny'\nasn = 64496\n", `add [geo] with file = "/usr/share/GeoIP/GeoLite2-ASN.mmdb"`)
	f("[[rule]]\nname = 'a'\ndo = 'deny'\nnot = { country = 'DE' }\n", `add [geo] with file = "/usr/share/GeoIP/GeoLite2-Country.mmdb"`)
	f("[geo]\nfile = 'asn.mmdb'\n", `want the absolute path`)
	f("[geo]\nfile = ['/a', '/a']\n", `named twice`)
	f("[geo]\ndatabase = '/a'\n", `there is no such key`)
	f("[crawler]\nresolver = '127.0.0.1'\n", `want the port too: "127.0.0.1:53"`)
	f("[crawler]\nresolver = 'dns.example.org'\n", `want the address and port`)
	f("[crawler]\nmax_age = '1h'\n", `want "1d"`)
	f("[crawler]\nurls = { googlebot = 'https://a/' }\n", `did you mean "google"?`)
	f("[crawler]\nurls = { google = 'ftp://a/' }\n", `want the URL of a list`)
	f("[crawler]\nurls = 'https://a/'\n", `want urls = {`)
	f("[[expect]]\nrequest = 'GET /'\ncrawler = 'verified'\nverdict = 'allow'\n", `say as whom`)
	f("[[expect]]\nrequest = 'GET /'\ncrawler = 'bingbot'\nverdict = 'allow'\n", `did you mean "bing"?`)
	f("[[expect]]\nrequest = 'GET /'\ncountry = ['DE']\nverdict = 'allow'\n", `a request comes from one`)
	f("[[expect]]\nrequest = 'GET /'\nasn = 'x'\nverdict = 'allow'\n", `whole number`)
	f(rule(`crawler = "verified"`)+"[[rule]]\nname = 'b'\ndo = 'deny'\ncrawler = 'google'\n", `it can never match`)
	f(rule(`asn = [1, 2]`)+"[[rule]]\nname = 'b'\ndo = 'deny'\nasn = 2\n", `it can never match`)
}

func TestCoversCrawlers(t *testing.T) {
	f := func(above, below string, want bool) {
		t.Helper()
		c, err := Parse("x", []byte("include = []\n[geo]\nfile = '/x'\n[[rule]]\nname = \"a\"\nmode = 'observe'\ndo = \"deny\"\n"+above+"\n[[rule]]\nname = \"b\"\ndo = \"deny\"\n"+below))
		if err != nil {
			t.Fatal(err)
		}
		if got := c.Rules[0].Match.covers(&c.Rules[1].Match); got != want {
			t.Errorf("%s over %s: %v", above, below, got)
		}
	}
	f(`crawler = "verified"`, `crawler = ["google", "bing"]`, true)
	f(`crawler = "verified"`, `crawler = "google-user"`, false)
	f(`crawler = "verified"`, `crawler = "spoofed"`, false)
	f(`crawler = "google"`, `crawler = "verified"`, false)
	f(`crawler = "google"`, ``, false)
	f(``, `crawler = "google"`, true)
	f(`country = ["DE", "FR"]`, `country = "DE"`, true)
	f(`not = { crawler = "google" }`, `not = { crawler = "verified" }`, true)
	f(`not = { crawler = "verified" }`, `not = { crawler = "google" }`, false)
	f(`not = { asn = 1 }`, `not = { asn = [1, 2] }`, true)
	f(`not = { asn = [1, 2] }`, `not = { asn = 1 }`, false)
}
