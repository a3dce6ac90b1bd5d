//go:build !race

package cookie

import "testing"

func TestAllocations(t *testing.T) {
	c := newPasses(t, testKey)
	p := Pass{Level: 1, Expires: 1000}
	v := c.Append(make([]byte, 0, 100), &p)
	h := append([]byte("a=b; stile="), v...)
	if n := testing.AllocsPerRun(1000, func() {
		if !c.Find(h, "stile", 10, &p) {
			t.Fatal("not found")
		}
	}); n != 0 {
		t.Errorf("Find allocates %v times", n)
	}
	if n := testing.AllocsPerRun(1000, func() { v = c.Append(v[:0], &p) }); n != 0 {
		t.Errorf("Append allocates %v times", n)
	}
}
