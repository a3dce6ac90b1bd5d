package main

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync"
	"time"
)

// counter is a backend that counts how much it truly does at once. Like most, it does not
// notice that a client has gone:
//
//	/work/MS   takes so long
//	/hold      takes until it is released
//	/large     is done at once, with a page of 4 MiB
type counter struct {
	server http.Server

	mu      sync.Mutex
	now     int
	highest int
	lastEnd time.Time
	begun   map[string]chan struct{} // by client, closed when its work is begun
	holds   chan struct{}            // one is released by each send
}

func startCounter(socket string) (*counter, error) {
	c := &counter{begun: map[string]chan struct{}{}, holds: make(chan struct{})}
	os.Remove(socket)
	ln, err := net.Listen("unix", socket)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(socket, 0o666); err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/work/{ms}", c.working(func(w http.ResponseWriter, r *http.Request) {
		ms, _ := strconv.Atoi(r.PathValue("ms"))
		time.Sleep(time.Duration(ms) * time.Millisecond)
	}))
	mux.HandleFunc("/hold", c.working(func(http.ResponseWriter, *http.Request) { <-c.holds }))
	mux.HandleFunc("/large", c.working(func(w http.ResponseWriter, _ *http.Request) { w.Write(make([]byte, 4<<20)) }))
	c.server.Handler = mux
	go c.server.Serve(ln)
	return c, nil
}

func (c *counter) working(do http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		c.mu.Lock()
		c.now++
		c.highest = max(c.highest, c.now)
		if begun := c.begun[r.Header.Get("X-Real-IP")]; begun != nil {
			close(begun)
			delete(c.begun, r.Header.Get("X-Real-IP"))
		}
		c.mu.Unlock()
		do(w, r)
		c.mu.Lock()
		c.now--
		c.lastEnd = time.Now()
		c.mu.Unlock()
	}
}

// expect is closed when the backend begins work for a visitor.
func (c *counter) expect(a *ask) <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	begun := make(chan struct{})
	c.begun[a.from.String()] = begun
	return begun
}

// release ends so many holds, one by one: what a hold takes is not known, so that the
// lease of one whose line is lost would end late.
func (c *counter) release(n int) {
	for range n {
		c.holds <- struct{}{}
		time.Sleep(5 * time.Millisecond)
	}
}

// idle waits until nothing is done any more, and tells when that was.
func (c *counter) idle(ctx context.Context) (end time.Time, err error) {
	_, is, err := until(ctx, 30*time.Second, func() (bool, error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		end = c.lastEnd
		return c.now == 0, nil
	})
	if err == nil && !is {
		err = errors.New("the backend is still busy")
	}
	return end, err
}

// most is how much was done at once at most since the last call.
func (c *counter) most() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.highest
	c.highest = c.now
	return n
}

// until waits for something to become true, and tells how long that took.
func until(ctx context.Context, most time.Duration, ok func() (bool, error)) (time.Duration, bool, error) {
	start := time.Now()
	for {
		is, err := ok()
		took := time.Since(start)
		if is || err != nil || took > most {
			return took, is, err
		}
		if err := pause(ctx, time.Millisecond); err != nil {
			return took, false, err
		}
	}
}
