// Package decide turns the facts of a request into a verdict.
//
// One function, one order, cheap before expensive; no I/O, no clock of its own, no
// allocation. The steps are numbered as in the design: 1 the same request again,
// 2 who is it, 3 jail, 4 rules, 5 deny and trap, 6 allow, 7 surge, 8 challenge and
// suspicion, 9 heavy hitters, 10 meters, 11 gate. Steps 3, 7 and 9 are not in this
// version; their places are marked and their reasons exist. Step 11, which may wait, is
// left to whoever owns the gates: see Policy.Claim.
package decide

import (
	"math/rand/v2"
	"slices"
	"sync/atomic"

	"stile/config"
	"stile/crawler"
)

// crawlerRetrySeconds is when a crawler should come again where it would have to prove
// something, whatever it has used: not soon, for a policy does not change by itself.
const crawlerRetrySeconds = 600

// Engine decides. It is safe for concurrent use; Reload may be called meanwhile.
type Engine struct {
	policy atomic.Pointer[Policy]
	seen   recent
	seed   uint64
}

// New compiles a configuration.
func New(c *config.Config) (*Engine, error) {
	e := &Engine{seed: rand.Uint64()}
	return e, e.Reload(c)
}

// Reload swaps the policy whole, or keeps the old one and returns an error. Meters
// that count the same thing as before keep their counts.
func (e *Engine) Reload(c *config.Config) error {
	p, err := e.Compile(c)
	if err != nil {
		return err
	}
	e.Use(p)
	return nil
}

// Compile is the first half of Reload: nothing has changed yet.
func (e *Engine) Compile(c *config.Config) (*Policy, error) {
	return compile(c, e.policy.Load(), e.seed)
}

// Use puts a policy in force that Compile has made since the last Use.
func (e *Engine) Use(p *Policy) { e.policy.Store(p) }

// Policy is the policy in force.
func (e *Engine) Policy() *Policy { return e.policy.Load() }

// Decide judges one request at a time (unix nanoseconds). It charges the meters of
// the rule that the request falls under, once for each request id.
func (e *Engine) Decide(r *Request, now int64) Verdict {
	p := e.policy.Load()
	r.looked = looked{now: now} // whatever was known of another request in r

	// 1. The same request again: the same answer.
	if r.ID != ([16]byte{}) {
		if v, ok := e.seen.get(&r.ID, now); ok {
			v.Again = true
			return v
		}
	}
	v := p.decide(r, now)
	if r.ID != ([16]byte{}) {
		e.seen.put(&r.ID, v, now)
	}
	return v
}

// decide is steps 4 to 10. Step 2 has been taken by whoever made the request's
// Caller; step 3, the jail, comes here.
func (p *Policy) decide(r *Request, now int64) Verdict { return p.decideAs(r, p.find(r), now) }

// decideAs is decide for a request of which the rules say f.
func (p *Policy) decideAs(r *Request, f found, now int64) Verdict {
	if v, ok := p.withheld(r, &f); ok {
		return v
	}
	v := p.judge(r, f.rule, f.points, now)
	v.rule, v.gated, v.policy = int16(f.rule)+1, int16(f.gated)+1, p.gen
	if f.rule >= 0 {
		p.rules[f.rule].found.Add(1)
	}
	if f.observed >= 0 {
		p.watch(r, f.observed, f.rule, f.points, now)
	}
	return v
}

// watch counts what a rule in observe mode would have done. Meters that the request has
// been counted in by the rule in force (found, -1: none) are not charged twice.
func (p *Policy) watch(r *Request, observed, found, points int, now int64) {
	ru := &p.rules[observed]
	ru.hits.found.Add(1)
	if p.judgeAs(r, observed, found, points, now).Action != Allow {
		ru.would.Add(1)
	}
}

// judge is the verdict under one rule (-1: none).
func (p *Policy) judge(r *Request, i, points int, now int64) Verdict {
	return p.judgeAs(r, i, -1, points, now)
}

