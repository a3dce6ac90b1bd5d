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
