package decide

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

// Prefetch has what a stranger's request is counted in, if it falls under f, on its way from
// memory: who decides about many has this done for some of them ahead, and waits once. It
// looks at the network, and for meters by segments at the path.
func (e *Engine) Prefetch(r *Request, f Found) {
	if f.rule < 0 {
		return
	}
	p := e.policy.Load()
	by := payer{kind: Stranger, key: uint64(r.From)}
	for _, i := range p.rules[f.rule].meters {
		p.meters[i].prefetch(r, &by)
	}
}
