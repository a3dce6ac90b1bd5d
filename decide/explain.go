package decide

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"stile/config"
	"stile/decide/path"
	"stile/network"
)

// NewRequest makes the facts of a request by hand: for explain, for [[expect]] and for
// tests. header holds the client's headers by canonical name; Host and User-Agent among
// them are taken too. An empty addr is one of the documentation's (RFC 5737).
func NewRequest(method, target, addr string, header map[string]string) (*Request, error) {
	r := &Request{Method: method}
	for k, v := range header {
		switch {
		case strings.EqualFold(k, "Host"):
			r.Host = v
		case strings.EqualFold(k, "User-Agent"):
			r.Agent = v
		default:
			i := slices.IndexFunc(config.Headers[:], func(h string) bool { return strings.EqualFold(h, k) })
			if i < 0 {
				return nil, fmt.Errorf("header %q does not reach stile: nginx passes %s", k, strings.Join(config.Headers[:], ", "))
			}
			r.Header[i] = v
		}
	}
	if addr == "" {
		addr = "192.0.2.1"
	}
	a, err := netip.ParseAddr(addr)
	if err != nil {
		return nil, fmt.Errorf("address %q: want an IPv4 or IPv6 address", addr)
	}
	r.Addr, r.From = a.Unmap(), network.Of(a)
	var readings path.Readings
	if err := readings.Parse(target); err != nil {
		return nil, fmt.Errorf("target %q: %w (nginx answers 400)", target, err)
	}
	r.Path, r.Query, r.Alt = readings.Path, readings.Query, readings.Alt
	return r, nil
}

// Classify is what the rules say to a caller that has used nothing yet, in the words of
// an [[expect]], and the name of the rule that says it ("" if none matched).
func (p *Policy) Classify(r *Request) (verdict, rule string) {
	f := p.find(r)
	i, points := f.rule, f.points
	if i < 0 {
		if level := p.suspicion(points); level > r.level() {
			return challengeWord(level), ""
		}
		return "allow", ""
	}
	ru := &p.rules[i]
	if level := p.suspicion(points); level > r.level() && !ru.never && (ru.do == config.MeterAction || ru.do == config.Challenge) {
		return challengeWord(max(level, ru.level)), ru.name
	}
	return ru.describe(p), ru.name
}

func challengeWord(level uint8) string {
	if level > 1 {
		return fmt.Sprintf("challenge %d", level)
	}
	return "challenge"
}

// Satisfies tells whether a verdict is what an [[expect]] wants. "meter a" is satisfied
// by a rule that meters by a and others.
func Satisfies(got, want string) bool {
	g, w := strings.Fields(got), strings.Fields(want)
	if len(g) == 0 || len(w) == 0 || g[0] != w[0] {
		return false
	}
	if w[0] != "meter" {
		return slices.Equal(g, w)
	}
	for _, name := range w[1:] {
		if !slices.Contains(g[1:], name) {
			return false
		}
	}
	return true
}

// Step is one line of an explanation.
type Step struct{ What, Outcome string }

// Explain says how a request is decided, step by step, and for each rule that does not
// apply which of its matchers does not hold. It charges nothing.
func (p *Policy) Explain(r *Request) []Step {
	var out []Step
	add := func(what, format string, a ...any) { out = append(out, Step{what, fmt.Sprintf(format, a...)}) }
	add("request", "%s %s, query %q", r.Method, r.Path, r.Query)
	for _, alt := range r.Alt {
		add("request", "a backend may also read it as %s: the strictest rule over all readings counts", alt)
	}
	switch r.Caller.Kind {
	case Stranger:
		add("2 caller", "a stranger from %s", r.Addr)
	case Holder:
		add("2 caller", "holds a pass of level %d", r.Caller.Level)
	case User:
		add("2 caller", "a user that nginx knows")
	}
	add("3 jail", "not in this version")
	f := p.find(r)
	found, points := f.rule, f.points
	for _, reading := range append([]string{r.Path}, r.Alt...) {
		p.explainRules(r, reading, add)
	}
	if found < 0 {
		add("4 rules", "none matched")
	} else if len(r.Alt) > 0 {
		add("4 rules", "the strictest is %q", p.rules[found].name)
	}
	if points > 0 {
		add("4 rules", "%d points of suspicion, enough for level %d", points, p.suspicion(points))
	}
	verdict, _ := p.Classify(r)
	if found >= 0 && strings.HasPrefix(verdict, "meter") {
		kind, _ := r.meteredAs(p.rules[found].level)
		for _, i := range p.rules[found].meters {
			add("10 meters", "%s", p.meters[i].explain(kind, &p.rules[found]))
		}
	}
	add("verdict", "%s", verdict)
	if p.observe {
		add("mode", "observe: every request is let through, whatever the verdict")
	}
	return out
}

func (p *Policy) explainRules(r *Request, reading string, add func(what, format string, a ...any)) {
	for i := range p.rules {
		ru := &p.rules[i]
		where := fmt.Sprintf("rule %q", ru.name)
		if miss := ru.match.miss(r, reading); miss != "" {
			add("4 rules", "%s: no: its %s does not hold", where, miss)
			continue
		}
		if ru.observe {
			add("4 rules", "%s: would %s, but only observes", where, ru.describe(p))
			continue
		}
		add("4 rules", "%s: yes: %s", where, ru.describe(p))
		if ru.do != config.Suspect {
			return
		}
	}
}

// explain says what a meter allows a caller of that kind.
func (m *limiter) explain(k CallerKind, ru *rule) string {
	s := fmt.Sprintf("%s: ", m.name)
	if m.limit[k] == 0 {
		s += fmt.Sprintf("no limit for a %s", k)
	} else {
		s += fmt.Sprintf("%d in %s for a %s", m.limit[k], m.window, k)
	}
	if k == Stranger && m.strangers > 0 {
		s += fmt.Sprintf(", %d for all strangers together", m.strangers)
	}
	switch {
	case k != Stranger, ru.never:
		return s + "; above it refused"
	}
	return s + fmt.Sprintf("; above it asked for a proof of level %d", ru.level)
}
