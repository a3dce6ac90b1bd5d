package server

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"stile/budget"
	"stile/config"
)

const holdTOML = `include = []
[[gate]]
name = "decode"
budget = "16MiB"
cost = "4MiB"
wait = "100ms"
[[gate]]
name = "jobs"
budget = 1000
queue = 0
wait = "100ms"
`

// side is a daemon's admin listener, on a socket.
type side struct {
	*world
	socket string
	stop   func()     // as SIGTERM does
	served chan error // what Serve returned
}

func newSide(t *testing.T, toml string) *side {
	t.Helper()
	w := newWorld(t, toml)
	w.s.now = time.Now
	dir := t.TempDir()
	listen := func(name string) net.Listener {
		ln, err := net.Listen("unix", filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return ln
	}
	check, admin := listen("check"), listen("admin")
	ctx, stop := context.WithCancel(context.Background())
	d := &side{world: w, socket: filepath.Join(dir, "admin"), stop: stop, served: make(chan error, 1)}
	ready, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		d.served <- w.s.Serve(ctx, Listeners{Check: check, Admin: admin}, nil, func() { close(ready) })
	}()
	<-ready
	t.Cleanup(func() { stop(); <-done })
	return d
}

// gate is one of the daemon's.
func (d *side) gate(name string) *budget.Gate {
	d.t.Helper()
	h, ok := d.s.holdGate(name)
	if !ok {
		d.t.Fatalf("there is no gate %q", name)
	}
	return h.gate
}

func (d *side) stats(gate string) budget.Stats { return d.gate(gate).Stats(d.s.monotonic()) }

// client is one that asks for a lease.
type client struct {
	net.Conn
	t      testing.TB
	in     *bufio.Reader
	answer chan int // the status; 0: the connection ended without one
	body   string   // of an answer that is there
}

func (d *side) dial() *client {
	d.t.Helper()
	c, err := net.Dial("unix", d.socket)
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(time.Minute))
	return &client{Conn: c, t: d.t, in: bufio.NewReader(c), answer: make(chan int, 1)}
}

// send sends a request and reads its answer when it comes.
func (d *side) send(method, target string, header ...string) *client {
	d.t.Helper()
	c := d.dial()
	if _, err := fmt.Fprintf(c, "%s %s HTTP/1.1\r\nHost: stile\r\nContent-Length: 0\r\n%s\r\n", method, target, strings.Join(append(header, ""), "\r\n")); err != nil {
		d.t.Fatal(err)
	}
	go func() {
		r, err := http.ReadResponse(c.in, nil)
		if err != nil {
			c.answer <- 0
			return
		}
		if r.StatusCode == http.StatusOK && r.ContentLength < 0 { // it ends with the lease
			c.body, _ = bufio.NewReader(r.Body).ReadString('\n')
		} else {
			body, _ := io.ReadAll(r.Body)
			c.body = string(body)
		}
		c.answer <- r.StatusCode
	}()
	return c
}

// hold asks for a lease.
func (d *side) hold(gate, cost string) *client {
	d.t.Helper()
	return d.send("POST", "/hold?gate="+gate+"&cost="+cost, "X-Stile: hold")
}

// gets waits for the answer.
func (c *client) gets(status int) {
	c.t.Helper()
	select {
	case got := <-c.answer:
		if got != status {
			c.t.Fatalf("got %d %q, want %d", got, c.body, status)
		}
	case <-time.After(time.Minute):
		c.t.Fatalf("no answer, want %d", status)
	}
}

// waits tells that there is no answer yet.
func (c *client) waits() {
	c.t.Helper()
	select {
	case got := <-c.answer:
		c.t.Fatalf("got %d %q, and should wait", got, c.body)
	default:
	}
}

// ends waits for the other side to close.
func (c *client) ends() {
	c.t.Helper()
	if _, err := io.Copy(io.Discard, c.in); err != nil {
		c.t.Fatalf("the connection has not ended: %v", err)
	}
}

// until waits for what another goroutine is about to do.
func until(t testing.TB, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !is(); runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatalf("never so: %s", what)
		}
	}
}

// free waits until nobody has a lease and nobody waits.
func (d *side) free(gate string) {
	d.t.Helper()
	until(d.t, "the gate is free", func() bool {
		s := d.stats(gate)
		return s.Leases == 0 && s.Waiting == 0 && s.InFlight == 0
	})
	until(d.t, "no hold is left", func() bool { return d.s.holds.len() == 0 })
	d.s.holds.mu.Lock()
	defer d.s.holds.mu.Unlock()
	if len(d.s.holds.lines) != 0 {
		d.t.Errorf("%d lines are left", len(d.s.holds.lines))
	}
}

