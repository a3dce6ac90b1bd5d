//go:build !race

package server

import (
	"bufio"
	"strings"
	"testing"
	"time"

	"github.com/valyala/fasthttp"
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

// Whether a rule asks who a crawler is, and it is nobody, known by its address or by what DNS said.
func TestCrawlerCheckAllocatesNothing(t *testing.T) {
	w := newWorld(t, crawlerTOML)
	w.s.now = time.Now
	for _, from := range []string{"192.0.2.1", "66.249.66.1"} {
		for _, agent := range []string{"User-Agent: test", googlebot} {
			ctx := new(fasthttp.RequestCtx)
			if err := ctx.Request.Read(bufio.NewReaderSize(strings.NewReader("GET /check HTTP/1.1\r\nHost: stile\r\n"+w.about("GET /x/y", from, agent)), readBuffer)); err != nil {
				t.Fatal(err)
			}
			raw := ctx.Request.Header.RawHeaders()
			at, i := idAt(raw), 0
			if n := testing.AllocsPerRun(1000, func() {
				i++
				copy(raw[at:], fmt8(i)) // each is a request of its own
				ctx.Response.Reset()
				w.s.handle(ctx)
			}); n != 0 {
				t.Errorf("%s from %s: %v allocations", agent, from, n)
			}
		}
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
