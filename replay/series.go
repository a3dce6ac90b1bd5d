package replay

import "time"

// series is what happened over time, in bins that grow with the length of the log, so that
// there are never more than maxBins.
type series struct {
	step  int64
	start int64 // of the first bin; 0: there is none
	bins  []bin
}

type bin struct {
	allowed, asked, refused   int64 // if nobody solves
	solves, refusedWithPasses int64 // if all solve
	inFlight                  int64 // the most, of a gate
	queue                     int
}

const maxBins = 500

var steps = []int64{
	int64(time.Second), int64(5 * time.Second), int64(15 * time.Second), int64(time.Minute), int64(5 * time.Minute), int64(15 * time.Minute),
	int64(time.Hour), int64(6 * time.Hour), int64(24 * time.Hour), int64(7 * 24 * time.Hour), int64(28 * 24 * time.Hour), int64(364 * 24 * time.Hour), int64(3640 * 24 * time.Hour),
}

func newSeries() *series { return &series{step: steps[0]} }

// at is the bin of a time. Times before the first are in the first.
func (s *series) at(now int64) *bin {
	if s.start == 0 {
		s.start = now - now%s.step
	}
	for {
		i := max(now-s.start, 0) / s.step
		if i < int64(len(s.bins)) {
			return &s.bins[i]
		}
		if i < maxBins {
			s.bins = append(s.bins, make([]bin, i+1-int64(len(s.bins)))...)
			return &s.bins[i]
		}
		s.grow()
	}
}

// grow joins bins to longer ones.
func (s *series) grow() {
	next := s.step
	for _, t := range steps {
		if next == s.step && t > s.step {
			next = t
		}
	}
	if next == s.step {
		next = 2 * s.step
	}
	start := s.start - s.start%next
	var bins []bin
	for i := range s.bins {
		b := &s.bins[i]
		to := int((s.start + int64(i)*s.step - start) / next)
		for len(bins) <= to {
			bins = append(bins, bin{})
		}
		bins[to].join(b)
	}
	s.step, s.start, s.bins = next, start, bins
}

func (b *bin) join(o *bin) {
	b.allowed, b.asked, b.refused = b.allowed+o.allowed, b.asked+o.asked, b.refused+o.refused
	b.solves, b.refusedWithPasses = b.solves+o.solves, b.refusedWithPasses+o.refusedWithPasses
	b.inFlight, b.queue = max(b.inFlight, o.inFlight), max(b.queue, o.queue)
}

func (s *series) gate(now, inFlight int64, queue int) {
	b := s.at(now)
	b.inFlight, b.queue = max(b.inFlight, inFlight), max(b.queue, queue)
}
