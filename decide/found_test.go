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

// TestAppendCounters: they are those that a decision then counts in.
func TestAppendCounters(t *testing.T) {
	cfg, err := config.Parse("found.toml", nil)
	if err != nil {
		t.Fatal(err)
	}
	e, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	r, err := NewRequest("GET", "/search?q=a", "192.0.2.1", nil)
	if err != nil {
		t.Fatal(err)
	}
	f := e.Find(r)
	places := e.AppendCounters(nil, f, r.From)
	if len(places) < 4 {
		t.Fatalf("%d places: the rule has two meters for strangers at least", len(places))
	}
	for i, p := range places {
		if *p != 0 {
			t.Errorf("place %d is in use", i)
		}
	}
	e.DecideFound(r, f, start)
	for i, p := range places {
		if *p == 0 {
			t.Errorf("place %d was not counted in", i)
		}
	}
	if n := testing.AllocsPerRun(100, func() { places = e.AppendCounters(places[:0], f, r.From) }); n > 0 {
		t.Errorf("%g allocations", n)
	}
}
