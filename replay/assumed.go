package replay

import (
	"fmt"
	"slices"
	"strings"

	"stile/budget/costkey"
	"stile/config"
	"stile/crawler"
)

// assumed says what the log does not tell.
func (s *simulation) assumed() []string {
	f := s.feed
	var out []string
	say := func(format string, a ...any) { out = append(out, fmt.Sprintf(format, a...)) }
	switch {
	case s.users == 0 && s.passes == 0:
		say("Everyone is a stranger: the log names no users, and does not tell who had a pass.")
	default:
		if n := s.users - s.named; n > 0 {
			say("%s requests name a user in $remote_user. They are taken for users that nginx knows, though without auth_basic anybody can write a name there.", count(n))
		}
		if s.named > 0 {
			say("%s requests are of users, by $stile_user.", count(s.named))
		}
		if s.passes > 0 {
			say("%s requests came with the cookie of a pass. It is taken for a valid one of level 2, unread.", count(s.passes))
		}
		say("Everybody else is a stranger.")
	}
	say("Who is asked for a proof, and what then: both ends are shown. If nobody solves, they stay strangers and are asked each time; if all solve, they solve once a pass lasts (%s), at once, and go on with a pass's limits.", window(s.cfg.Pass.Lifetime))
	switch {
	case s.part:
	case s.referers:
		say("The log has neither Accept nor Sec-Fetch-Dest, and a rule looks at the Referer: a request that comes from a page of the same site counts as a part of it (three times the limits) if the log has a $host.")
	default:
		say("The log has neither Accept nor Sec-Fetch-Dest: every request counts as a page view, none as a part of a page, which would have three times the limits. So rather too many are asked.")
	}
	if miss := s.blind(); miss != "" {
		say("Rules look at what the log does not have; it is taken to be absent: %s.", miss)
	}
	if s.look != nil && s.cfg.UsesCrawler() {
		say("Who is a crawler is told by the lists of their addresses as they are now on this machine, not by DNS: %s", s.claimed())
		if s.look.fault != nil {
			say("A list could not be read: %v.", s.look.fault)
		}
	}
	if !f.has[fieldTarget] && !f.has[fieldRequest] {
		say("The log has $uri in place of the raw $request_uri: tricks in how a path is spelled cannot be seen.")
	}
	if !f.timed() {
		say("The log has no durations: requests are taken to have come when they ended, and what gates would have done cannot be said. Add $request_time and $upstream_response_time.")
	} else {
		say("Gates: a request takes as long as it took in the log, when nothing held the others back: if the backend was overloaded then, it took longer than it would behind a gate. A visitor who is told to wait is taken to stay.")
		if miss := s.costsBlind(); miss != "" {
			say("Gates learn a page's cost for each way in which backends answer it. The log does not have %s: answers that differ by those are taken for one page's.", miss)
		}
		if !f.has[fieldMsec] {
			say("The log's clock has whole seconds: requests that ended in the same second are spread evenly over it. $msec would tell.")
		}
	}
	say("What nginx answers itself before it asks stile (return, rewrite, limit_req) cannot be told from the site's answers, and counts like them.")
	if s.cfg.Mode == config.Observe {
		say("The configuration only observes (mode = \"observe\"): what is shown is what it would do.")
	}
	if n := s.demands.callers.forgotten; n*100 > int64(s.everyone.count()) {
		say("There were more callers than are remembered at once: %s times one that asked little was forgotten, and counts as a new one in the percentiles.", count(n))
	}
	return out
}

// claimed says how many requests are from crawlers, as far as it is known.
func (s *simulation) claimed() string {
	n := &s.claims
	all := n[crawler.Verified] + n[crawler.Spoofed] + n[crawler.Unknown]
	if all == 0 {
		return "no request names one that is known."
	}
	return fmt.Sprintf("%s requests name one, or come from one's addresses. %s are verified, %s are from elsewhere than the crawler that they name, and %s cannot be verified but by DNS or newer lists (stile crawlers update): they count as unknown, where the daemon would look them up.",
		count(all), count(n[crawler.Verified]), count(n[crawler.Spoofed]), count(n[crawler.Unknown]))
}

// costsBlind lists what costs are learned by and the log does not have; "" if no gate that
// learns was asked.
func (s *simulation) costsBlind() string {
	learns := false
	for i := range s.cfg.Gates {
		c := &s.cfg.Gates[i]
		learns = learns || c.Cost != config.CostFixed && c.Cost != config.CostFile && s.gates[0][c.Name].requests > 0
	}
	if !learns {
		return ""
	}
	var miss []string
	for _, h := range costkey.Headers {
		if !s.feed.has[head+field(h)] {
			miss = append(miss, config.Headers[h])
		}
	}
	return strings.Join(miss, ", ")
}

// blind lists what rules look at and the log does not have, with the rules.
func (s *simulation) blind() string {
	f := s.feed
	rules := map[string][]string{}
	var order []string
	note := func(what, rule string) {
		if rules[what] == nil {
			order = append(order, what)
		}
		if !slices.Contains(rules[what], rule) {
			rules[what] = append(rules[what], rule)
		}
	}
	for i := range s.cfg.Rules {
		c := &s.cfg.Rules[i]
		for m := &c.Match; m != nil; m = m.Not {
			for _, h := range m.Header {
				if k := slices.Index(config.Headers[:], h.Name); k >= 0 && !f.has[head+field(k)] {
					note(h.Name, c.Name)
				}
			}
			if len(m.Host) > 0 && !f.has[fieldHost] && !f.has[fieldHTTPHost] && !f.has[fieldServer] {
				note("the host", c.Name)
			}
			if len(m.Agent) > 0 && !f.has[fieldAgent] {
				note("User-Agent", c.Name)
			}
		}
	}
	var out []string
	for _, what := range order {
		list := rules[what]
		more := ""
		if len(list) > 3 {
			more = fmt.Sprintf(" and %d more", len(list)-3)
			list = list[:3]
		}
		out = append(out, what+" ("+strings.Join(list, ", ")+more+")")
	}
	return strings.Join(out, "; ")
}
