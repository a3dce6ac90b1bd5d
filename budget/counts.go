package budget

import "time"

// Counts is what has happened since the gate was made.
type Counts struct {
	Answers  [Answers]uint64 // each request's last; Waiting is not one
	Free     uint64          // admitted without a turn
	Waited   uint64          // admitted after a wait
	Repeated uint64          // asked again by an id that had a place
	Released uint64          // leases, by Release
	Returned uint64          // leases of those who had left when they were admitted
	Expired  uint64          // leases that ended by themselves
	Late     uint64          // released after that
	Unknown  uint64          // ids that Release did not know
}

// Stats is the state of a gate.
type Stats struct {
	Counts
	Budget   int64
	InFlight int64 // costs of all leases
	Leases   int
	Waiting  int
	HeadWait time.Duration // of the first in the queue
}

// Stats is for the metrics.
func (g *Gate) Stats(now int64) Stats {
	g.mu.Lock()
	now = g.time(now)
	s := Stats{Counts: g.counts, Budget: g.o.Budget, InFlight: g.inFlight, Leases: g.given, Waiting: g.waiting.n}
	s.Released = s.Answers[Admitted] - s.Expired - s.Returned - uint64(g.given)
	if l := g.waiting.first; l != nil {
		s.HeadWait = time.Duration(now - l.since)
	}
	g.mu.Unlock()
	return s
}
