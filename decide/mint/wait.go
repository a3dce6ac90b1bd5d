package mint

import (
	"errors"
	"fmt"
	"time"

	"stile/decide/internal/bucket"
	"stile/network"
)

const (
	// slotFor is how long a wait may be redeemed, from its beginning.
	slotFor = 2 * time.Minute
	// justFor is how long after a wait the same page without a pass means that the
	// browser does not keep cookies.
	justFor = 15 * time.Second
)

var slotTicks = bucket.Ticks(slotFor)

// ErrNone refuses a wait: its network has none outstanding. It was redeemed, two
// minutes have passed, or too many other networks have begun to wait since.
var ErrNone = errors.New("no wait is outstanding for this network: begin a new one")

// ErrEarly refuses a wait that is not over.
type ErrEarly struct{ Retry time.Duration }

func (e ErrEarly) Error() string { return fmt.Sprintf("the wait is not over: %v are left", e.Retry) }

// Wait is when a wait that the network begins now may be redeemed. Waits of one
// network are served one after another: while one is outstanding everybody there is
// given its time, which may have passed already. The next one begins when it has been
// redeemed, or two minutes after it began.
//
// Waiting costs nothing and counts nothing; Waited does. The table has one entry a
// network, so there is never more than one outstanding, whatever is sprayed. A spray
// can only make it forget: the oldest wait of five that share a bucket, which begins
// again. To do that to half of those who wait it takes Options.Keys distinct networks
// in every WaitFor, 6500 a second by default, for as long as it is to last; a quarter
// of them does it to one wait in 40. Whoever owns many networks has a wait in each.
//
// Behind one address whoever redeems first has the wait; the others are given the
// next.
func (l *Ledger) Wait(n network.Network, now int64) (ready int64) {
	key, tick := l.key(n), bucket.Tick(now)
	b, mu := l.slots.At(key)
	mu.Lock()
	e := place(b, key, tick)
	if e.N == 0 || e.Key != key || e.Age(tick) >= slotTicks {
		*e = bucket.Entry{Key: key, At: tick, N: 1}
	}
	ready = l.ready(e, now)
	mu.Unlock()
	return ready
}

// Waited redeems the outstanding wait of a network, the one that the wait's token
// names as having asked, and counts it as a pass of that network: in its day of waits,
// and in its own price. There must be no MintPaid beside it. target is a hash of the page waited
// for. It returns ErrNone, ErrEarly, or ErrCeiling, with which nothing has changed.
//
// A challenge that has been redeemed is good again, as with MintPaid: first is false,
// and nothing is counted. A link may be followed twice when a connection is lost.
func (l *Ledger) Waited(challenge uint64, n network.Network, target uint64, now int64) (first bool, err error) {
	lanes := l.lock(n, n)
	first, err = l.waitedLocked(l.keyOf(0, challenge), n, target, now)
	unlockLanes(lanes)
	return first, err
}

func (l *Ledger) waitedLocked(challenge uint64, n network.Network, target uint64, now int64) (first bool, err error) {
	tick := bucket.Tick(now)
	if l.sat.has(challenge, tick) {
		return false, nil
	}
	if err := l.ceiling(n, byWait, now); err != nil {
		return false, err
	}
	if err := l.takeWait(n, now); err != nil {
		return false, err
	}
	l.sat.mark(challenge, tick)
	l.countDay(n, byWait, now)
	l.waited.add(l.key(n), tick)
	l.just.mark(l.keyOf(n, target), tick)
	return true, nil
}

// takeWait frees the slot of a wait that is over.
func (l *Ledger) takeWait(n network.Network, now int64) (err error) {
	key, tick := l.key(n), bucket.Tick(now)
	b, mu := l.slots.At(key)
	mu.Lock()
	switch e := b.Find(key); {
	case e == nil || e.Age(tick) >= slotTicks:
		err = ErrNone
	case l.ready(e, now) > now:
		err = ErrEarly{Retry: time.Duration(l.ready(e, now) - now)}
	default:
		e.N = 0
	}
	mu.Unlock()
	return err
}

// JustWaited tells whether this network has redeemed a wait for this page within 15 s,
// and still comes without a pass: its browser does not keep cookies.
func (l *Ledger) JustWaited(n network.Network, target uint64, now int64) bool {
	return l.just.has(l.keyOf(n, target), bucket.Tick(now))
}

// ready is when the wait in e is over: WaitFor after the end of the tick in which it
// began. The lock must be held.
func (l *Ledger) ready(e *bucket.Entry, now int64) int64 {
	age := e.Age(bucket.Tick(now))
	begin := now - int64(bucket.Phase(now)) - int64(age)*int64(bucket.TickLength)
	return begin + int64(bucket.TickLength) + int64(l.waitFor)
}

func (l *Ledger) lenWaits(now int64) int {
	tick := bucket.Tick(now)
	return l.slots.Len(func(e *bucket.Entry) bool { return e.Age(tick) < slotTicks })
}
