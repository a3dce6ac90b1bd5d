package nginx_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"stile/nginx/nginxtest"
)

// workshopLocations are a location with snippets/stile-gate.conf and one without, for each protocol.
func workshopLocations() string {
	var b strings.Builder
	for _, p := range protocols {
		scheme := ""
		if p.name == "proxy" {
			scheme = "http://"
		}
		pass := fmt.Sprintf("%s %s_pass %sunix:/run/stile/%s.sock;", p.params, p.name, scheme, p.name)
		fmt.Fprintf(&b, "location /%s/open/ { %s }\n", p.name, pass)
		fmt.Fprintf(&b, "location /%s/gated/ { include snippets/stile-gate.conf; %s }\n", p.name, pass)
	}
	return b.String()
}

// leavers are the ways for a client to go.
var leavers = []struct {
	name  string
	http2 bool
	whole bool // the connection ends, and not only the stream
}{
	{"HTTP/1.1 client leaves", false, true},
	{"HTTP/2 stream is reset", true, false},
	{"HTTP/2 client leaves", true, true},
}

// visit is a client's request that has reached a backend.
type visit struct {
	id    string // nginx's
	work  *work
	leave func() // returns when the client has gone
}

// visit sends a request and waits until it is at work. If begin is not empty, the backend says it, and the client has
// read the answer's header, when visit returns.
func (w *world) visit(s *workshop, leaver int, target, begin string) *visit {
	w.t.Helper()
	how := leavers[leaver]
	c := w.Client(80)
	if how.http2 {
		c = w.Client2(82)
	}
	ctx, cancel := context.WithCancel(w.t.Context())
	w.t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, "GET", "http://site.example"+target, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	header, gone := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(gone)
		resp, err := c.Do(req)
		if err != nil {
			return
		}
		close(header)
		<-ctx.Done()
		resp.Body.Close()
	}()
	v := &visit{work: receive(w.t, "a hit of "+target, s.begun)}
	if v.work.target != target {
		w.t.Fatalf("%s is at work, and not %s", v.work.target, target)
	}
	for _, call := range w.d.Calls("/check") {
		if call.Header.Get("X-Original-URI") == target {
			v.id = call.Header.Get("X-Request-Id")
		}
	}
	if begin != "" {
		if err := v.work.write(begin); err != nil {
			w.t.Fatalf("%s: %s", target, err)
		}
		receive(w.t, "the beginning of "+target, header)
	}
	v.leave = func() {
		cancel()
		<-gone
		if how.whole {
			c.CloseIdleConnections()
		}
	}
	return v
}

// lineOf finds a request's line, if there is one.
func lineOf(l *nginxtest.LeaseLog, id string) (line nginxtest.LeaseLine, ok bool) {
	for _, line = range l.Lines() {
		if line.ID == id {
			return line, true
		}
	}
	return line, false
}

// N4: clients that go after a gate has let them in, in all protocols. With snippets/stile-gate.conf the line comes when
// the backend has ended; without it at once, as a 499.
func TestLeaveBeforeTheAnswer(t *testing.T) {
	w := start(t, plain(workshopLocations()))
	w.d.Always(nginxtest.Admit)
	l := nginxtest.StartLeaseLog(t, w.LeaseSocket())
	for p, protocol := range protocols {
		s := startWorkshop(t, w.Nginx, p)
		for i, how := range leavers {
			t.Run(protocol.name+"/"+how.name, func(t *testing.T) {
				gated := w.visit(s, i, fmt.Sprintf("/%s/gated/%d", protocol.name, i), "")
				open := w.visit(s, i, fmt.Sprintf("/%s/open/%d", protocol.name, i), "")
				gated.leave()
				open.leave()
				await(t, "the line of one who left", func() bool { _, ok := lineOf(l, open.id); return ok })
				if line, _ := lineOf(l, open.id); line.Status != "499" || line.Done || line.Bytes == "-" {
					t.Errorf("without the include: %+v", line)
				}
				if line, ok := lineOf(l, gated.id); ok {
					t.Errorf("a line while the backend is at work: %+v", line)
				}
				if err := gated.work.write("done"); err != nil {
					t.Errorf("nginx closed its connection to the backend: %s", err)
				}
				close(open.work.finish)
				close(gated.work.finish)
				await(t, "the line of the work's end", func() bool { _, ok := lineOf(l, gated.id); return ok })
				if line, _ := lineOf(l, gated.id); line.Status != "200" || line.Bytes == "0" || line.Bytes == "-" {
					t.Errorf("at the work's end: %+v", line)
				}
			})
		}
	}
	if lines := l.Lines(); len(lines) != 2*len(protocols)*len(leavers) {
		t.Errorf("%d lines for %d requests", len(lines), 2*len(protocols)*len(leavers))
	}
}

