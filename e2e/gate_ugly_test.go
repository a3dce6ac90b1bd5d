package e2e

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"stile/nginx/nginxtest"
)

// C117: 500 archives are asked for at once, from 100 addresses: the backend makes at most
// so many at a time; the others wait or are told when to come again. A patient client that
// asks for one gets it.
func TestC117Archives(t *testing.T) {
	t.Parallel()
	s := build(t, gateRules(`budget = 4
queue = 64
wait = "20s"`), nginxtest.Options{Site: gateSite, Connections: 4096})
	s.daemon.start()
	k := newKiln(s)
	k.finishAll() // each takes as long as it takes
	var mu sync.Mutex
	codes := map[int]int{}
	var wg sync.WaitGroup
	for i := range 500 {
		wg.Go(func() {
			v := s.visitorFrom(fmt.Sprintf("127.2.0.%d", i%100+1))
			r, err := v.try("GET", fmt.Sprintf("/heavy/archive/v%d.tar.gz", i), "")
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err != nil:
				t.Error(err)
			case r.Status == 503 && (r.Header.Get("Retry-After") == "" || r.Header.Get("Retry-After") == "0"):
				t.Errorf("refused without a time to come again: %v", r.Header)
			default:
				codes[r.Status]++
			}
		})
	}
	wg.Wait()
	if _, most, done := k.counts(); most > 4 || done != codes[200] || codes[200] < 4 || codes[200]+codes[503] != 500 {
		t.Errorf("at most %d at once, %d made; answers: %v", most, done, codes)
	}
	s.leases(0)
	if r := s.visitor().get("/heavy/archive/v1.tar.gz"); r.Status != 200 {
		t.Errorf("the patient one: %d", r.Status)
	}
	t.Logf("answers: %v", codes)
}

// C145: clients that do not read, or a byte at a time, hold their leases and no more.
func TestC145SlowReaders(t *testing.T) {
	t.Parallel()
	s := open(t, gateRules(`budget = 2
per_caller = 0
queue = 100
lease = "1s"
wait = "25s"`), gateSite)
	large := strings.Repeat("0123456789abcdef", 1<<20)
	s.app.Handle(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/heavy/large" {
			io.WriteString(w, large)
		}
	})
	warmed := s.visitor().get("/heavy/small")
	if warmed.Status != 200 {
		t.Fatalf("%d", warmed.Status)
	}
	s.leases(0)
	var slow []*nginxtest.Conn
	for i := range 10 {
		slow = append(slow, s.ask(i, "GET", "/heavy/large"))
	}
	// Two leases at a time, of a second each at most; then the capacity is back.
	s.waiting(0)
	s.leases(0)
	for i := range 4 {
		if r := s.visitor().get(fmt.Sprintf("/heavy/%d", i)); r.Status != 200 {
			t.Errorf("after the slow ones: %d", r.Status)
		}
	}
	for _, c := range slow {
		c.Close()
	}
}

// C149, C018: who waits is answered by the daemon before nginx takes it for dead: a full
// queue is never a way in.
func TestC149QueueAndReadTimeout(t *testing.T) {
	t.Parallel()
	s := build(t, gateRules(`budget = 1
queue = 8
per_caller = 0
wait = "1s"`), nginxtest.Options{Site: gateSite, Replace: []string{"proxy_read_timeout 30s", "proxy_read_timeout 3s"}})
	s.daemon.start()
	k := newKiln(s)
	warm(s, k)
	first := s.ask(0, "GET", "/heavy/first")
	k.next(t)
	for round := range 4 { // together longer than nginx's patience
		var conns []*nginxtest.Conn
		for i := range 12 {
			conns = append(conns, s.ask(100*round+i, "GET", fmt.Sprintf("/heavy/%d-%d", round, i), proven))
		}
		for _, c := range conns {
			if r := s.answer(c, "GET"); r.Status != 503 {
				t.Errorf("%d", r.Status)
			}
		}
	}
	k.nothing(t, "one at work")
	k.finishAll()
	s.answer(first, "GET")
	if _, _, done := k.counts(); done != 2 {
		t.Errorf("%d reached the application", done)
	}
}

