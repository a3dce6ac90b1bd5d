//go:build !race

package server

import (
	"testing"
	"time"
)

func TestCheckAllocatesNothing(t *testing.T) {
	w := newWorld(t, "")
	w.s.now = time.Now
	ctx := checkRequest(t, w.s)
	if n := testing.AllocsPerRun(1000, func() {
		ctx.Response.Reset()
		w.s.handle(ctx)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// A request of a gated rule that need not wait, from the question to the end that nginx
// tells of.
func TestGatedCheckAllocatesNothing(t *testing.T) {
	for _, cost := range []string{`budget = 8`, `budget = "16MiB"`, `budget = "16MiB"
cost = "file:/nowhere/{1}/{2}.json"`, `budget = "8s"
free_below = "2s"`} {
		w := newWorld(t, gatedTOML(cost))
		w.s.now = time.Now
		ctx := checkRequest(t, w.s)
		raw := ctx.Request.Header.RawHeaders()
		at := idAt(raw)
		id := []byte("00112233445566778899aabbccddeeff")
		line := []byte("<190>Nov 30 04:43:02 stile: 00112233445566778899aabbccddeeff 200 5000 0.010 - OK")
		released := w.s.stats.lines[0]
		i := 0
		once := func() {
			i++
			copy(id, fmt8(i))
			copy(line[len("<190>Nov 30 04:43:02 stile: "):], id)
			copy(raw[at:], id)
			ctx.Response.Reset()
			w.s.handle(ctx)
			w.s.ended(line)
		}
		if n := testing.AllocsPerRun(1000, once); n != 0 {
			t.Errorf("%s: %v allocations", cost, n)
		}
		if got := released.Get(); got != uint64(i) {
			t.Errorf("%s: %d of %d leases were released", cost, got, i)
		}
	}
}