// judgeAs is judge without charging the meters of another rule (charged, -1: none).
func (p *Policy) judgeAs(r *Request, i, charged, points int, now int64) Verdict {
	if i < 0 {
		if level := p.suspicion(points); level > r.level() {
			return p.demand(r, Suspicion, level, false)
		}
		return Verdict{Action: Allow, Reason: NoRule}
	}
	ru := &p.rules[i]
	switch ru.do {
	case config.Deny: // 5.
		return Verdict{Action: Refuse, Reason: Deny}
	case config.Trap:
		return Verdict{Action: Refuse, Reason: Trap}
	case config.Allow: // 6. Skips 7 to 10, never 11: see Policy.Claim.
		return Verdict{Action: Allow, Reason: Rule}
	}
	// 7. Surge.

	// 8. A level that is asked for, whatever has been used.
	if ru.do == config.Challenge && r.level() < ru.level {
		return p.demand(r, Demand, max(ru.level, p.suspicion(points)), false)
	}
	if level := p.suspicion(points); level > r.level() && !ru.never {
		return p.demand(r, Suspicion, level, false)
	}
	// 9. Heavy hitters under pressure.

	// 10. Meters.
	if v, ok := p.charge(r, ru, charged, now); !ok {
		return v
	}
	// 11. The gate: see Policy.Claim.
	if ru.do == config.Challenge {
		return Verdict{Action: Allow, Reason: Demand}
	}
	return Verdict{Action: Allow, Reason: Metered}
}

// charge counts the request in every meter of the rule but those that another rule
// has counted it in already (except, a rule's index, -1: none). Either all count it
// or none does.
func (p *Policy) charge(r *Request, ru *rule, except int, now int64) (Verdict, bool) {
	by := payer{part: r.part()}
	by.kind, by.key = r.meteredAs(ru.level)
	by.waited = by.kind == Holder && r.Caller.Level == 1
	if len(ru.meters) > 1 {
		for _, i := range ru.meters {
			p.meters[i].prefetch(r, &by)
		}
	}
	for n, i := range ru.meters {
		if except >= 0 && slices.Contains(p.rules[except].meters, i) {
			continue
		}
		left, why := p.meters[i].charge(r, &by, now)
		if why == Metered {
			continue
		}
		for _, done := range ru.meters[:n] {
			if except < 0 || !slices.Contains(p.rules[except].meters, done) {
				p.meters[done].undo(r, &by, now)
			}
		}
		// A caller on the raised budget who runs out is refused: another proof
		// would not give it another budget.
		if by.kind == Stranger {
			v := p.demand(r, why, ru.level, ru.never)
			if v.meter = i + 1; v.Reason != Crawler {
				v.Retry = seconds(left)
			}
			return v, false
		}
		return Verdict{Action: Refuse, Reason: why, Retry: seconds(left), meter: i + 1}, false
	}
	return Verdict{}, true
}

// meteredAs is by what the meters know the caller. A pass of a lower level than the
// rule asks for is worth nothing there: its holder is a stranger.
func (r *Request) meteredAs(level uint8) (CallerKind, uint64) {
	if r.Caller.Kind == Stranger || r.Caller.Kind == Holder && r.Caller.Level < level {
		return Stranger, uint64(r.From)
	}
	return r.Caller.Kind, r.Caller.Key
}

// level is what the caller has proven; a known user need prove nothing.
func (r *Request) level() uint8 {
	switch r.Caller.Kind {
	case User:
		return 3
	case Holder:
		return r.Caller.Level
	}
	return 0
}

// demand asks for a proof where the request can be answered with one, and refuses
// where it cannot: a challenge in the place of a POST would lose the form, and in the
// place of a page that a crawler asks for it would lose the page.
func (p *Policy) demand(r *Request, why Reason, level uint8, never bool) Verdict {
	if never {
		return Verdict{Action: Refuse, Reason: why, Retry: 1}
	}
	switch p.crawls(r) {
	case crawler.Pending: // it may be another's turn when that is known
		return Verdict{Action: Refuse, Reason: Crawler, Level: level, Retry: crawler.RetrySeconds}
	case crawler.Verified, crawler.Unknown:
		return Verdict{Action: Refuse, Reason: why, Level: level, Retry: crawlerRetrySeconds}
	}
	if !safe(r.Method) {
		return Verdict{Action: Refuse, Reason: why, Level: level, Unsafe: true, Retry: 1}
	}
	return Verdict{Action: Challenge, Reason: why, Level: level}
}

// suspicion is the level of pass that so many points ask for; 0: none.
func (p *Policy) suspicion(points int) uint8 { return uint8(min(max(points, 0)/PointsPerLevel, 3)) }

// Observing tells whether verdicts are only reported.
func (p *Policy) Observing() bool { return p.observe }

// Retry is a refusal's time with jitter of up to a quarter (at least a second): many
// who are told the same second would all come back in it.
func Retry(seconds uint32) uint32 {
	s := max(seconds, 1)
	return s + rand.Uint32N(max(s/4, 1)+1)
}
