package decide

import (
	"fmt"
	"net/netip"
	"slices"

	"stile/config"
	"stile/crawler"
	"stile/geo"
)

// Lookups are facts that cost more to know than others: they are asked for when a rule
// needs them, each once a request at most. They must not wait, and keep nothing of agent.
type Lookups interface {
	Crawler(agent string, a netip.Addr, now int64) crawler.Claim
	Place(a netip.Addr) geo.Place
}

// Signatures knows which of the operator's bots has signed a request, "" for none. It is
// asked when a rule needs it and the request has a signature, once. It must not wait.
type Signatures interface {
	Bot(now int64) string
}

// looked is what has been asked of a request's Lookups.
type looked struct {
	now            int64
	crawler, place bool
	signed         bool
	claim          crawler.Claim
	bot            string
	at             geo.Place
	// waits: a rule would have had to know who a crawler is that is being looked up.
	waits bool
}

// claim is what is known of the crawler that a request says it is from. With nobody to
// ask, and nothing taken for known, that is nothing.
func (r *Request) claim() crawler.Claim {
	l := &r.looked
	if l.crawler {
		return l.claim
	}
	l.crawler, l.claim = true, r.Crawler
	switch {
	case r.Crawler.State != crawler.None:
	case r.Look != nil:
		l.claim = r.Look.Crawler(r.Agent, r.Addr, l.now)
	case crawler.Claimed(r.Agent) != 0:
		l.claim.State = crawler.Unknown
	}
	return l.claim
}

// bot is the bot that has signed a request.
func (r *Request) bot() string {
	if r.Signed == nil || r.Header[config.HeaderSignatureInput] == "" || r.Bot != "" {
		return r.Bot
	}
	if l := &r.looked; !l.signed {
		l.signed, l.bot = true, r.Signed.Bot(l.now)
	}
	return r.looked.bot
}

func (r *Request) place() geo.Place {
	l := &r.looked
	if !l.place {
		l.place, l.at = true, r.Place
		if l.at == (geo.Place{}) && r.Look != nil {
			l.at = r.Look.Place(r.Addr)
		}
	}
	return l.at
}

// crawls tells what is known of a request's being from a crawler, or from a bot that signs,
// for who is about to ask it for a proof: None is a person, as far as anybody knows. A
// program proves nothing, and by a 401 a search engine forgets a page, which by a 429 or
// 503 it does not. The agent alone is enough for that, unless it is refuted: who lies
// there gets a refusal where he could have got a pass. Where no rule asks who a crawler
// is, nobody is asked. Who holds a pass has proven something, so he can.
func (p *Policy) crawls(r *Request) crawler.State {
	switch {
	case r.Caller.Kind != Stranger:
		return crawler.None
	case !p.uses.crawler && crawler.Claimed(r.Agent) != 0:
		return crawler.Unknown
	case !p.uses.crawler:
		return crawler.None
	case r.bot() != "":
		return crawler.Verified
	}
	return r.claim().State
}

// crawlerMatcher is a compiled crawler matcher.
type crawlerMatcher struct {
	given, verified, spoofed, unknown bool
	names                             crawler.Set
	bots                              []string // names of bots, which may be those of crawlers
}

func compileCrawler(words []string) (m crawlerMatcher) {
	m.given = len(words) > 0
	for _, w := range words {
		switch w {
		case config.AnyVerified:
			m.verified = true
		case config.Spoofed:
			m.spoofed = true
		case config.Unknown:
			m.unknown = true
		default:
			if id := crawler.Find(w); id != 0 {
				m.names = m.names.With(id)
			}
			m.bots = append(m.bots, w)
		}
	}
	return m
}

