package config

import (
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"stile/crawler"
	"stile/geo"
)

// What a crawler matcher may say beside the name of a crawler.
const (
	AnyVerified = "verified" // verified as any but those that others can send through (crawler.Crawler.AnyAgent)
	Spoofed     = "spoofed"
	Unknown     = "unknown"
)

// crawlerWords are all that it may say.
func (in *reading) crawlerWords() []string {
	return append([]string{AnyVerified, Spoofed, Unknown}, in.crawlerNames()...)
}

// crawlerNames are those of crawlers and then those of the operator's bots that are no
// crawlers'.
func (in *reading) crawlerNames() []string {
	names := crawler.Names()
	for i := range in.config.Bots {
		if name := in.config.Bots[i].Name; crawler.Find(name) == 0 {
			names = append(names, name)
		}
	}
	return names
}

// otherCrawlers are what else they are called.
var otherCrawlers = map[string]string{
	"googlebot": "google", "bingbot": "bing", "microsoft": "bing", "msnbot": "bing", "applebot": "apple", "duckduckbot": "duckduckgo",
	"gptbot": "openai", "chatgpt": "openai-user", "chatgpt-user": "openai-user", "claude": "anthropic", "claudebot": "anthropic",
	"perplexitybot": "perplexity", "ccbot": "commoncrawl", "common-crawl": "commoncrawl", "amazonbot": "amazon", "mojeekbot": "mojeek",
	"qwantbot": "qwant", "wayback": "archive", "internet-archive": "archive", "archive.org": "archive", "yandexbot": "yandex",
	"baiduspider": "baidu", "petalbot": "petal", "seznambot": "seznam", "any": AnyVerified, "true": AnyVerified, "good": AnyVerified,
	"forged": Spoofed, "fake": Spoofed, "false": Spoofed, "pending": Unknown, "unverified": Unknown,
}

func (t *table) crawlers(key string) (words []string) {
	all := t.in.crawlerWords()
	for _, it := range t.texts(key) {
		switch {
		case !slices.Contains(all, it.text):
			t.wrongItem(key, it, "%s", noCrawler(it.text, all))
		case slices.Contains(words, it.text):
			t.wrongItem(key, it, "named twice: keep one")
		default:
			words = append(words, it.text)
		}
	}
	return words
}

// noCrawler says what may have been meant by a word that is none of words.
func noCrawler(typed string, words []string) string {
	lower := strings.ToLower(typed)
	hint := otherCrawlers[lower]
	if !slices.Contains(words, hint) {
		hint = nearest(lower, words)
	}
	if hint != "" {
		return fmt.Sprintf("no crawler has this name: did you mean %q?", hint)
	}
	return "no crawler has this name: want " + either(words)
}

// systems reads numbers of autonomous systems, one or a list.
func (t *table) systems(key string) (ns []uint32) {
	list, isList := t.keys[key].([]any)
	if !isList {
		if !t.has(key) {
			return nil
		}
		list = []any{t.keys[key]}
	}
	if len(list) == 0 {
		t.wrong(key, "the list is empty: name something, or leave %s out", key)
	}
	if len(list) > maxItems {
		t.wrong(key, "want at most %d entries", maxItems)
		return nil
	}
	for i, v := range list {
		it := item{node: t.node.at(key)}
		if isList {
			it.node = t.node.at(key).item(i)
		}
		n, ok := v.(int64)
		if s, isText := v.(string); isText {
			digits := strings.TrimPrefix(strings.ToUpper(s), "AS")
			if n, err := strconv.ParseUint(digits, 10, 32); err == nil {
				t.wrongItem(key, it, "want the number alone: %d", n)
				continue
			}
		}
		switch {
		case !ok || n < 1 || n > 1<<32-1:
			t.wrongItem(key, it, "want numbers of autonomous systems, such as %s = [64496]", key)
		case slices.Contains(ns, uint32(n)):
			t.wrongItem(key, it, "named twice: keep one")
		default:
			ns = append(ns, uint32(n))
		}
	}
	return ns
}

func (t *table) countries(key string) (cs []geo.Country) {
	for _, it := range t.texts(key) {
		c, ok := geo.ParseCountry(it.text)
		switch {
		case !ok && strings.EqualFold(it.text, "unknown") || it.text == "":
			t.wrongItem(key, it, "an address whose country is not known matches no country: want codes such as %q", "DE")
		case !ok:
			t.wrongItem(key, it, "want the two letters of ISO 3166, such as %q", "DE")
		case c.String() != it.text:
			t.wrongItem(key, it, "countries are written in capital letters: %q", c)
		case it.text == "UK":
			t.wrongItem(key, it, "in ISO 3166 it is %q", "GB")
		case slices.Contains(cs, c):
			t.wrongItem(key, it, "named twice: keep one")
		default:
			cs = append(cs, c)
		}
	}
	return cs
}

