package budget

import (
	"encoding/binary"
	"math/bits"
	"time"
)

// lateKept is how many leases are remembered after they have ended by themselves, so
// that the log line of a request that took longer than expected still teaches.
const lateKept = 1024

type state uint8

const (
	unused state = iota
	waiting
	given
	late // ended by itself
)

// lease is a request's place in the gate, first in the queue, then in flight.
type lease struct {
	id     ID
	caller uint64
	cost   int64
	since  int64 // it waits, or has been given
	end    int64
	nextID *lease // in its bucket
	state  state
	lane   Lane
	free   bool
	hold   bool
	round  uint8 // see Gate.round
	calls  int32 // of Admit that have been told of it or wait for it

	use  uint32 // of this piece of memory
	note Note

	nextOfCaller *lease  // in its bucket
	atOfCaller   **lease // what points to it there

	after    *lease        // in its queue, or unused
	expected time.Duration // that the backend takes, 0: not known

	// What only waiting needs.
	before  *lease        // in its queue
	length  time.Duration // of the lease
	waiters *Waiter
}

// Release says how a release ended.
type Release uint8

const (
	Released Release = iota // the lease is over
	Late                    // it had ended by itself
	Unqueued                // it still waited, and waits no longer
	Unknown                 // no such id, or released before
)

// Release ends the lease of a request. One that still waits leaves the queue: its
// request is over. An id that is unknown, or was released before, is counted and does no
// harm.
func (g *Gate) Release(id ID, now int64) (Note, Release) { return g.release(&id, 0, now, 1) }

// ReleaseAny releases an id in whichever of the gates know it. took is how long the
// backend has worked, 0 if that is not known. The note is of the first that does. If none
// does no gate counts it: the caller may.
func ReleaseAny(gates []*Gate, id ID, took time.Duration, now int64) (at *Gate, note Note, r Release) {
	r = Unknown
	for _, g := range gates {
		if n, how := g.release(&id, took, now, 0); how != Unknown && r == Unknown {
			at, note, r = g, n, how
		}
	}
	return at, note, r
}

// cutTime is how long a lease lasts after nginx has cut the backend off: as long as a
// backend may take to notice.
const cutTime = time.Second

// CutAny has a lease end by itself within a second, in whichever of the gates know it: the
// backend will soon notice that nobody takes what it makes. It returns false if none knows
// it.
func CutAny(gates []*Gate, id ID, now int64) (note Note, known bool) {
	for _, g := range gates {
		if n, ok := g.cut(&id, now); ok && !known {
			note, known = n, true
		}
	}
	return note, known
}

// NoteOf is the note of a lease, in whichever of the gates know it. Nothing changes.
func NoteOf(gates []*Gate, id ID) (note Note, known bool) {
	for _, g := range gates {
		g.mu.Lock()
		l := g.ids[g.idBucket(&id)]
		for l != nil && l.id != id {
			l = l.nextID
		}
		if l != nil {
			note, known = l.note, true
		}
		g.mu.Unlock()
		if known {
			break
		}
	}
	return note, known
}

func (g *Gate) cut(id *ID, now int64) (Note, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now = g.time(now)
	l := g.ids[g.idBucket(id)]
	for l != nil && l.id != *id {
		l = l.nextID
	}
	if l == nil {
		return Note{}, false
	}
	if l.state == given {
		l.expected = 0 // it is not stretched
	}
	if end := roundUp(now + int64(cutTime)); l.state == given && end < l.end {
		l.end = end
		if end < g.firstEnd {
			g.firstEnd = end
			g.setDue(min(g.due, end))
		}
	}
	return l.note, true
}

// quickest is the least that a backend's slowness is measured by: what should take a
// millisecond and takes twenty says nothing.
const (
	quickest    = 100 * time.Millisecond
	maxSlowness = 100
)

// learn counts that the backend has come to an end, and how long it took: being slow counts at once, being quick again an
// eighth each time.
func (g *Gate) learn(l *lease, took time.Duration) {
	g.round = 0
	if took <= 0 || l.expected <= 0 {
		return
	}
	x := min(max(float64(took)/float64(max(l.expected, quickest)), 1), maxSlowness)
	g.slowness = max(x, g.slowness-(g.slowness-x)/8)
}

// maxRound is up to where rounds of leases that nobody releases become longer.
const maxRound = 3

// lasts is until when a lease lasts whose end has come, but whose backend may be slow.
func (g *Gate) lasts(l *lease) int64 {
	if l.expected <= 0 {
		return l.end
	}
	d := time.Duration(min(float64(Cost{Time: l.expected}.Lease(g.o.Lease))*g.slowness, float64(g.o.Lease)))
	if g.released <= l.since {
		d = min(d<<l.round, g.o.Lease)
	}
	return roundUp(l.since + int64(d))
}