// match tells whether it holds. Who has signed as a bot is verified as that, whatever
// else is known of the address. One that is being looked up is unknown to a rule that
// names those; any other rule waits for the answer.
func (m *crawlerMatcher) match(r *Request) bool {
	if bot := r.bot(); bot != "" {
		return m.verified || slices.Contains(m.bots, bot)
	}
	c := r.claim()
	switch c.State {
	case crawler.Verified:
		return m.names.Has(c.Crawler) || m.verified && !crawler.Known[c.Crawler-1].AnyAgent
	case crawler.Spoofed:
		return m.spoofed
	case crawler.Unknown:
		return m.unknown
	case crawler.Pending:
		r.looked.waits = r.looked.waits || !m.unknown
		return m.unknown
	}
	return false
}

// countries is a set of countries.
type countries [26*26/64 + 1]uint64

func countryBit(c geo.Country) (word, bit int) {
	n := int(c[0]-'A')*26 + int(c[1]-'A')
	return n / 64, n % 64
}

func compileCountries(cs []geo.Country) *countries {
	if len(cs) == 0 {
		return nil
	}
	set := new(countries)
	for _, c := range cs {
		w, b := countryBit(c)
		set[w] |= 1 << b
	}
	return set
}

func (s *countries) match(r *Request) bool {
	c := r.place().Country
	if c == (geo.Country{}) {
		return false
	}
	w, b := countryBit(c)
	return s[w]&(1<<b) != 0
}

func compileSystems(ns []uint32) []uint32 {
	sorted := slices.Clone(ns)
	slices.Sort(sorted)
	return sorted
}

func anySystem(sorted []uint32, r *Request) bool {
	_, ok := slices.BinarySearch(sorted, r.place().ASN)
	return ok
}

// withheld is the verdict for who may come again in a moment: somebody finds out who it
// is. What an allow rule lets through is never withheld (a crawler that cannot read
// robots.txt stays away for days), nor who has a pass or is a user.
func (p *Policy) withheld(r *Request, f *found) (v Verdict, ok bool) {
	if f.waits < 0 || r.level() > 0 || f.rule >= 0 && p.rules[f.rule].do == config.Allow {
		return Verdict{}, false
	}
	if f.rule >= 0 && p.rules[f.rule].match.crawler.unknown {
		return Verdict{}, false // that is what the operator wants of them
	}
	return Verdict{Action: Refuse, Reason: Crawler, Retry: crawler.RetrySeconds, rule: int16(f.waits) + 1, policy: p.gen}, true
}

// explainLookups says what is known of a request beyond what it says itself, where a rule
// asks for it.
func (p *Policy) explainLookups(r *Request, add func(what, format string, a ...any)) {
	if p.uses.crawler {
		if r.Signed == nil && r.Bot == "" && r.Header[config.HeaderSignatureInput] != "" {
			add("2 signature", "not checked here: --crawler verified:NAME to assume whose it is")
		}
		c, claimed := r.claim(), crawler.Claimed(r.Agent)
		switch bot := r.bot(); {
		case bot != "":
			add("2 crawler", "verified by its signature: %s", bot)
		case c.State == crawler.None:
			add("2 crawler", "its agent names no crawler that is known")
		case c.State == crawler.Verified:
			add("2 crawler", "verified: %s", c.Crawler.Name())
		case c.State == crawler.Unknown && r.Crawler.State == crawler.None && claimed != 0:
			add("2 crawler", "says it is %s: unknown, not looked up: --crawler verified:%s or --crawler spoofed to assume", claimed.First().Name(), claimed.First().Name())
		default:
			add("2 crawler", "%s", c)
		}
	}
	switch p.crawls(r) {
	case crawler.None, crawler.Spoofed:
	default:
		add("2 crawler", "a program cannot prove anything, and must not take a challenge for the page: where others are asked for a pass, it is told when to come again")
	}
	if p.uses.asn {
		add("2 asn", "%s", orNotKnown(r.place().ASN != 0, fmt.Sprint(r.place().ASN), "--asn NUMBER"))
	}
	if p.uses.country {
		add("2 country", "%s", orNotKnown(r.place().Country != (geo.Country{}), r.place().Country.String(), "--country XX"))
	}
}

func orNotKnown(known bool, value, flag string) string {
	if known {
		return value
	}
	return "not known: " + flag + " to assume"
}
