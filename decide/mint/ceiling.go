package mint

import (
	"fmt"
	"time"

	"stile/network"
)

// day begins at a network's first pass.
const day = 24 * time.Hour

// ErrCeiling refuses a pass: the network has had as many as it may have in a day.
type ErrCeiling struct{ Retry time.Duration } // until the day ends

func (e ErrCeiling) Error() string {
	return fmt.Sprintf("this network has had all its passes for today: the next in %v", e.Retry.Round(time.Second))
}

// Proofs and waits have a day's ceiling each: a wait costs nothing, and must not keep a
// neighbour behind the same address from proving anything.
const (
	byProof = iota
	byWait
)

// ceiling tells whether a network may have one more, and counts nothing. The lane of
// the network must be held, or the answer is stale at once.
func (l *Ledger) ceiling(n network.Network, by uint64, now int64) error {
	if n == 0 {
		return nil
	}
	if had, left := l.day.Peek(l.keyOf(n, by), now, day); had >= l.perDay {
		return ErrCeiling{Retry: left}
	}
	return nil
}

func (l *Ledger) countDay(n network.Network, by uint64, now int64) {
	if n != 0 {
		l.day.Add(l.keyOf(n, by), now, day, l.perDay)
	}
}
