//go:build !race

package botauth

import "testing"

// TestAllocations: a check allocates nothing but what the standard library makes of a key
// when it verifies.
func TestAllocations(t *testing.T) {
	v, unsigned, good, wrong, unknown := messages(t)
	f := func(name string, most float64, f func()) {
		t.Helper()
		f()
		if n := testing.AllocsPerRun(100, f); n > most {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
	f("unsigned", 0, func() { v.Verify(noon, unsigned) })
	f("unknown", 0, func() { v.Verify(noon, unknown) })
	f("known", 0, func() { v.Verify(noon, good) })
	f("wrong", 1, func() {
		v.limit.find(wrong.From, noon.Unix()).wrong, v.limit.all = 0, 0
		v.Verify(noon, wrong)
	})
	f("limited", 0, func() {
		v.limit.find(wrong.From, noon.Unix()).wrong = wrongPerNetwork
		v.Verify(noon, wrong)
	})
}
