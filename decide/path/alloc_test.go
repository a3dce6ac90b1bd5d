//go:build !race

package path

import "testing"

func TestParseDoesNotAllocate(t *testing.T) {
	var r Readings
	for name, target := range benchTargets {
		if n := testing.AllocsPerRun(100, func() { _ = r.Parse(target) }); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
	if n := testing.AllocsPerRun(100, func() { _ = r.Parse("/%zz") }); n != 0 {
		t.Errorf("an error: %v allocations", n)
	}
}
