package server

import (
	"fmt"
	"io"
	"sync/atomic"
	"time"
)

// histogram counts durations in the classic buckets of Prometheus. It takes no lock: every
// check updates it, on every processor at once.
type histogram struct {
	counts [len(bounds) + 1]atomic.Uint64
	sum    atomic.Int64 // ns
}

// bounds are the buckets' upper ends. A check takes a few microseconds; what takes longer
// than a millisecond was waiting for a processor.
var bounds = [...]time.Duration{
	10 * time.Microsecond, 25 * time.Microsecond, 50 * time.Microsecond, 100 * time.Microsecond, 250 * time.Microsecond,
	500 * time.Microsecond, time.Millisecond, 2500 * time.Microsecond, 5 * time.Millisecond, 10 * time.Millisecond,
}

func (h *histogram) update(d time.Duration) {
	i := 0
	for i < len(bounds) && d > bounds[i] {
		i++
	}
	h.counts[i].Add(1)
	h.sum.Add(int64(d))
}

// write appends it in the Prometheus text format.
func (h *histogram) write(w io.Writer, name string) {
	n := uint64(0)
	for i, b := range bounds {
		n += h.counts[i].Load()
		fmt.Fprintf(w, "%s_bucket{le=\"%g\"} %d\n", name, b.Seconds(), n)
	}
	n += h.counts[len(bounds)].Load()
	fmt.Fprintf(w, "%s_bucket{le=\"+Inf\"} %d\n%s_sum %g\n%s_count %d\n", name, n, name, time.Duration(h.sum.Load()).Seconds(), name, n)
}
