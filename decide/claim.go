package decide

import "stile/config"

// Claim is a request that has passed steps 1 to 10 and is now at step 11: the gate of its
// rule. Who owns the gates admits it, lets it wait or refuses it; see Verdict.AtGate.
type Claim struct {
	Gate string // its name
	Rule string // that the gate is of
	Kind CallerKind
	Key  uint64 // of the caller, as the meters know it
	// MayProve tells whether a proof could be the answer to the request: a stranger who wants
	// more than half the budget is asked for one (see AskAtGate).
	MayProve bool
	// NoWait: nobody would see the answer in time. A prefetch is not queued.
	NoWait bool
}

// Claim is what a request that is allowed by v owes a gate. ok is false if none of the rules
// that it falls under has one.
func (p *Policy) Claim(r *Request, v Verdict) (c Claim, ok bool) {
	i, ok := p.Rule(v)
	if !ok || v.Action != Allow || int(v.gated) > len(p.rules) {
		return Claim{}, false
	}
	g := p.gateOf(int(v.gated) - 1)
	if g == nil {
		return Claim{}, false
	}
	ru := &p.rules[i]
	c = Claim{Gate: g.Name, Rule: p.rules[v.gated-1].name, NoWait: r.Header[config.HeaderSecPurpose] != ""}
	c.Kind, c.Key = r.meteredAs(ru.level)
	c.MayProve = c.Kind == Stranger && !ru.never
	return c, true
}

// AskAtGate is the verdict for a stranger who wants more than half of a gate's budget: a
// proof first, and a crawler is told to come again.
func (p *Policy) AskAtGate(r *Request, v Verdict) Verdict {
	asked := p.demand(r, Gate, p.rules[v.rule-1].level, false)
	asked.rule, asked.policy = v.rule, v.policy
	return asked
}

// RefusedAtGate is the verdict for a request that a gate has not admitted: why is Gate or
// Closed.
func (v Verdict) RefusedAtGate(why Reason, retry uint32) Verdict {
	return Verdict{Action: Refuse, Reason: why, Retry: retry, Again: v.Again, rule: v.rule, policy: v.policy}
}

// Amend replaces the answer that step 1 gives to further calls with the request's id.
func (e *Engine) Amend(r *Request, v Verdict, now int64) {
	if r.ID != ([16]byte{}) {
		v.Again = false
		e.seen.put(&r.ID, v, now)
	}
}

// gateOf is the gate of a rule, nil if it has none.
func (p *Policy) gateOf(rule int) *config.Gate {
	if rule < 0 || p.rules[rule].gate == 0 {
		return nil
	}
	return &p.gates[p.rules[rule].gate-1]
}
