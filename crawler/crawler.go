// Package crawler tells whether a request is from the crawler that its User-Agent names:
// by the address ranges that the crawler's owner publishes, or by reverse-and-forward
// DNS. Neither happens while the request waits: ranges are in memory, and a DNS lookup
// runs aside, its result being there for the next request.
//
// A claim is made by a token in the agent, such as "googlebot"; who claims nothing is
// none of this package's business. What is said of a claim is one of three: it is
// verified, it is spoofed, or it is not known.
package crawler

import "strings"

// Crawler is one that is known by name.
type Crawler struct {
	Name   string   // in rules, metrics and files: lower-case letters and hyphens
	Owner  string   // and what it is for
	Tokens []string // of its agents, in lower case: any of them is a claim
	// Domains are what the name of each of its addresses is below; nil: it has no such names.
	// A * is one label's rest: "proxy-*.example.com".
	Domains []string
	// URLs are where its owner publishes its addresses; nil: nowhere that a program can read.
	URLs []string
	// AnyAgent: requests from its addresses carry the agents of people's browsers, so
	// there the address is enough. Others may send requests from there too, by the
	// owner's services: a rule means it only when it names it.
	AnyAgent bool
	// Loose: the list is not the owner's, or not meant to be complete. Who is in it is
	// verified; who is not may be genuine.
	Loose bool
}

// ID is a crawler's place in Known plus one; 0 is none.
type ID uint8

// Set is a set of crawlers: bit i for Known[i].
type Set uint64

// Known are the crawlers that can be named in a rule. Tokens, domains and URLs are the
// owners' own words, on the pages that are named here; domains that anybody's machines
// are in (bc.googleusercontent.com, amazonaws.com) are never among them.
var Known = []Crawler{
	{ // https://developers.google.com/crawling/docs/crawlers-fetchers/verify-google-requests
		Name: "google", Owner: "Google: search, ads and other crawlers that obey robots.txt or the site's owner",
		Tokens: []string{"googlebot", "googleother", "adsbot-google", "mediapartners-google", "apis-google", "storebot-google",
			"google-inspectiontool", "google-cloudvertexbot", "google-safety"},
		// Not all of google.com: from google-proxy-*.google.com come pages that anybody has
		// translated, with the agent that he likes.
		Domains: []string{"googlebot.com", "rate-limited-proxy-*.google.com"},
		URLs: []string{"https://developers.google.com/static/crawling/ipranges/common-crawlers.json",
			"https://developers.google.com/static/crawling/ipranges/special-crawlers.json"},
	},
	{ // the same page: user-triggered fetchers, translation proxies among them
		Name: "google-user", Owner: "Google: fetches that a person asked for, translated pages among them",
		Tokens: []string{"feedfetcher-google", "google-read-aloud", "google-site-verification", "googleproducer",
			"google-notebooklm", "google-pinpoint", "googleassociationservice", "via translate.google.com"},
		URLs: []string{"https://developers.google.com/static/crawling/ipranges/user-triggered-fetchers.json",
			"https://developers.google.com/static/crawling/ipranges/user-triggered-fetchers-google.json"},
		AnyAgent: true, Loose: true, // some come from Google's other addresses, and people wait for them
	},
	{ // https://www.bing.com/webmasters/help/how-to-verify-bingbot-3905dc26
		Name: "bing", Owner: "Microsoft: search",
		Tokens:  []string{"bingbot", "bingpreview", "msnbot", "adidxbot"},
		Domains: []string{"search.msn.com"},
		URLs:    []string{"https://www.bing.com/toolbox/bingbot.json"},
	},
	{ // https://support.apple.com/en-us/119829
		Name: "apple", Owner: "Apple: Siri and Spotlight",
		Tokens:  []string{"applebot"},
		Domains: []string{"applebot.apple.com"},
		URLs:    []string{"https://search.developer.apple.com/applebot.json"},
	},
	{ // https://duckduckgo.com/duckduckgo-help-pages/results/duckduckbot
		Name: "duckduckgo", Owner: "DuckDuckGo: search and answers",
		Tokens: []string{"duckduckbot", "duckassistbot", "duckduckgo-favicons-bot"},
		URLs:   []string{"https://duckduckgo.com/duckduckbot.json", "https://duckduckgo.com/duckassistbot.json"},
	},
	{ // https://platform.openai.com/docs/bots
		Name: "openai", Owner: "OpenAI: search index and training",
		Tokens: []string{"gptbot", "oai-searchbot"},
		URLs:   []string{"https://openai.com/gptbot.json", "https://openai.com/searchbot.json"},
	},
	{
		Name: "openai-user", Owner: "OpenAI: pages that a person asks ChatGPT for",
		Tokens: []string{"chatgpt-user"},
		URLs:   []string{"https://openai.com/chatgpt-user.json"},
	},
	{ // https://support.claude.com/en/articles/8896518
		Name: "anthropic", Owner: "Anthropic: training, search, and pages that a person asks Claude for",
		Tokens: []string{"claudebot", "claude-user", "claude-searchbot"},
		URLs:   []string{"https://claude.com/crawling/bots.json"},
	},
	{ // https://docs.perplexity.ai/guides/bots
		Name: "perplexity", Owner: "Perplexity: search index, and pages that a person asks for",
		Tokens: []string{"perplexitybot", "perplexity-user"},
		URLs:   []string{"https://www.perplexity.com/perplexitybot.json", "https://www.perplexity.com/perplexity-user.json"},
	},
	{ // https://commoncrawl.org/ccbot
		Name: "commoncrawl", Owner: "Common Crawl: an open copy of the web",
		Tokens:  []string{"ccbot"},
		Domains: []string{"crawl.commoncrawl.org"},
		URLs:    []string{"https://index.commoncrawl.org/ccbot.json"},
	},
	{ // https://docs.mistral.ai/robots
		Name: "mistral", Owner: "Mistral: search index, and pages that a person asks for",
		Tokens: []string{"mistralai-user", "mistralai-index"},
		URLs:   []string{"https://mistral.ai/mistralai-user-ips.json", "https://mistral.ai/mistralai-index-ips.json"},
	},
	{ // https://developer.amazon.com/amazonbot: its lists are pages for people
		Name: "amazon", Owner: "Amazon: Alexa and search",
		Tokens:  []string{"amazonbot", "amzn-searchbot", "amzn-user"},
		Domains: []string{"crawl.amazonbot.amazon"},
	},
	{ // https://www.mojeek.com/bot.html
		Name: "mojeek", Owner: "Mojeek: search",
		Tokens:  []string{"mojeekbot"},
		Domains: []string{"mojeek.com"},
		URLs:    []string{"https://www.mojeek.com/mojeekbot.json"},
	},
	{ // https://help.qwant.com/bot/
		Name: "qwant", Owner: "Qwant: search",
		Tokens:  []string{"qwantbot", "qwantify"},
		Domains: []string{"qwant.com"},
		URLs:    []string{"https://help.qwant.com/wp-content/uploads/sites/latest/qwantbot.json"},
	},
	{ // https://archive.org/details/archive.org_bot; the ranges are those of its network, AS7941
		Name: "archive", Owner: "Internet Archive: the Wayback Machine",
		Tokens:  []string{"archive.org_bot", "ia_archiver-web.archive.org", "special_archiver"},
		Domains: []string{"archive.org"},
		Loose:   true,
	},
	{ // https://yandex.com/support/webmaster/robot-workings/check-yandex-robots.html
		Name: "yandex", Owner: "Yandex: search",
		Tokens:  []string{"yandexbot", "yandeximages", "yandexmobilebot", "yandexaccessibilitybot", "yandexrenderresourcesbot", "yandexfavicons", "yandexwebmaster"},
		Domains: []string{"yandex.ru", "yandex.net", "yandex.com"},
	},
	{ // https://help.baidu.com/question?prod_id=99&class=0&id=3001
		Name: "baidu", Owner: "Baidu: search",
		Tokens:  []string{"baiduspider"},
		Domains: []string{"baidu.com", "baidu.jp"},
	},
	{ // https://webmaster.petalsearch.com/site/petalbot
		Name: "petal", Owner: "Huawei: Petal Search",
		Tokens:  []string{"petalbot"},
		Domains: []string{"petalsearch.com", "aspiegel.com"},
	},
	{ // https://o-seznam.cz/napoveda/vyhledavani/en/seznambot-crawler/
		Name: "seznam", Owner: "Seznam: search",
		Tokens:  []string{"seznambot"},
		Domains: []string{"seznam.cz"},
	},
}

