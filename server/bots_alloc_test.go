//go:build !race

package server

import (
	"bufio"
	"fmt"
	"strings"
	"testing"

	"github.com/valyala/fasthttp"

	"stile/botauth"
)

// A check of a bot whose signature is known, and of one that nobody knows.
func TestBotCheckAllocatesNothing(t *testing.T) {
	r := newRobot(t)
	w := newWorld(t, "include = []\n"+fmt.Sprintf(botTOML, r.origin))
	w.s.bots.Refresh(t.Context())
	known := append(r.sign(w, "site.example", "/x/y", ""), "X-Stile-Server: site.example")
	r.id = "nobody's"
	unknown := append(r.sign(w, "site.example", "/x/y", ""), "X-Stile-Server: site.example")
	for status, header := range map[int][]string{200: known, 401: unknown} {
		ctx := new(fasthttp.RequestCtx)
		if err := ctx.Request.Read(bufio.NewReaderSize(strings.NewReader("GET /check HTTP/1.1\r\nHost: stile\r\n"+w.about("GET /x/y", "192.0.2.1", header...)), readBuffer)); err != nil {
			t.Fatal(err)
		}
		raw := ctx.Request.Header.RawHeaders()
		at, i := idAt(raw), 0
		n := testing.AllocsPerRun(1000, func() {
			i++
			copy(raw[at:], fmt8(i)) // each is a request of its own
			ctx.Response.Reset()
			w.s.handle(ctx)
		})
		if got := ctx.Response.StatusCode(); n != 0 || got != status {
			t.Errorf("%d, want %d; %v allocations", got, status, n)
		}
	}
	if w.s.bots.Count(botauth.Known) < 1000 || w.s.bots.Count(botauth.UnknownKey) < 1000 {
		t.Error("the signatures were not looked at")
	}
}
