//go:build !race

package meter

import (
	"testing"
	"time"
)

// effort: see race_test.go.
const effort = 8

func TestNoAllocations(t *testing.T) {
	tb, one, key := NewTable(1024), new(Counter), uint64(0)
	if n := testing.AllocsPerRun(10_000, func() {
		key++
		tb.Add(mix(key), start, time.Minute, 10)
		tb.count(mix(key), start, time.Minute)
		tb.Undo(mix(key-1), start, time.Minute)
		one.Add(start, time.Minute, 10)
		one.Undo(start, time.Minute)
		one.count(start, time.Minute)
	}); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
	if n := testing.AllocsPerRun(10, func() { tb.Len(start, time.Minute) }); n != 0 {
		t.Errorf("Len: %v allocations, want 0", n)
	}
}
