package decide

import "stile/network"

// Found is what the rules say of a request: for who decides about many of the same, a
// replay, and remembers it. It is good for all engines of one configuration, as long as
// they are not reloaded.
type Found struct{ found }

// Find is which rule a request falls under. Nothing is charged. It may be asked while
// another goroutine decides.
func (e *Engine) Find(r *Request) Found { return Found{e.policy.Load().find(r)} }

// DecideFound is Decide for a request without an id, of which, or of whose like, Find has
// said f.
func (e *Engine) DecideFound(r *Request, f Found, now int64) Verdict {
	r.looked = looked{now: now} // f may have been found for another request in r
	return e.policy.Load().decideAs(r, f.found, now)
}

// AppendCounters appends where in memory the counters begin in which a stranger from a
// network is counted whose request falls under f: who decides about many requests has
// these come from memory side by side, not one after the other. It looks at none of them.
// Those that it leaves out (by segments, or of who has proven something) cost their time.
// Whoever looks must be the only one to decide.
func (e *Engine) AppendCounters(dst []*uint64, f Found, from network.Network) []*uint64 {
	if f.rule < 0 {
		return dst
	}
	p := e.policy.Load()
	around := uint64(from.Wider()[0])
	for _, i := range p.rules[f.rule].meters {
		m := &p.meters[i]
		if m.limit[Stranger] > 0 && m.per.Caller && len(m.per.Segments) == 0 {
			// As keyOf and wideKey have it.
			dst = append(dst, m.stranger.Place(mix(m.seed, uint64(from))), m.wide.Place(mix(m.seed, around)))
		}
	}
	return dst
}
