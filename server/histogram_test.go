package server

import (
	"strings"
	"testing"
	"time"
)

func TestHistogram(t *testing.T) {
	h := newHistogram(checkBounds)
	for _, d := range []time.Duration{0, 10 * time.Microsecond, 11 * time.Microsecond, time.Millisecond, time.Second} {
		h.update(d)
	}
	var b strings.Builder
	h.write(&b, "x", "")
	for _, want := range []string{"x_bucket{le=\"1e-05\"} 2\n", "x_bucket{le=\"2.5e-05\"} 3\n", "x_bucket{le=\"0.001\"} 4\n", "x_bucket{le=\"0.01\"} 4\n", "x_bucket{le=\"+Inf\"} 5\n", "x_count 5\n", "x_sum 1.001021\n"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
}
