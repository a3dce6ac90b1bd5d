package decide

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"stile/config"
	"stile/decide/path"
	"stile/decide/pattern"
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
	r.Addr, r.From = network.Canonical(a), network.Of(a)
	var readings path.Readings
	if err := readings.Parse(target); err != nil {
		return nil, fmt.Errorf("target %q: %w", target, err)
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
// apply which of its matchers does not hold; then what the visitor sees, on a site whose
// challenges have that status. It takes the caller for one that has used nothing yet,
// and charges nothing.
func (p *Policy) Explain(r *Request, status int) []Step {
	var out []Step
	add := func(what, format string, a ...any) { out = append(out, Step{what, fmt.Sprintf(format, a...)}) }
	add("request", "%s %s, query %q", r.Method, r.Path, r.Query)
	for _, alt := range r.Alt {
		add("request", "a backend may also read it as %s: the strictest rule over all readings counts", alt)
	}
	add("2 caller", "%s", r.who())
	f := p.find(r)
	p.explainLookups(r, add)
	for _, reading := range append([]string{r.Path}, r.Alt...) {
		p.explainRules(r, reading, add)
	}
	if f.rule < 0 {
		add("4 rules", "none matched")
	} else if len(r.Alt) > 0 {
		add("4 rules", "the strictest is %q", p.rules[f.rule].name)
	}
	if f.points > 0 {
		add("4 rules", "%d points of suspicion, enough for level %d", f.points, p.suspicion(f.points))
	}
	// Its meters are taken for charged already, so that none is.
	v := p.judgeAs(r, f.rule, f.rule, f.points, 0)
	if w, ok := p.withheld(r, &f); ok {
		v = w
		add("4 rules", "rule %q has to know who it is: its first request has to come again", p.rules[f.waits].name)
	}
	if v.Action == Allow && v.Reason != Rule && f.rule >= 0 {
		p.explainMeters(r, &p.rules[f.rule], status, add)
	}
	if g := p.gateOf(f.gated); g != nil && v.Action == Allow {
		add("11 gate", "%s", r.atGate(g, &p.rules[f.rule]))
	}
	add("verdict", "%s", p.verdict(v, f.rule))
	add("answer", "%s", r.answer(v, status))
	if p.observe {
		add("mode", "observe: every request is let through, whatever the verdict")
	}
	return out
}

// who is the caller, as the meters know it.
func (r *Request) who() string {
	switch {
	case r.Caller.Kind == User:
		return "a user that nginx knows: what would ask for a pass lets it through"
	case r.Caller.Kind == Holder && r.Caller.Level == 1:
		return "holds a pass of level 1, earned by waiting"
	case r.Caller.Kind == Holder:
		return fmt.Sprintf("holds a pass of level %d, earned by work", r.Caller.Level)
	case r.Addr.Is4():
		return fmt.Sprintf("a stranger from %s", r.Addr)
	}
	return fmt.Sprintf("a stranger from %s: one with all of %s", r.Addr, around(r, 64))
}

// around is the network of that many bits around a request's address.
func around(r *Request, bits int) netip.Prefix {
	n, _ := r.Addr.Prefix(bits) // fails for lengths that no address has
	return n
}

// verdict is a verdict in the words of an [[expect]], so that one can be copied.
func (p *Policy) verdict(v Verdict, rule int) string {
	switch {
	case v.Level > 0: // also where it cannot be asked
		return challengeWord(v.Level)
	case v.Action == Refuse && v.Reason != Deny && v.Reason != Trap:
		return "refuse"
	case v.Reason == Demand, rule < 0:
		return "allow"
	}
	return p.rules[rule].describe(p)
}

// answer is what the client gets, where nginx answers as the shipped snippet has it.
func (r *Request) answer(v Verdict, status int) string {
	if v.Action == Allow {
		return "the site's own"
	}
	form := "a page that"
	if !Navigation(&r.Header) {
		form = "a line of text or JSON (a navigation would get a page) that"
	}
	switch {
	case v.Action == Challenge && v.Level <= 1:
		return fmt.Sprintf("%d and %s asks for a proof of level 1, which waiting is too", status, form)
	case v.Action == Challenge:
		return fmt.Sprintf("%d and %s asks for a proof of level %d", status, form, v.Level)
	case v.Unsafe:
		return fmt.Sprintf("429 and %s offers the proof in another tab: in the place of a %s a challenge would lose what it sends", form, r.Method)
	case v.Reason == Deny:
		return fmt.Sprintf("403 and %s says no", form)
	case v.Reason == Crawler:
		return fmt.Sprintf("503 and %s says when to try again: by then it is known who it is", form)
	}
	return fmt.Sprintf("429 and %s says when to try again", form)
}

func (p *Policy) explainRules(r *Request, reading string, add func(what, format string, a ...any)) {
	var words pattern.Words
	p.words.Find(reading, &words)
	for i := range p.rules {
		ru := &p.rules[i]
		where := fmt.Sprintf("rule %q", ru.name)
		if miss := ru.match.miss(r, reading, &words); miss != "" {
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

// explainMeters says what the meters of a rule allow the caller, and what comes above.
func (p *Policy) explainMeters(r *Request, ru *rule, status int, add func(what, format string, a ...any)) {
	by := payer{part: r.part()}
	by.kind, by.key = r.meteredAs(ru.level)
	by.waited = by.kind == Holder && r.Caller.Level == 1
	if by.kind != r.Caller.Kind {
		add("10 meters", "a pass of level %d counts for nothing where %d is asked for: a stranger", r.Caller.Level, ru.level)
	}
	for _, i := range ru.meters {
		add("10 meters", "%s: %s", p.meters[i].name, p.meters[i].explain(r, &by))
	}
	if len(ru.meters) == 0 {
		return
	}
	above := Verdict{Action: Refuse, Reason: Meter}
	if by.kind == Stranger {
		above = p.demand(r, Meter, ru.level, ru.never)
	}
	add("10 meters", "above that: %s", r.answer(above, status))
}

// explain says what a meter allows a caller: the numbers that charge holds it to.
func (m *limiter) explain(r *Request, by *payer) string {
	var limits []string
	slack, why := uint32(1), ""
	if by.part {
		slack, why = partSlack, fmt.Sprintf(" (×%d: a part of a page)", partSlack)
	}
	if limit := m.limit[by.kind] * slack; limit > 0 {
		if by.waited {
			limit, why = max(limit/waitShare, min(m.limit[Stranger]*slack, limit)), why+fmt.Sprintf(" (of %d: it was earned by waiting)", limit)
		}
		limits = append(limits, fmt.Sprintf("%d for %s%s", limit, m.whose(by.kind), why))
	}
	if m.countsWide(by) {
		for i, w := range r.From.Wider() {
			if w != 0 {
				limits = append(limits, fmt.Sprintf("%d for all of %s", m.limit[Stranger]*slack*factor(r.From, i), around(r, wideBits(r, i))))
			}
		}
	}
	if m.countsAll(by) {
		limits = append(limits, fmt.Sprintf("%d for all strangers together", m.strangers*slack))
	}
	if limits == nil {
		return fmt.Sprintf("no limit for a %s", by.kind)
	}
	s := strings.Join(limits, ", ") + fmt.Sprintf(" in %s", m.window)
	for _, n := range m.per.Segments {
		s += fmt.Sprintf(", at %q", segment(r.Path, n))
	}
	return s
}

// whose is who shares one count.
func (m *limiter) whose(k CallerKind) string {
	if m.per.Caller {
		return "a " + k.String()
	}
	return map[CallerKind]string{Stranger: "all strangers", Holder: "all passes", User: "all users"}[k] + " together"
}

// wideBits is how long the prefix of Network.Wider's i-th network is.
func wideBits(r *Request, i int) int {
	if r.From.Is4() {
		return 24
	}
	return [2]int{56, 48}[i]
}

// atGate says what a gate asks of a request, as far as its configuration tells.
func (r *Request) atGate(g *config.Gate, ru *rule) string {
	s := fmt.Sprintf("%q: admitted if what it costs fits what is free of %s, or if nothing else is in flight", g.Name, g.Amount(g.Budget))
	switch {
	case r.Header[config.HeaderSecPurpose] != "":
		s += "; else refused at once, for it is a prefetch"
	case g.Queue > 0:
		s += fmt.Sprintf("; else it waits its turn, up to %s", g.Wait)
	}
	switch g.Cost {
	case config.CostFixed:
		s += "; it costs " + g.Amount(g.Fixed)
	case config.CostLearned:
		s += fmt.Sprintf("; it costs what this path has cost before, or the dearest of its rule, or %s", g.Amount(g.Unseen))
	case config.CostFile:
		s += fmt.Sprintf("; it costs the size of %s times %g, or %s if there is none", g.File, g.Scale, g.Amount(g.Unseen))
	case config.CostHeader:
		s += fmt.Sprintf("; it costs what the backend said last time (X-Stile-Cost) times %g, or %s", g.Scale, g.Amount(g.Unseen))
	}
	if kind, _ := r.meteredAs(ru.level); kind == Stranger && !ru.never && g.WantsPass(g.Budget) {
		s += fmt.Sprintf("; a stranger needs a pass for more than %s", g.Amount(g.Budget/2))
	}
	return s
}
