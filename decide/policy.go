package decide

import (
	"fmt"
	"math"
	"slices"
	"time"

	"stile/config"
)

// MaxRules is how many rules a policy may have; a verdict names one in 16 bits.
const MaxRules = 4096

// PointsPerLevel is how many points of suspicion ask for each further level of pass.
const PointsPerLevel = 10

// Policy is one configuration, compiled. It is immutable; its counters are not.
type Policy struct {
	sieves  []sieve // of each rule, close together
	rules   []rule
	meters  []limiter
	observe bool
	gen     uint8
}

// compile makes a policy, and keeps the counters of those meters of old that still
// count the same thing.
func compile(c *config.Config, old *Policy, seed uint64) (*Policy, error) {
	p := &Policy{observe: c.Mode == config.Observe}
	if old != nil {
		p.gen = old.gen + 1
	}
	if len(c.Rules) > MaxRules {
		return nil, fmt.Errorf("%d rules: at most %d are supported", len(c.Rules), MaxRules)
	}
	for i := range c.Meters {
		p.meters = append(p.meters, compileMeter(&c.Meters[i], old, c.State.Keys, mix(seed, uint64(i)+1)))
	}
	for i := range c.Rules {
		cr := &c.Rules[i]
		m, err := compileMatcher(&cr.Match)
		if err != nil {
			return nil, fmt.Errorf("%s:%d: rule %q: %w", cr.Pos.File, cr.Pos.Line, cr.Name, err)
		}
		r := rule{
			name: cr.Name, do: cr.Do, points: cr.Suspect, level: max(cr.Level, 1), never: cr.Proof == config.Never,
			observe: cr.Mode == config.Observe, match: m, hits: keptHits(old, cr.Name),
		}
		for _, j := range cr.Meters {
			r.meters = append(r.meters, int16(j))
		}
		r.strict = p.strictness(&r)
		p.rules = append(p.rules, r)
		p.sieves = append(p.sieves, newSieve(&m))
	}
	return p, nil
}

func compileMeter(c *config.Meter, old *Policy, keys int, seed uint64) limiter {
	m := limiter{
		name: c.Name, window: c.Window, strangers: c.Strangers, per: c.Per, seed: seed,
		limit: [callerKinds]uint32{Stranger: c.Stranger, Holder: c.Pass, User: c.User},
	}
	if old != nil {
		for i := range old.meters {
			o := &old.meters[i]
			if o.name == m.name && o.window == m.window && samePer(o.per, m.per) && o.stranger.Cap() >= keys {
				m.counters, m.seed = o.counters, o.seed
				return m
			}
		}
	}
	m.counters = newCounters(keys)
	return m
}

func keptHits(old *Policy, name string) *hits {
	if old != nil {
		for i := range old.rules {
			if old.rules[i].name == name {
				return old.rules[i].hits
			}
		}
	}
	return new(hits)
}

func samePer(a, b config.Per) bool {
	return a.Caller == b.Caller && slices.Equal(a.Segments, b.Segments)
}

// strictness ranks a rule. Where a backend may read a target in another way than
// nginx does, the strictest rule over all readings counts: then an exemption holds
// only if it holds for every reading, and a restriction if it holds for any.
func (p *Policy) strictness(r *rule) uint64 {
	const step = uint64(1) << 40
	switch r.do {
	case config.Deny:
		return 9 * step
	case config.Trap:
		return 8 * step
	case config.Challenge:
		return 5*step + uint64(r.level)
	case config.MeterAction:
		// The fewer requests an hour a stranger has, the stricter.
		least := math.MaxFloat64
		for _, i := range r.meters {
			if m := &p.meters[i]; m.limit[Stranger] > 0 {
				least = min(least, float64(m.limit[Stranger])/m.window.Hours())
			}
		}
		rank := 4 * step
		if r.never {
			rank = 2 * step
		}
		return rank - 1 - min(uint64(min(least, 1e12)), step-1)
	}
	return 0
}

// find is the rule that a request falls under and its points of suspicion; -1: none.
// observed is the first rule in observe mode that would have ended the search.
func (p *Policy) find(r *Request) (found int, points int, observed int) {
	found, points, observed = p.walk(r, r.Path)
	for _, path := range r.Alt {
		i, pts, obs := p.walk(r, path)
		if i >= 0 && (found < 0 || p.rules[i].strict > p.rules[found].strict) {
			found = i
		}
		points = max(points, pts)
		if observed < 0 {
			observed = obs
		}
	}
	return found, points, observed
}

func (p *Policy) walk(r *Request, path string) (found int, points int, observed int) {
	observed = -1
	get := r.Method == "GET"
	for i := range p.sieves {
		// Fast path: most rules are about other paths, or other methods.
		if v := &p.sieves[i]; get && v.notGet || !v.paths.May(path) {
			continue
		}
		// Slow path.
		ru := &p.rules[i]
		if ru.match.miss(r, path) != "" {
			continue
		}
		if ru.observe {
			if observed < 0 && ru.do != config.Suspect {
				observed = i
			}
			continue
		}
		if ru.do == config.Suspect {
			points += ru.points
			continue
		}
		return i, points, observed
	}
	return -1, points, observed
}

// RuleName is the name of the rule that a verdict of this policy, or of none, names.
func (p *Policy) RuleName(v Verdict) string {
	if v.rule < 0 || v.policy != p.gen || int(v.rule) >= len(p.rules) {
		return ""
	}
	return p.rules[v.rule].name
}

// Len is how many rules there are.
func (p *Policy) Len() int { return len(p.rules) }

// Tables calls f for each table of counters. It walks them: not for the hot path.
func (p *Policy) Tables(now int64, f func(name string, used, size int)) {
	for i := range p.meters {
		m := &p.meters[i]
		f(m.name+" strangers", m.stranger.Len(now, m.window), m.stranger.Cap())
		f(m.name+" proven", m.proven.Len(now, m.window), m.proven.Cap())
		f(m.name+" networks", m.wide.Len(now, m.window), m.wide.Cap())
	}
}

// Rules calls f for each rule with how many requests fell under it, and how many it
// would not have let through, being in observe mode.
func (p *Policy) Rules(f func(name string, found, would uint64)) {
	for i := range p.rules {
		f(p.rules[i].name, p.rules[i].found.Load(), p.rules[i].would.Load())
	}
}

// seconds rounds a duration up to whole seconds, at least 1.
func seconds(d time.Duration) uint32 {
	return uint32(max((d+time.Second-1)/time.Second, 1))
}