// piece is more of an answer than nginx keeps to itself before it sends something.
var piece = strings.Repeat("x", 64<<10)

// What snippets/stile-gate.conf cannot do: when the client goes in the middle of the answer, nginx closes the backend's
// connection and writes the line at once, with and without it. It has status 200, and is not complete.
func TestLeaveWithinTheAnswer(t *testing.T) {
	w := start(t, plain(workshopLocations()))
	w.d.Always(nginxtest.Admit)
	l := nginxtest.StartLeaseLog(t, w.LeaseSocket())
	for p, protocol := range protocols {
		s := startWorkshop(t, w.Nginx, p)
		for i, how := range leavers {
			for _, place := range []string{"open", "gated"} {
				t.Run(protocol.name+"/"+how.name+"/"+place, func(t *testing.T) {
					v := w.visit(s, i, fmt.Sprintf("/%s/%s/%d", protocol.name, place, i), piece)
					v.leave()
					await(t, "the end of the backend's connection", func() bool { return v.work.write(piece) != nil })
					await(t, "the line", func() bool { _, ok := lineOf(l, v.id); return ok })
					if line, _ := lineOf(l, v.id); line.Status != "200" || line.Done {
						t.Errorf("the line: %+v", line)
					}
					close(v.work.finish)
				})
			}
		}
	}
}

// The way out that snippets/stile-gate.conf names: an answer that nginx stores is read to its end.
func TestLeaveWithinAnAnswerThatIsStored(t *testing.T) {
	w := start(t, plain(workshopLocations()+`
	location /proxy/stored/ {
		include snippets/stile-gate.conf;
		proxy_store /run/stile/temp/last;
		proxy_http_version 1.1;
		proxy_pass http://unix:/run/stile/proxy.sock;
	}`))
	w.d.Always(nginxtest.Admit)
	l := nginxtest.StartLeaseLog(t, w.LeaseSocket())
	s := startWorkshop(t, w.Nginx, 0)
	for i, how := range leavers {
		t.Run(how.name, func(t *testing.T) {
			stored := w.visit(s, i, fmt.Sprintf("/proxy/stored/%d", i), piece)
			open := w.visit(s, i, fmt.Sprintf("/proxy/open/%d", i), piece)
			stored.leave()
			open.leave()
			await(t, "the end of the other's connection", func() bool { return open.work.write(piece) != nil })
			for range 64 { // far more than sockets hold
				if err := stored.work.write(piece); err != nil {
					t.Fatalf("nginx closed its connection to the backend: %s", err)
				}
			}
			if line, ok := lineOf(l, stored.id); ok {
				t.Errorf("a line while the backend is at work: %+v", line)
			}
			close(stored.work.finish)
			close(open.work.finish)
			await(t, "the line of the work's end", func() bool { _, ok := lineOf(l, stored.id); return ok })
			if line, _ := lineOf(l, stored.id); line.Status != "200" || len(line.Bytes) < len("4000000") || line.Done {
				t.Errorf("at the work's end: %+v", line)
			}
		})
	}
	w.noErrors()
}

