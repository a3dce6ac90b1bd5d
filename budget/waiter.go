package budget

import "time"

// Waiter is one call that waits for a lease. Whoever got it waits for Done, and calls
// Leave if he does not want to wait any longer.
type Waiter struct {
	gate   *Gate
	lease  *lease
	use    uint32
	done   chan struct{}
	answer Answer
	waited time.Duration
	next   *Waiter // for the same lease
}

// Done is closed when there is an answer.
func (w *Waiter) Done() <-chan struct{} { return w.done }

// Answer is Waiting until Done is closed.
func (w *Waiter) Answer() Answer {
	select {
	case <-w.done:
		return w.answer
	default:
		return Waiting
	}
}

// Waited is how long the answer took: 0 until Done is closed.
func (w *Waiter) Waited() time.Duration {
	select {
	case <-w.done:
		return w.waited
	default:
		return 0
	}
}

// Leave gives up: the client has gone and will not hear the answer. If that was Admitted
// in the meantime the lease is given back, unless another call with the same id shares
// it. It returns the answer that there was, or Left. To leave twice does nothing more.
func (w *Waiter) Leave(now int64) Answer {
	g := w.gate
	g.mu.Lock()
	now = g.time(now)
	a, l := w.answer, w.lease
	if l != nil && l.use != w.use {
		l = nil // over, and its memory is another's
	}
	w.lease = nil
	switch {
	case l == nil:
	case a == Waiting:
		a = Left
		w.tell(Left, time.Duration(now-l.since))
		l.drop(w)
		if l.calls--; l.calls == 0 {
			g.quit(l, Left, now)
		}
	case a == Admitted && l.state == given:
		if l.calls--; l.calls == 0 {
			g.counts.Returned++
			g.end(l)
			g.forget(l)
		}
	}
	g.admitWaiting(now)
	g.mu.Unlock()
	return a
}

// enqueue puts a request at the end of the queue.
func (g *Gate) enqueue(l *lease, length time.Duration, now int64) *Waiter {
	l.state, l.since, l.length = waiting, now, length
	g.waiting.push(l)
	g.inQueue[l.lane]++
	g.setDue(min(g.due, now+int64(g.o.Wait)))
	return g.join(l)
}

// join makes one more call wait for a lease.
func (g *Gate) join(l *lease) *Waiter {
	w := &Waiter{gate: g, lease: l, use: l.use, done: make(chan struct{}), next: l.waiters}
	l.waiters = w
	return w
}

func (w *Waiter) tell(a Answer, waited time.Duration) {
	w.answer, w.waited = a, waited
	close(w.done)
}

// tell answers everyone who waits for a lease.
func (l *lease) tell(a Answer, waited time.Duration) {
	for w := l.waiters; w != nil; w = w.next {
		w.tell(a, waited)
	}
	l.waiters = nil
}

func (l *lease) drop(w *Waiter) {
	at := &l.waiters
	for *at != w {
		at = &(*at).next
	}
	*at = w.next
}

// quit ends a wait with no lease at the end of it.
func (g *Gate) quit(l *lease, a Answer, now int64) {
	g.counts.Answers[a]++
	l.tell(a, time.Duration(now-l.since))
	g.leaveQueue(l)
	l.leaveCaller()
	g.forget(l)
}

func (g *Gate) leaveQueue(l *lease) {
	g.waiting.remove(l)
	g.inQueue[l.lane]--
}

// queue is a list of leases in the order in which they came.
type queue struct {
	first, last *lease
	n           int
}

func (q *queue) push(l *lease) {
	l.before, l.after = q.last, nil
	if q.last == nil {
		q.first = l
	} else {
		q.last.after = l
	}
	q.last = l
	q.n++
}

func (q *queue) remove(l *lease) {
	if l.before == nil {
		q.first = l.after
	} else {
		l.before.after = l.after
	}
	if l.after == nil {
		q.last = l.before
	} else {
		l.after.before = l.before
	}
	l.before, l.after = nil, nil
	q.n--
}
