package server

import (
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"time"
)

// histogram counts durations in the classic buckets of Prometheus. It takes no lock: every
// check updates it, on every processor at once.
type histogram struct {
	bounds []time.Duration // the buckets' upper ends
	counts []atomic.Uint64 // one more than bounds
	sum    atomic.Int64    // ns
}

func newHistogram(bounds []time.Duration) *histogram {
	return &histogram{bounds: bounds, counts: make([]atomic.Uint64, len(bounds)+1)}
}

// checkBounds are for checks. One takes a few microseconds; what takes longer than a
// millisecond was waiting for a processor.
var checkBounds = []time.Duration{
	10 * time.Microsecond, 25 * time.Microsecond, 50 * time.Microsecond, 100 * time.Microsecond, 250 * time.Microsecond,
	500 * time.Microsecond, time.Millisecond, 2500 * time.Microsecond, 5 * time.Millisecond, 10 * time.Millisecond,
}

// waitBounds are for waits in a gate's queue.
var waitBounds = []time.Duration{
	10 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond, 250 * time.Millisecond, 500 * time.Millisecond,
	time.Second, 2500 * time.Millisecond, 5 * time.Second, 10 * time.Second, 20 * time.Second,
}

func (h *histogram) update(d time.Duration) {
	i := 0
	for i < len(h.bounds) && d > h.bounds[i] {
		i++
	}
	h.counts[i].Add(1)
	h.sum.Add(int64(d))
}

// write appends it in the Prometheus text format. label is one more label with its comma,
// or "".
func (h *histogram) write(w io.Writer, name, label string) {
	n := uint64(0)
	for i, b := range h.bounds {
		n += h.counts[i].Load()
		fmt.Fprintf(w, "%s_bucket{%sle=\"%g\"} %d\n", name, label, b.Seconds(), n)
	}
	n += h.counts[len(h.bounds)].Load()
	only := ""
	if label != "" {
		only = "{" + strings.TrimSuffix(label, ",") + "}"
	}
	fmt.Fprintf(w, "%s_bucket{%sle=\"+Inf\"} %d\n%s_sum%s %g\n%s_count%s %d\n", name, label, n, name, only, time.Duration(h.sum.Load()).Seconds(), name, only, n)
}
