package server

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/valyala/fasthttp"
	"github.com/valyala/fasthttp/fasthttputil"

	"stile/config"
)

// cleanByByte is clean in the plainest words.
func cleanByByte(b []byte) {
	for i, c := range b {
		b[i] = cleaned(c)
	}
}

func TestClean(t *testing.T) {
	f := func(in, want string) {
		t.Helper()
		for before := range 9 { // at each place of a word
			for after := range 9 {
				x, y := strings.Repeat("\xff", before), strings.Repeat("\x80", after)
				b := []byte(x + in + y)
				if clean(b); string(b) != x+want+y {
					t.Errorf("%q: %q, want %q", x+in+y, b, x+want+y)
				}
			}
		}
	}
	f("", "")
	f("a: b\r\n\tc\r\n\r\n", "a: b\r\n\tc\r\n\r\n")
	f("\x00\x01\x08\x0b\x0c\x0e\x1f\x7f", "????????")
	f(" ~\x7f\x80\xff\x1f ", " ~?\x80\xff? ")
	for c := range 256 {
		in := []byte{byte(c)}
		want := bytes.Clone(in)
		cleanByByte(want)
		f(string(in), string(want))
		// It keeps what fasthttp takes in a header's value, and only that.
		_, err := readHead("A: " + string(in) + "x")
		if kept := c == '\r' || c == '\n' || string(want) == string(in); kept != (err == nil || c == '\r' || c == '\n') {
			t.Errorf("%q is kept: %v; fasthttp: %v", in, kept, err)
		}
	}
}

func readHead(header string) (*fasthttp.Request, error) {
	r := new(fasthttp.Request)
	return r, r.Read(bufio.NewReader(strings.NewReader("GET / HTTP/1.1\r\nHost: x\r\n" + header + "\r\n\r\n")))
}

// serve serves in memory, and returns how to connect.
func (w *world) serve(t testing.TB) (check, admin func() net.Conn) {
	t.Helper()
	dial := func(ln *fasthttputil.InmemoryListener) func() net.Conn {
		return func() net.Conn {
			c, err := ln.Dial()
			if err != nil {
				t.Fatal(err)
			}
			return c
		}
	}
	a, b := fasthttputil.NewInmemoryListener(), fasthttputil.NewInmemoryListener()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- w.s.Serve(ctx, Listeners{Check: a, Admin: b}, nil, nil) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return dial(a), dial(b)
}

// ask sends a request in two pieces and returns the answer's status.
func ask(t testing.TB, c net.Conn, request string, cut int) int {
	t.Helper()
	for _, piece := range []string{request[:cut], request[cut:]} {
		if _, err := c.Write([]byte(piece)); err != nil {
			t.Fatal(err)
		}
	}
	var r fasthttp.Response
	if err := r.Read(bufio.NewReader(c)); err != nil {
		t.Fatalf("%q: %v", request, err)
	}
	return r.StatusCode()
}

// C050: a header's control bytes change no decision, nor a body's the answer.
func TestControlBytes(t *testing.T) {
	w := newWorld(t, gateTOML)
	check, admin := w.serve(t)
	c := check()
	defer c.Close()
	f := func(want int, request string) {
		t.Helper()
		for _, cut := range []int{0, strings.IndexAny(request, "\x01\x7f"), len(request) - 1} {
			if got := ask(t, c, request, cut); got != want {
				t.Errorf("%q: %d, want %d", request, got, want)
			}
		}
	}
	const head = " HTTP/1.1\r\nHost: stile\r\n"
	f(200, "GET /check"+head+w.about("GET /x", "192.0.2.1", "Accept-Language: a\x01b"))
	f(401, "GET /check"+head+w.about("GET /closed/x", "192.0.2.1", htmlAccept, "Accept-Language: \x7f"))
	f(200, "GET /.stile/prove"+head+w.about("GET /.stile/prove", "192.0.2.1", "Accept-Language: \x01"))
	for _, body := range []string{"{\"token\":\"\x01\"}", "{\"token\":\"\x7f\"}", "{\x01}", "\x7f{}"} {
		f(400, fmt.Sprintf("POST /.stile/proof%sContent-Type: application/json\r\nContent-Length: %d\r\n", head, len(body))+w.about("POST /.stile/proof", "192.0.2.1")+body)
	}
	if n := w.s.stats.protocolErrors.Get(); n != 0 {
		t.Errorf("%d requests that could not be read", n)
	}

	// Whoever speaks to the administrators' side gets what he sent.
	a := admin()
	defer a.Close()
	request := "GET /metrics" + head + "A: \x01\r\n\r\n"
	if got := ask(t, a, request, 0); got != 400 {
		t.Errorf("admin: %d, want 400", got)
	}
}

// FuzzHeaderValue: whatever nginx may pass on of a header, the daemon decides.
func FuzzHeaderValue(f *testing.F) {
	for _, value := range []string{
		"", "und", "a\x01b", "\x7f", "\x0b\x0c", "\t \t", ":", "\x1b[31m", "\xff\xfe\x80", "stile=\x01; a=b", "bytes=\x02-", strings.Repeat("\x08", 9000),
	} {
		f.Add("Accept-Language", value, uint16(7))
		f.Add("Cookie", value, uint16(len(value)))
	}
	w := newWorld(f, gateTOML)
	check, _ := w.serve(f)
	c := check()
	names := append([]string{"User-Agent", "Cookie", "X-Stile-User", "X-Stile-TLS", "X-Stile-Server"}, config.Headers[:]...)
	f.Fuzz(func(t *testing.T, name, value string, cut uint16) {
		if !slices.Contains(names, name) {
			name = names[len(name)%len(names)]
		}
		if strings.ContainsAny(value, "\r\n\x00") || len(value) > 32<<10 {
			t.Skip()
		}
		request := "GET /check HTTP/1.1\r\nHost: stile\r\n" + w.about("GET /closed/x", "192.0.2.1", name+": "+value)
		switch got := ask(t, c, request, int(cut)%len(request)); got {
		case 200, 401, 429:
		default:
			t.Errorf("%s: %q: %d", name, value, got)
		}
		if n := w.s.stats.panics.Get(); n != 0 {
			t.Errorf("%d panics", n)
		}
	})
}

// BenchmarkClean is what cleaning adds to a check. Compare it with BenchmarkCheck:
//
//	go test ./server -run '^$' -bench 'Clean|Check$' -count 5
func BenchmarkClean(b *testing.B) {
	head := []byte(pageView(newWorld(b, gateTOML).s))
	for _, way := range []struct {
		name  string
		clean func([]byte)
	}{{"words", clean}, {"bytes", cleanByByte}} {
		b.Run(way.name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(head)))
			for b.Loop() {
				way.clean(head)
			}
		})
	}
}
