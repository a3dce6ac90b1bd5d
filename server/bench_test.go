package server

import (
	"bufio"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"stile/cookie"
)

// pageView is the header block of nginx's question about a page view of a browser that
// holds a pass.
func pageView(s *Server) string {
	p := cookie.Pass{Level: 2, Expires: uint32(time.Now().Add(time.Hour).Unix()), ID: [cookie.IDLen]byte{1}}
	pass := s.state.Load().passes.Append(nil, &p)
	return "GET /check HTTP/1.1\r\nHost: stile\r\nX-Original-URI: /packages/halogen?x=1\r\nX-Original-Method: GET\r\nX-Real-IP: 192.0.2.1\r\n" +
		"X-Request-ID: 00112233445566778899aabbccddeeff\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Host: example.org\r\nX-Stile-TLS: TLSv1.3\r\n" +
		"User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0\r\n" +
		"Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8\r\nAccept-Language: en-US,en;q=0.5\r\nAccept-Encoding: gzip, deflate, br\r\n" +
		"Cookie: session=0123456789abcdef0123456789abcdef; stile=" + string(pass) + "\r\nSec-Fetch-Dest: document\r\nSec-Fetch-Mode: navigate\r\nSec-Fetch-Site: none\r\nSec-Fetch-User: ?1\r\n\r\n"
}

func checkRequest(t testing.TB, s *Server) *fasthttp.RequestCtx {
	ctx := new(fasthttp.RequestCtx)
	if err := ctx.Request.Read(bufio.NewReaderSize(strings.NewReader(pageView(s)), readBuffer)); err != nil {
		t.Fatal(err)
	}
	return ctx
}

// BenchmarkCheck is the whole handler: facts, pass, decision, verdict, metrics.
func BenchmarkCheck(b *testing.B) {
	w := newWorld(b, gateTOML)
	w.s.now = time.Now
	ctx := checkRequest(b, w.s)
	raw := ctx.Request.Header.RawHeaders()
	at := idAt(raw)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		copy(raw[at:], fmt8(i)) // each is a request of its own
		ctx.Response.Reset()
		w.s.handle(ctx)
	}
}

func idAt(raw []byte) int {
	const name = "X-Request-ID: "
	return strings.Index(string(raw), name) + len(name)
}

func gatedTOML(gate string) string {
	return "include = []\n[[gate]]\nname = \"g\"\n" + gate + `
[[meter]]
name = "m"
window = "1m"
stranger = 1000000
pass = 1000000
[[rule]]
name = "packages"
path = "/packages/**"
do = "meter"
meter = "m"
gate = "g"
`
}

// BenchmarkGatedCheck is the same of a request that has to pass a gate, and its end.
func BenchmarkGatedCheck(b *testing.B) {
	w := newWorld(b, gatedTOML(`budget = "16MiB"`))
	w.s.now = time.Now
	ctx := checkRequest(b, w.s)
	raw := ctx.Request.Header.RawHeaders()
	at := idAt(raw)
	line := []byte("<190>Nov 30 04:43:02 stile: 00112233445566778899aabbccddeeff 200 5000 0.010 - OK")
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		copy(raw[at:], fmt8(i))
		copy(line[len("<190>Nov 30 04:43:02 stile: "):], fmt8(i))
		ctx.Response.Reset()
		w.s.handle(ctx)
		w.s.ended(line)
	}
}

// fmt8 is eight hex digits, without allocating.
func fmt8(i int) string { return hex8[i&(len(hex8)-1)] }

var hex8 = func() (s [1 << 14]string) {
	for i := range s {
		s[i] = fmt.Sprintf("%08x", i)
	}
	return s
}()

// BenchmarkFacts is the first part of it.
func BenchmarkFacts(b *testing.B) {
	w := newWorld(b, gateTOML)
	raw := checkRequest(b, w.s).Request.Header.RawHeaders()
	f := new(facts)
	st := w.s.state.Load()
	b.ReportAllocs()
	for b.Loop() {
		f.read(raw)
		f.identify(st, 1_800_000_000)
	}
}

// BenchmarkChallenge renders the page for a stranger.
func BenchmarkChallenge(b *testing.B) {
	w := newWorld(b, gateTOML)
	ctx := new(fasthttp.RequestCtx)
	text := "GET /challenge HTTP/1.1\r\nHost: stile\r\nX-Stile-Verdict: challenge;level=1\r\n" + w.about("GET /closed/x", "192.0.2.1", htmlAccept)
	if err := ctx.Request.Read(bufio.NewReaderSize(strings.NewReader(text), readBuffer)); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		ctx.Response.Reset()
		w.s.handle(ctx)
	}
}
