package decide

import (
	"testing"

	"stile/config"
)

// TestFound: to find first and to decide then is to decide, also by another engine of the
// same configuration.
func TestFound(t *testing.T) {
	cfg, err := config.Parse("found.toml", nil)
	if err != nil {
		t.Fatal(err)
	}
	var engines [3]*Engine
	for i := range engines {
		if engines[i], err = New(cfg); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 400 {
		target := []string{"/search?q=a", "/robots.txt", "/a/b", "/.git/config", "/search%2F..%2Frobots.txt"}[i%5]
		r, err := NewRequest("GET", target, []string{"192.0.2.1", "2001:db8::1"}[i%2], nil)
		if err != nil {
			t.Fatal(err)
		}
		f := engines[0].Find(r)
		want := engines[2].Decide(r, start)
		for _, e := range engines[:2] {
			if got := e.DecideFound(r, f, start); got != want {
				t.Fatalf("%s for the %dth time: %+v, want %+v", target, i, got, want)
			}
		}
	}
}

// A hint changes no count, and allocates nothing.
func TestPrefetchCountsNothing(t *testing.T) {
	e := benchEngine(t, "")
	r, err := NewRequest("GET", "/search?q=a", "192.0.2.1", nil)
	if err != nil {
		t.Fatal(err)
	}
	f := e.Find(r)
	if n := testing.AllocsPerRun(100, func() { e.Prefetch(r, f) }); n > 0 {
		t.Errorf("%g allocations", n)
	}
	e.Prefetch(r, Found{found{rule: -1}})
	e.Policy().Tables(start, func(name string, used, _ int) {
		if used != 0 {
			t.Errorf("%d in the table %s", used, name)
		}
	})
}