func roundUp(t int64) int64 { return (t + tick - 1) &^ (tick - 1) }

func (g *Gate) release(id *ID, took time.Duration, now int64, unknown uint64) (Note, Release) {
	g.mu.Lock()
	now = g.time(now)
	at := &g.ids[g.idBucket(id)]
	for *at != nil && (*at).id != *id {
		at = &(*at).nextID
	}
	l := *at
	if l == nil {
		g.counts.Unknown += unknown
		g.mu.Unlock()
		return Note{}, Unknown
	}
	note, r := l.note, Released
	if l.state == given {
		g.released = now
		if l.expected != 0 || g.round != 0 {
			g.learn(l, took)
		}
		g.end(l)
		*at = l.nextID
		g.recycle(l)
		if g.waiting.first != nil {
			g.admitWaiting(now)
		}
	} else {
		r = g.releaseOther(l, took, now)
	}
	g.mu.Unlock()
	return note, r
}

func (g *Gate) releaseOther(l *lease, took time.Duration, now int64) Release {
	if l.state == waiting {
		g.quit(l, Left, now)
		g.admitWaiting(now)
		return Unqueued
	}
	g.counts.Late++
	g.released = now
	g.learn(l, took)
	g.forgetLate(l)
	return Late
}

// give turns a place into a lease.
func (g *Gate) give(l *lease, length time.Duration, now int64) {
	l.state, l.since = given, now
	if l.expected != 0 {
		l.round = g.round
	}
	l.end = roundUp(now + int64(length))
	if l.end < g.firstEnd {
		g.firstEnd = l.end
		g.setDue(min(g.due, l.end))
	}
	g.inFlight += l.cost
	g.given++
	g.counts.Answers[Admitted]++
	if l.free || l.hold {
		g.giveApart(l, now)
	}
}

// giveApart counts what is counted apart: free requests, and holds.
func (g *Gate) giveApart(l *lease, now int64) {
	if l.free {
		g.free++
		g.freeCost += l.cost
		return
	}
	if g.heldCost == 0 {
		g.heldFrom = now
	}
	g.heldCost += l.cost
}

func (g *Gate) endApart(l *lease) {
	if l.free {
		g.free--
		g.freeCost -= l.cost
		return
	}
	g.heldCost -= l.cost
}

// end takes a lease out of what is in flight.
func (g *Gate) end(l *lease) {
	g.inFlight -= l.cost
	g.given--
	if l.free || l.hold {
		g.endApart(l)
	}
	l.leaveCaller()
}

func (l *lease) leaveCaller() {
	*l.atOfCaller = l.nextOfCaller
	if l.nextOfCaller != nil {
		l.nextOfCaller.atOfCaller = l.atOfCaller
	}
}

// expire ends a lease by its own end, and remembers it.
func (g *Gate) expire(l *lease) {
	g.counts.Expired++
	if l.expected > 0 && g.released <= l.since {
		g.round = min(max(g.round, l.round+1), maxRound)
	}
	g.end(l)
	if l.id == (ID{}) {
		g.forget(l)
		return
	}
	l.state = late
	if g.late.n >= lateKept {
		g.forgetLate(g.late.first)
	}
	g.late.push(l)
}

func (g *Gate) forgetLate(l *lease) {
	g.late.remove(l)
	g.forget(l)
}

// forget frees a place's memory for another.
func (g *Gate) forget(l *lease) {
	if l.id != (ID{}) {
		at := &g.ids[g.idBucket(&l.id)]
		for *at != l {
			at = &(*at).nextID
		}
		*at = l.nextID
	}
	g.recycle(l)
}

func (g *Gate) recycle(l *lease) {
	l.state = unused
	l.use++
	l.after, g.unused = g.unused, l
}

// buckets is the number of lists in which leases are found by id and by caller. With all
// the leases that there are by default a list has five.
const (
	buckets    = 1 << bucketBits
	bucketBits = 10
)

// Ids and callers are random, but not always by our doing: the seeds keep anybody from
// putting all his into one list.

func (g *Gate) idBucket(id *ID) uint64 {
	hi, lo := bits.Mul64(binary.LittleEndian.Uint64(id[:8])^g.seed[0], binary.LittleEndian.Uint64(id[8:])^g.seed[1])
	return (hi ^ lo) % buckets
}

func (g *Gate) callerBucket(caller uint64) uint64 {
	return caller * g.odd >> (64 - bucketBits)
}