// The same over HTTP/2: clients that reset their streams leave the queue; those that were
// admitted keep their leases until the end.
func TestGateHTTP2(t *testing.T) {
	t.Parallel()
	s := open(t, gateRules(`budget = 2
per_caller = 0
queue = 200`), strings.Replace(gateSite, "listen 80;", "listen 80; listen 443 http2;", 1))
	k := newKiln(s)
	warm(s, k)
	client := s.Client2(443)
	get := func(ctx context.Context, target string, header ...string) (status int, err error) {
		req, err := http.NewRequestWithContext(ctx, "GET", "http://"+s.Addr(443)+target, nil)
		if err != nil {
			return 0, err
		}
		req.Header.Set("X-User", "alice")
		resp, err := client.Do(req)
		if err != nil {
			return 0, err
		}
		defer resp.Body.Close()
		if resp.ProtoMajor != 2 {
			t.Errorf("answered over %s", resp.Proto)
		}
		_, err = io.Copy(io.Discard, resp.Body)
		return resp.StatusCode, err
	}
	ctx, leave := context.WithCancel(t.Context())
	var gone sync.WaitGroup
	for i := range 2 {
		gone.Go(func() { get(ctx, fmt.Sprintf("/heavy/%d", i)) })
		k.next(t)
	}
	for i := range 50 {
		gone.Go(func() { get(ctx, fmt.Sprintf("/heavy/gone%d", i)) })
	}
	s.waiting(50)
	patient := make(chan int, 1)
	go func() {
		status, err := get(t.Context(), "/heavy/patient")
		if err != nil {
			t.Error(err)
		}
		patient <- status
	}()
	s.waiting(51)
	leave()
	gone.Wait()
	s.waiting(1) // the fifty are gone; the two that were admitted still hold their leases
	s.leases(2)
	k.nothing(t, "two at work")
	k.finish("/heavy/0")
	if got := k.next(t); got != "/heavy/patient" {
		t.Errorf("the application works on %s", got)
	}
	k.finishAll()
	select {
	case status := <-patient:
		if status != 200 {
			t.Errorf("the patient one: %d", status)
		}
	case <-time.After(20 * time.Second):
		t.Error("the patient one is not answered")
	}
	s.leases(0)
	if _, most, _ := k.counts(); most != 2 {
		t.Errorf("at most %d at once", most)
	}
}

// nginx reloads with waiters and leases in flight: its old workers see their requests
// through, and their lines arrive.
func TestGateNginxReload(t *testing.T) {
	t.Parallel()
	s, k := openKiln(t, `budget = 2
per_caller = 0
queue = 100`)
	warm(s, k)
	var conns []*nginxtest.Conn
	for i := range 6 {
		conns = append(conns, s.ask(i, "GET", fmt.Sprintf("/heavy/%d", i)))
	}
	s.waiting(4)
	s.Reload()
	for i := range 4 {
		conns = append(conns, s.ask(10+i, "GET", fmt.Sprintf("/heavy/new%d", i)))
	}
	s.waiting(8)
	k.finishAll()
	for i, c := range conns {
		if r := s.answer(c, "GET"); r.Status != 200 {
			t.Errorf("%d: %d", i, r.Status)
		}
	}
	s.leases(0)
	if _, most, done := k.counts(); most != 2 || done != 11 {
		t.Errorf("at most %d at once, %d in all", most, done)
	}
	if n := s.daemon.metric("stile_gate_lease_expired_total", ""); n != 0 {
		t.Errorf("%g leases ended by themselves", n)
	}
}

// A client that leaves in the middle of an answer has nginx cut the backend off. The
// backend notices when it next writes; until then its place is not another's.
func TestGateCutOff(t *testing.T) {
	t.Parallel()
	s := open(t, gateRules(`budget = 1
queue = 32
per_caller = 0`), gateSite)
	var mu sync.Mutex
	now, most := 0, 0
	s.app.Handle(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		now++
		most = max(most, now)
		mu.Unlock()
		defer func() {
			mu.Lock()
			now--
			mu.Unlock()
		}()
		if r.URL.Path != "/heavy/long" {
			return
		}
		for range 20 { // a page that is made while it is sent
			if _, err := io.WriteString(w, strings.Repeat("x", 1<<20)); err != nil {
				return
			}
			if http.NewResponseController(w).Flush() != nil {
				return
			}
			time.Sleep(100 * time.Millisecond) // work
		}
	})
	if r := s.visitor().get("/heavy/warm"); r.Status != 200 {
		t.Fatal(r.Status)
	}
	s.leases(0)
	for i := range 4 {
		c := s.ask(i, "GET", "/heavy/long", proven)
		if _, err := io.ReadFull(c.Conn, make([]byte, 4096)); err != nil {
			t.Fatal(err)
		}
		c.Close()
	}
	s.leases(0)
	if r := s.visitor().get("/heavy/next"); r.Status != 200 {
		t.Errorf("the next one: %d", r.Status)
	}
	if most != 1 {
		t.Errorf("at most %d at once", most)
	}
	if n := s.daemon.metric("stile_lease_lines_total", `"cut"`); n != 4 {
		t.Errorf("%g were cut off", n)
	}
}

// A client that announces a body and never sends it holds a place that nothing is done in:
// no longer than the slowest page of the rule, though its own URL is not known.
func TestGateBodyThatNeverComes(t *testing.T) {
	t.Parallel()
	s, k := openKiln(t, `budget = 2
per_caller = 0
lease = "1h"`)
	k.finishAll()
	for i := range 40 { // the rule is known
		if r := s.answer(s.ask(i, "GET", fmt.Sprintf("/heavy/known%d", i), proven), "GET"); r.Status != 200 {
			t.Fatal(r.Status)
		}
	}
	s.leases(0)
	for i := range 2 {
		s.ask(100+i, "GET", fmt.Sprintf("/heavy/new%d", i), proven, "Content-Length: 1000")
	}
	s.leases(2)
	if r := s.visitor().get("/heavy/next"); r.Status != 200 {
		t.Errorf("the next visitor: %d", r.Status)
	}
}
