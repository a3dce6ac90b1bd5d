package budget

import (
	"context"
	"math"
	"time"
)

const (
	never      = math.MaxInt64
	notRunning = math.MinInt64
)

// stepBack is by how much a clock may seem to go back because a caller read it and then
// was slow to come. Anything more is a step.
const stepBack = 5 * time.Second

// tick, a 60th of a second, is what the ends of leases are rounded up to. So the leases
// are looked through at most that often, and nothing has to keep them in order.
const tick = 1 << 24

// time does what is due by now. It never goes back: after a step back by the caller's
// clock all times that the gate remembers are moved back with it.
func (g *Gate) time(now int64) int64 {
	if now < g.last || now >= g.due {
		now = g.pass(now)
	}
	g.last = now
	return now
}

func (g *Gate) pass(now int64) int64 {
	if back := g.last - now; back > int64(stepBack) {
		g.moveBack(back)
	} else if back > 0 {
		now = g.last
	}
	g.last = now
	if now >= g.due {
		g.advance(now)
	}
	return now
}

func (g *Gate) moveBack(back int64) {
	for _, block := range g.memory {
		for i := range block {
			block[i].since -= back
			block[i].end -= back
		}
	}
	g.heldFrom -= back
	g.released -= back
	g.firstEnd = later(g.firstEnd, -back)
	g.due = later(g.due, -back)
}

func later(t, by int64) int64 {
	if t == never {
		return never
	}
	return t + by
}

// advance does what is due: leases end, the head of the queue is admitted, waits are over.
// In this order: who has waited to the end but now fits is admitted.
func (g *Gate) advance(now int64) {
	if now >= g.firstEnd {
		g.endDue(now)
	}
	g.admitWaiting(now)
	head := int64(never)
	for l := g.waiting.first; l != nil; l = g.waiting.first {
		if head = l.since + int64(g.o.Wait); head > now {
			break
		}
		head = never
		g.quit(l, Elapsed, now)
		g.admitWaiting(now)
	}
	g.setDue(min(g.firstEnd, head))
}

// endDue ends the leases that are due, and looks up when the next one is.
func (g *Gate) endDue(now int64) {
	g.firstEnd = never
	for _, block := range g.memory {
		for i := range block {
			l := &block[i]
			if l.state != given {
				continue
			}
			if l.end <= now {
				l.end = max(l.end, g.lasts(l))
			}
			if l.end <= now {
				g.expire(l)
			} else {
				g.firstEnd = min(g.firstEnd, l.end)
			}
		}
	}
}

// setDue says when advance is needed. Run need not sleep less if it is needed later: a
// busy gate wakes Run once in the length of a lease, not once a request.
func (g *Gate) setDue(t int64) {
	g.due = t
	if t < g.armed {
		g.armed = t
		select {
		case g.wake <- struct{}{}:
		default:
		}
	}
}

// Tick does what is due by now, and tells for how long nothing is due; ok is false if
// nothing ever is. It is for who steps the time himself; others let Run do it.
func (g *Gate) Tick(now int64) (left time.Duration, ok bool) {
	g.mu.Lock()
	now = g.time(now)
	t := g.due
	g.mu.Unlock()
	return time.Duration(t - now), t != never
}

// Run does what is due when it is due, by one timer, until ctx ends: then it closes the
// gate, so that nobody waits for ever. At most one Run at a time. Without Run (or Tick)
// leases end and waits are over only when somebody else calls.
//
// clock must be the one by which the other methods are called.
func (g *Gate) Run(ctx context.Context, clock func() int64) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			g.mu.Lock()
			g.armed = notRunning
			g.mu.Unlock()
			g.Close(clock())
			return
		case <-timer.C:
		case <-g.wake:
		}
		g.mu.Lock()
		now := g.time(clock())
		g.armed = g.due
		left := time.Duration(g.due - now)
		g.mu.Unlock()
		timer.Reset(left)
	}
}