// readCrawler reads [crawler].
func (t *table) readCrawler(c *Config) {
	if s, ok := t.text("resolver"); ok && s != "" {
		a, err := netip.ParseAddrPort(s)
		if alone, aloneErr := netip.ParseAddr(s); aloneErr == nil {
			t.wrong("resolver", "want the port too: %q", netip.AddrPortFrom(alone, 53))
		} else if err != nil || a.Port() == 0 {
			t.wrong("resolver", "want the address and port of a DNS server, such as %q", exampleOf("resolver"))
		} else {
			c.Crawler.Resolver = s
		}
	}
	if d, ok := t.duration("max_age", 24*time.Hour, 3*365*24*time.Hour); ok {
		c.Crawler.MaxAge = d
	}
	t.siteHosts(c)
	urls, ok := t.table("urls", "urls", t.where+": urls")
	if !ok {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(urls.keys)) {
		if crawler.Find(name) == 0 {
			urls.wrong(name, "%s", noCrawler(name, crawler.Names()))
			continue
		}
		for _, it := range urls.texts(name) {
			u, err := url.Parse(it.text)
			if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" {
				urls.wrongItem(name, it, "want the URL of a list, such as %q", "https://www.example.org/crawlers.json")
				continue
			}
			if c.Crawler.URLs == nil {
				c.Crawler.URLs = map[string][]string{}
			}
			c.Crawler.URLs[name] = append(c.Crawler.URLs[name], it.text)
		}
	}
}

// readGeo reads [geo].
func (t *table) readGeo(c *Config) {
	if list, empty := t.keys["file"].([]any); empty && len(list) == 0 {
		return
	}
	for _, it := range t.texts("file") {
		switch {
		case !isAbsolute(it.text):
			t.wrongItem("file", it, "want the absolute path of a file in MaxMind's format, such as %q", "/usr/share/GeoIP/GeoLite2-ASN.mmdb")
		case slices.Contains(c.Geo.Files, it.text):
			t.wrongItem("file", it, "named twice: keep one")
		default:
			c.Geo.Files = append(c.Geo.Files, it.text)
		}
	}
}

// needsGeo reports rules that look up what no file has been named for.
func (in *reading) needsGeo() {
	if len(in.config.Geo.Files) > 0 {
		return
	}
	for i := range in.rules {
		t := in.rules[i].table
		for _, t := range []*table{t, t.inner} {
			for _, key := range []string{"asn", "country"} {
				if t != nil && t.has(key) {
					t.wrong(key, "it is looked up in a file of yours, and none is named: add [geo] with file = %q to the main file", "/usr/share/GeoIP/GeoLite2-"+map[string]string{"asn": "ASN", "country": "Country"}[key]+".mmdb")
				}
			}
		}
	}
}

// UsesGeo tells whether any rule looks at the autonomous system or the country.
func (c *Config) UsesGeo() (asn, country bool) {
	for i := range c.Rules {
		for m := &c.Rules[i].Match; m != nil; m = m.Not {
			asn = asn || len(m.ASN) > 0
			country = country || len(m.Country) > 0
		}
	}
	return asn, country
}

// UsesCrawler tells whether any rule asks who a crawler is.
func (c *Config) UsesCrawler() bool {
	for i := range c.Rules {
		for m := &c.Rules[i].Match; m != nil; m = m.Not {
			if len(m.Crawler) > 0 {
				return true
			}
		}
	}
	return false
}

// coversCrawler knows that "verified" is every crawler by name but those it does not mean.
func coversCrawler(a, b string) bool {
	if a == b {
		return true
	}
	if id := crawler.Find(b); id != 0 {
		return a == AnyVerified && !crawler.Known[id-1].AnyAgent
	}
	return a == AnyVerified && b != Spoofed && b != Unknown // a bot
}

// expectCrawler reads what an [[expect]] takes for known about who asks.
func (t *table) expectCrawler(e *Expect) {
	if s, ok := t.text("crawler"); ok {
		words := append([]string{Spoofed, Unknown}, t.in.crawlerNames()...)
		if s == AnyVerified {
			t.wrong("crawler", "say as whom, such as %q", "google")
		} else if crawler.Find(s) == 0 && t.in.bot(s) {
			e.Bot = s
		} else if c, ok := crawler.Parse(s); !ok || !slices.Contains(words, s) {
			t.wrong("crawler", "%s", noCrawler(s, words))
		} else {
			e.Crawler = c
		}
	}
	if n, ok := t.number("asn", 1, 1<<32-1, ": the number of an autonomous system"); ok {
		e.Place.ASN = uint32(n)
	}
	if _, isList := t.keys["country"].([]any); isList {
		t.wrong("country", "a request comes from one: want country = %q", "DE")
	} else if cs := t.countries("country"); len(cs) == 1 {
		e.Place.Country = cs[0]
	}
}
