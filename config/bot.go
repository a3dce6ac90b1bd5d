package config

import (
	"regexp"
	"slices"
	"strings"

	"stile/botauth"
	"stile/crawler"
)

// readBot reads a [[bot]]: an agent whose signatures count. It stands in the main file
// only, and before the rules that name it.
func (in *reading) readBot(t *table) {
	b := botauth.Bot{Name: t.name("bot", "rules with crawler use it")}
	if b.Name != "" {
		switch {
		case strings.ToLower(b.Name) != b.Name:
			t.wrong("name", "names of crawlers are in small letters: %q", strings.ToLower(b.Name))
		case in.bot(b.Name):
			t.wrong("name", "another bot has this name: rename one, or give one bot all keys")
		case !crawlerName(b.Name):
			t.wrong("name", "in a rule, crawler = %q means something else: want another name", b.Name)
		}
	}
	if s, ok := t.text("directory"); ok {
		var err error
		if b.Origin, err = botauth.ParseOrigin(s); err != nil {
			t.wrong("directory", "%v", err)
		}
	}
	for _, it := range t.texts("keys") {
		k, err := botauth.ParseKey([]byte(it.text))
		switch {
		case err != nil:
			t.wrongItem("keys", it, "%v", err)
		case slices.ContainsFunc(b.Keys, func(other botauth.Key) bool { return other.ID == k.ID }):
			t.wrongItem("keys", it, "named twice: keep one")
		default:
			b.Keys = append(b.Keys, k)
		}
	}
	switch {
	case t.has("directory") && t.has("keys"):
		t.wrong("keys", "its keys are those of its directory: take one of the two out")
	case !t.has("directory") && !t.has("keys"):
		t.report(t.node, "nothing says what its keys are", `write directory = "https://agent.example", or keys = ['{"kty":"OKP","crv":"Ed25519","x":"…"}']`)
	}
	t.finish()
	if in.config.Bots = append(in.config.Bots, b); len(in.config.Bots) == maxBots+1 {
		t.report(t.node, "it is one too many", "want at most 64")
	}
}

// bot tells whether a bot has been read.
func (in *reading) bot(name string) bool {
	return slices.ContainsFunc(in.config.Bots, func(b botauth.Bot) bool { return b.Name == name })
}

// crawlerName tells whether a bot may have a name: no word for what is not known, and no
// crawler's that comes with the agents of people's browsers, who sign nothing.
func crawlerName(name string) bool {
	switch name {
	case AnyVerified, Spoofed, Unknown, crawler.Pending.String(), crawler.None.String():
		return false
	}
	id := crawler.Find(name)
	return id == 0 || !crawler.Known[id-1].AnyAgent
}

var siteHost = regexp.MustCompile(`^(\*\.)?[a-z0-9_-]+(\.[a-z0-9_-]+)*$`)

// siteHosts reads the names that signatures may be for.
func (t *table) siteHosts(c *Config) {
	if list, empty := t.keys["hosts"].([]any); empty && len(list) == 0 {
		return
	}
	for _, it := range t.texts("hosts") {
		switch {
		case slices.Contains(c.Crawler.Hosts, it.text):
			t.wrongItem("hosts", it, "named twice: keep one")
		case !siteHost.MatchString(it.text):
			t.wrongItem("hosts", it, "want a name of your site in small letters, without a port, such as %q or %q", "www.example.org", "*.example.org")
		default:
			c.Crawler.Hosts = append(c.Crawler.Hosts, it.text)
		}
	}
}