func TestHoldLastsAsLongAsItsConnection(t *testing.T) {
	d := newSide(t, holdTOML)
	a := d.hold("decode", "10MiB")
	a.gets(200)
	if a.body != "admitted\n" {
		t.Errorf("%q", a.body)
	}
	if s := d.stats("decode"); s.InFlight != 10<<20 || s.Leases != 1 {
		t.Errorf("in flight: %+v", s)
	}
	b := d.hold("decode", "6MiB")
	b.gets(200)
	a.Close()
	until(t, "the first is over", func() bool { return d.stats("decode").InFlight == 6<<20 })
	b.Close()
	d.free("decode")

	// Whoever goes on talking has misunderstood.
	c := d.hold("decode", "1MiB")
	c.gets(200)
	fmt.Fprint(c, "GET /metrics HTTP/1.1\r\nHost: stile\r\n\r\n")
	d.free("decode")
}

// A wait in the gate's queue ends after [[gate]] wait; a job's does not.
func TestHoldWaitsLongerThanTheQueueLetsIt(t *testing.T) {
	d := newSide(t, holdTOML)
	g := d.gate("decode")
	visitor := budget.Request{ID: budget.ID{1}, Caller: 1, Cost: 16 << 20}
	if a, _ := g.Admit(&visitor, d.s.monotonic()); a != budget.Admitted {
		t.Fatal(a)
	}
	c := d.hold("decode", "1MiB")
	until(t, "it has begun three waits", func() bool { return d.stats("decode").Answers[budget.Elapsed] >= 2 })
	c.waits()
	g.Release(visitor.ID, d.s.monotonic())
	c.gets(200)

	// A queue without places is full for it, too: it asks again.
	d.gate("jobs").Admit(&budget.Request{ID: visitor.ID, Caller: 1, Cost: 1000}, d.s.monotonic())
	c = d.hold("jobs", "1")
	until(t, "it was sent away twice", func() bool { return d.stats("jobs").Answers[budget.Full] >= 2 })
	c.waits()
	d.gate("jobs").Release(visitor.ID, d.s.monotonic())
	c.gets(200)
}

// A client that gives up leaves its place, wherever that is.
func TestHoldLeavesTheLine(t *testing.T) {
	d := newSide(t, holdTOML)
	g := d.gate("decode")
	visitor := budget.Request{ID: budget.ID{1}, Caller: 1, Cost: 16 << 20}
	g.Admit(&visitor, d.s.monotonic())
	inQueue := func(n int) {
		t.Helper()
		until(t, fmt.Sprint(n, " in the queue"), func() bool { return d.stats("decode").Waiting == n })
	}
	a := d.hold("decode", "9MiB")
	inQueue(1)
	b := d.hold("decode", "9MiB")
	until(t, "both are there", func() bool { return d.s.holds.len() == 2 })
	c := d.hold("decode", "9MiB")
	until(t, "all three are there", func() bool { return d.s.holds.len() == 3 })
	b.Close()
	until(t, "the second has gone", func() bool { return d.s.holds.len() == 2 })
	a.waits()
	c.waits()
	a.Close() // while it waits in the gate's queue
	until(t, "the first has gone", func() bool { return d.s.holds.len() == 1 })
	g.Release(visitor.ID, d.s.monotonic())
	c.gets(200)
	c.Close()
	d.free("decode")
}

// Two jobs that do not fit beside each other: the second waits for the first, but no
// visitor waits for the second.
func TestHoldsDoNotStandInTheVisitorsWay(t *testing.T) {
	d := newSide(t, holdTOML)
	g := d.gate("decode")
	a := d.hold("decode", "10MiB")
	a.gets(200)
	var more []*client
	for range 3 {
		more = append(more, d.hold("decode", "10MiB"))
		until(t, "it waits", func() bool { return d.s.holds.len() == 1+len(more) })
	}
	for i := range byte(10) {
		visitor := budget.Request{ID: budget.ID{i + 1}, Caller: uint64(i), Cost: 6 << 20}
		if answer, _ := g.Admit(&visitor, d.s.monotonic()); answer != budget.Admitted {
			t.Fatalf("visitor %d: %v", i, answer)
		}
		g.Release(visitor.ID, d.s.monotonic())
	}
	if n := d.stats("decode").Waiting; n != 0 {
		t.Errorf("%d jobs in the visitors' queue", n)
	}
	a.Close()
	for _, c := range more { // one after the other, in the order in which they came
		c.gets(200)
		if n := d.stats("decode").Leases; n != 1 {
			t.Errorf("%d at once", n)
		}
		c.Close()
	}
	d.free("decode")

	// One that is larger than the budget runs alone.
	a = d.hold("decode", "1MiB")
	a.gets(200)
	big := d.hold("decode", "40MiB")
	until(t, "it waits", func() bool { return d.s.holds.len() == 2 })
	big.waits()
	a.Close()
	big.gets(200)
	big.Close()
	d.free("decode")
}