// anyAgent are the crawlers that come with any agent.
var anyAgent = func() (ids []ID) {
	for i := range Known {
		if Known[i].AnyAgent {
			ids = append(ids, ID(i+1))
		}
	}
	return ids
}()

// Names are the crawlers' names in the order of Known.
func Names() []string {
	names := make([]string, len(Known))
	for i := range Known {
		names[i] = Known[i].Name
	}
	return names
}

// Find is the crawler of that name, 0 if there is none.
func Find(name string) ID {
	for i := range Known {
		if Known[i].Name == name {
			return ID(i + 1)
		}
	}
	return 0
}

// Name is the crawler's name; "" for none.
func (id ID) Name() string {
	if id == 0 || int(id) > len(Known) {
		return ""
	}
	return Known[id-1].Name
}

func (id ID) bit() Set { return 1 << (id - 1) }

// State is what is known of a claim.
type State uint8

const (
	None     State = iota // no crawler is named
	Verified              // it is the one that it says
	Spoofed               // it is not
	Unknown               // it could not be found out
	Pending               // it is being found out
	States
)

var stateNames = [States]string{"none", "verified", "spoofed", "unknown", "pending"}

func (s State) String() string { return stateNames[s] }

// Claim is what is known of a request's being from a crawler.
type Claim struct {
	State State
	// Crawler is the one that was verified; for other states the first that was claimed.
	Crawler ID
}

// String is the claim as rules and explanations have it: "google", "spoofed", "unknown".
func (c Claim) String() string {
	if c.State == Verified {
		return c.Crawler.Name()
	}
	return c.State.String()
}

// Parse reads a claim as String writes it, and with the name of whom it is about:
// "verified:google", "spoofed:bing". ok is false for anything else.
func Parse(s string) (c Claim, ok bool) {
	state, name, both := strings.Cut(s, ":")
	if !both {
		if id := Find(s); id != 0 {
			return Claim{Verified, id}, true
		}
	}
	for i, word := range stateNames {
		if word == state && (both || State(i) != Verified) {
			c.State = State(i)
			c.Crawler = Find(name)
			return c, !both || c.Crawler != 0 && c.State != None
		}
	}
	return Claim{}, false
}
