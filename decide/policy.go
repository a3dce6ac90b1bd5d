package decide

import (
	"fmt"
	"math"
	"math/bits"
	"slices"
	"time"

	"stile/config"
	"stile/decide/pattern"
)

// MaxRules is how many rules a policy may have; a verdict names one in 16 bits.
const MaxRules = 4096

// PointsPerLevel is how many points of suspicion ask for each further level of pass.
const PointsPerLevel = 10

// Policy is one configuration, compiled. It is immutable; its counters are not.
type Policy struct {
	rules   []rule
	index   index
	words   *pattern.Dictionary // of the rules' paths
	meters  []limiter
	gates   []config.Gate
	observe bool
	gen     uint8
	uses    struct{ crawler, asn, country bool } // what its rules look up
}

// compile makes a policy, and keeps the counters of those meters of old that still
// count the same thing.
func compile(c *config.Config, old *Policy, seed uint64) (*Policy, error) {
	p := &Policy{observe: c.Mode == config.Observe, gates: c.Gates, words: pattern.NewDictionary()}
	p.uses.crawler = c.UsesCrawler()
	p.uses.asn, p.uses.country = c.UsesGeo()
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
		m, err := compileMatcher(&cr.Match, p.words)
		if err != nil {
			return nil, fmt.Errorf("%s:%d: rule %q: %w", cr.Pos.File, cr.Pos.Line, cr.Name, err)
		}
		r := rule{
			name: cr.Name, do: cr.Do, points: cr.Suspect, level: max(cr.Level, 1), never: cr.Proof == config.Never,
			observe: cr.Mode == config.Observe, match: m, hits: keptHits(old, cr.Name), gate: int16(cr.Gate),
		}
		for _, j := range cr.Meters {
			r.meters = append(r.meters, int16(j))
		}
		r.strict = p.strictness(&r)
		p.rules = append(p.rules, r)
	}
	p.index = newIndex(p.rules, p.words)
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

// found is what the rules say of a request.
type found struct {
	rule     int // the one that it falls under, -1: none
	gated    int // the one whose gate it owes, -1: none
	points   int // of suspicion
	observed int // the first rule in observe mode that would have ended the search, -1: none
	waits    int // the first rule that would have to know who a crawler is that is being looked up, -1: none
}

// find is the rules that a request falls under. Each reading of the target has its own
// first match, and the strictest of them counts; what a rule says about anything but the
// path is asked once for all readings, so that a target with many of them costs little
// more than any other.
func (p *Policy) find(r *Request) found {
	var t target
	t.read(r, p.words)
	open, seen := uint(1)<<t.n-1, uint(0) // readings that are still searched; that an observing rule has met
	out := found{rule: -1, gated: -1, observed: -1, waits: -1}
	r.looked.crawler, r.looked.place, r.looked.signed, r.looked.waits = false, false, false, false
	var points [readings]int
	class := classOf(r.Method)
	for at := range p.index {
		b := &p.index[at]
		sift := b.sift(r, class)
		var may [readings]uint64
		left := uint64(0)
		for k := range t.n {
			may[k] = b.about(&t.words[k]) & sift
			left |= may[k]
		}
		for ; left != 0; left &= left - 1 {
			bit := bits.TrailingZeros64(left)
			hit := uint(0)
			for k := range t.n {
				hit |= uint(may[k]>>bit&1) << k
			}
			if hit &= open; hit == 0 {
				continue
			}
			i := at*blockRules + bit
			ru := &p.rules[i]
			hit = ru.match.hits(r, &t, hit)
			if r.looked.waits {
				if r.looked.waits = false; out.waits < 0 && !ru.observe {
					out.waits = i
				}
			}
			if hit == 0 {
				continue
			}
			switch {
			case ru.observe:
				if ru.do != config.Suspect && hit&^seen != 0 && out.observed < 0 {
					out.observed = i
				}
				seen |= hit
			case ru.do == config.Suspect:
				for k := range t.n {
					if hit&(1<<k) != 0 {
						points[k] += ru.points
					}
				}
			default:
				p.fall(&out, i)
				if open &^= hit; open == 0 {
					out.points = slices.Max(points[:t.n])
					return out
				}
			}
		}
	}
	out.points = slices.Max(points[:t.n])
	return out
}

// fall adds the rule that one more reading falls under. Of readings under rules that are
// equally strict the first counts. The gate is that of the strictest rule that has one:
// another reading must not lead past it.
func (p *Policy) fall(f *found, rule int) {
	strict := p.rules[rule].strict
	if f.rule < 0 || strict > p.rules[f.rule].strict {
		f.rule = rule
	}
	if p.rules[rule].gate != 0 && (f.gated < 0 || strict > p.rules[f.gated].strict) {
		f.gated = rule
	}
}

// RuleName is the name of the rule that a verdict of this policy, or of none, names.
func (p *Policy) RuleName(v Verdict) string {
	if i, ok := p.Rule(v); ok {
		return p.rules[i].name
	}
	return ""
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