func TestHoldRefuses(t *testing.T) {
	d := newSide(t, holdTOML)
	f := func(status int, says, method, target string, header ...string) {
		t.Helper()
		c := d.send(method, target, header...)
		c.gets(status)
		if !strings.Contains(c.body, says) {
			t.Errorf("%s %s: %q, want …%s…", method, target, c.body, says)
		}
	}
	const target = "/hold?gate=decode&cost=1MiB"
	f(405, "POST", "GET", target, "X-Stile: hold")
	f(405, "POST", "PUT", target, "X-Stile: hold")
	f(404, `no gate "decod"`, "POST", "/hold?gate=decod&cost=1MiB", "X-Stile: hold")
	f(404, `no gate ""`, "POST", "/hold", "X-Stile: hold")
	f(400, `cost "1s": the budget is in bytes`, "POST", "/hold?gate=decode&cost=1s", "X-Stile: hold")
	f(400, `cost "0MiB": want more than nothing`, "POST", "/hold?gate=decode&cost=0MiB", "X-Stile: hold")
	f(400, `cost ""`, "POST", "/hold?gate=decode", "X-Stile: hold")
	f(400, `cost "1MiB"`, "POST", "/hold?gate=jobs&cost=1MiB", "X-Stile: hold")
	f(404, "/hold", "POST", "/holds", "X-Stile: hold")

	// A browser, in whatever way a page of another site makes it ask.
	f(403, "X-Stile: hold", "POST", target)
	f(403, "X-Stile: hold", "POST", target, "X-Stile: 1")
	f(403, "browsers", "POST", target, "X-Stile: hold", "Origin: http://127.0.0.1:9406")
	f(403, "browsers", "POST", target, "X-Stile: hold", "Origin: null")
	f(403, "browsers", "POST", target, "x-stile: hold", "origin: https://evil.example")
	f(403, "browsers", "POST", target, "X-Stile: hold", "Sec-Fetch-Site: same-origin")
	f(403, "browsers", "POST", target, "Sec-Fetch-Mode: no-cors", "X-Stile: hold")
	d.free("decode")
}

// A reload that takes a gate away, or gives it another unit, is told to who waits. Who is
// at work goes on.
func TestHoldAndReload(t *testing.T) {
	d := newSide(t, holdTOML)
	reload := func(toml string) {
		t.Helper()
		d.s.load = func() (*config.Config, error) {
			return config.Parse("test.toml", []byte(toml+fmt.Sprintf("\n[key]\nfile = %q\n", d.s.started.Key.File)))
		}
		if err := d.s.reload(); err != nil {
			t.Fatal(err)
		}
	}
	a := d.hold("decode", "16MiB")
	a.gets(200)
	old := d.gate("decode")
	visitor := budget.Request{ID: budget.ID{1}, Caller: 1, Cost: 1000}
	d.gate("jobs").Admit(&visitor, d.s.monotonic())
	b := d.hold("jobs", "1")
	until(t, "it waits", func() bool { return d.stats("jobs").Answers[budget.Full] > 0 })
	reload(strings.NewReplacer(`"jobs"`, `"others"`, "MiB", "s").Replace(holdTOML))
	b.gets(404)
	if s := old.Stats(d.s.monotonic()); s.Leases != 1 {
		t.Errorf("at work, after the reload: %+v", s)
	}
	a.Close()
	until(t, "it is over", func() bool { return old.Stats(d.s.monotonic()).Leases == 0 })
	d.free("decode")
}

// Jobs are bounded, and have no part in what the listener has for scrapes.
func TestHoldsAreBounded(t *testing.T) {
	d := newSide(t, holdTOML)
	var all []*client
	for range maxHolds {
		c := d.hold("jobs", "1")
		c.gets(200)
		all = append(all, c)
	}
	c := d.hold("jobs", "1")
	c.gets(503)
	if !strings.Contains(c.body, "256 jobs") {
		t.Errorf("%q", c.body)
	}
	d.send("GET", "/healthz").gets(200)
	d.send("GET", "/metrics").gets(200)
	all[0].Close()
	until(t, "one has gone", func() bool { return d.s.holds.len() < maxHolds })
	d.hold("jobs", "1").gets(200)
}

// The daemon does not wait for jobs that may take hours: they go on without it.
func TestHoldsEndWithTheDaemon(t *testing.T) {
	d := newSide(t, holdTOML)
	a := d.hold("decode", "16MiB")
	a.gets(200)
	b := d.hold("decode", "1MiB")
	until(t, "it waits", func() bool { return d.s.holds.len() == 2 })
	visitor := budget.Request{ID: budget.ID{1}, Caller: 1, Cost: 1000}
	d.gate("jobs").Admit(&visitor, d.s.monotonic())
	c := d.hold("jobs", "1")
	until(t, "it waits", func() bool { return d.stats("jobs").Answers[budget.Full] > 0 })
	began := time.Now()
	d.stop()
	a.ends()
	b.gets(503)
	c.gets(503)
	if err := <-d.served; err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took >= drainTime {
		t.Errorf("the daemon took %v to stop", took)
	}
	until(t, "no hold is left", func() bool { return d.s.holds.len() == 0 })
}