// C019: who goes while /check waits sends a line too: a lease may have been given at that moment. Who goes after an
// answer without a lease sends none.
func TestLeaveDuringTheCheck(t *testing.T) {
	w := start(t, plain(workshopLocations()))
	l := nginxtest.StartLeaseLog(t, w.LeaseSocket())
	asked, answer := make(chan nginxtest.Call, 10), make(chan struct{})
	w.d.Script(func(c nginxtest.Call) *nginxtest.Answer {
		if strings.HasPrefix(c.Header.Get("X-Original-URI"), "/proxy/gated/") {
			asked <- c
			<-answer
			return nginxtest.Admit
		}
		return nginxtest.Allow
	})
	s := startWorkshop(t, w.Nginx, 0)
	for i, how := range leavers {
		ctx, cancel := context.WithCancel(t.Context())
		client := w.Client(80)
		if how.http2 {
			client = w.Client2(82)
		}
		req, err := http.NewRequestWithContext(ctx, "GET", fmt.Sprintf("http://site.example/proxy/gated/%d", i), nil)
		if err != nil {
			t.Fatal(err)
		}
		gone := make(chan struct{})
		go func() { _, _ = client.Do(req); close(gone) }()
		c := receive(t, "the check", asked)
		free := w.visit(s, i, fmt.Sprintf("/proxy/open/%d", i), "")
		free.leave()
		close(free.work.finish)
		cancel()
		receive(t, "the client's end", gone)
		if how.whole {
			client.CloseIdleConnections()
		}
		lines := l.Wait(i + 1)
		want := nginxtest.LeaseLine{ID: c.Header.Get("X-Request-Id"), Status: "499", Bytes: "-", Time: "-", Cost: "-"}
		if len(lines) != i+1 || lines[i] != want {
			t.Errorf("%s: %+v, want %+v last", how.name, lines, want)
		}
	}
	close(answer)
}

// A gate of four places, in a stand-in for the daemon, before clients that all go: the backend never does more than four
// things at once. Without the include the same clients have all their work done at once.
func TestLeaversDoNotExceedTheBudget(t *testing.T) {
	const places, rounds = 4, 3
	w := start(t, plain(workshopLocations()))
	l := nginxtest.StartLeaseLog(t, w.LeaseSocket())
	free := make(chan struct{}, places)
	w.d.Script(func(c nginxtest.Call) *nginxtest.Answer {
		if c.Target != "/check" {
			return nil
		}
		select {
		case free <- struct{}{}:
		case <-t.Context().Done():
		}
		return nginxtest.Admit
	})
	seen := 0
	release := func() { // gives a place back for every line
		for ; seen < len(l.Lines()); seen++ {
			<-free
		}
	}
	for p, protocol := range protocols {
		s := startWorkshop(t, w.Nginx, p)
		for i, how := range leavers {
			for round := range rounds {
				var at []*visit
				for n := range places {
					at = append(at, w.visit(s, i, fmt.Sprintf("/%s/gated/%d-%d-%d", protocol.name, i, round, n), ""))
				}
				for _, v := range at {
					v.leave()
				}
				w.Get("/.stile/barrier") // the one worker has seen them go
				if release(); len(free) != places {
					t.Errorf("%s, %s: %d places of %d are taken while the backend is at work", protocol.name, how.name, len(free), places)
				}
				for _, v := range at {
					close(v.work.finish)
				}
				await(t, "the places", func() bool { release(); return len(free) == 0 })
			}
		}
		if got := s.most.Load(); got != places {
			t.Errorf("%s: %d requests at work at once, want %d", protocol.name, got, places)
		}
		for n := range 2 * places {
			v := w.visit(s, 0, fmt.Sprintf("/%s/open/%d", protocol.name, n), "")
			v.leave()
			defer close(v.work.finish)
			await(t, "a line", func() bool { release(); return len(free) == 0 })
		}
		if got := s.most.Load(); got != 2*places {
			t.Errorf("%s, without the include: %d requests at work at once, want %d", protocol.name, got, 2*places)
		}
	}
}
