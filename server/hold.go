package server

import (
	"crypto/rand"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"net"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/valyala/fasthttp"

	"stile/budget"
)

const (
	// maxHolds bounds the batch jobs of all gates, waiting and at work: each is a connection
	// and two goroutines. They are no part of the admin listener's own limit: fasthttp does
	// not count hijacked connections.
	maxHolds = 256

	// holdRetry is how soon a job asks again that found no place in the queue, on average.
	holdRetry = 500 * time.Millisecond

	// holdLook is how often a job that other jobs keep waiting looks whether a reload has
	// changed the budget.
	holdLook = 5 * time.Second

	// holdWrite is how long an answer to a job may take to be written.
	holdWrite = 5 * time.Second
)

// holdGate is a gate as a batch job needs it.
type holdGate struct {
	gate  *budget.Gate
	parse func(cost string) (int64, error) // "4MiB", "2s", "1": in the gate's unit
}

// hold gives a batch job a lease of the gate ?gate=NAME that counts as ?cost=SIZE. The
// answer comes when there is room: 200, and the lease lasts for as long as the connection
// does. (See stile hold.)
//
// There is no lease for a browser: any site that a visitor of this machine looks at can
// make one send a POST here. None can keep it from saying where it comes from, or have it
// send a header that we have not agreed to.
func (s *Server) hold(ctx *fasthttp.RequestCtx) {
	refuse := func(status int, why string) {
		ctx.Response.SetStatusCode(status)
		ctx.SetBodyString(why + "\n")
	}
	asked, browser := false, false
	for k, v := range ctx.Request.Header.All() {
		switch strings.ToLower(string(k)) {
		case "x-stile":
			asked = string(v) == "hold"
		case "origin", "referer", "sec-fetch-site", "sec-fetch-mode", "sec-fetch-dest":
			browser = true
		}
	}
	name, cost := string(ctx.QueryArgs().Peek("gate")), string(ctx.QueryArgs().Peek("cost"))
	switch {
	case !ctx.IsPost():
		ctx.Response.Header.Set("Allow", "POST")
		refuse(fasthttp.StatusMethodNotAllowed, "want a POST")
		return
	case browser:
		refuse(fasthttp.StatusForbidden, "not for browsers")
		return
	case !asked:
		refuse(fasthttp.StatusForbidden, `want the header "X-Stile: hold"`)
		return
	}
	if _, _, status, why := s.holdAsked(name, cost); status != 0 {
		refuse(status, why)
		return
	}
	stop := ctx.Done()
	ctx.Hijack(func(c net.Conn) { s.serveHold(c, stop, name, cost) })
	// We answer ourselves: where fasthttp cannot write its answer it does not call us.
	ctx.HijackSetNoResponse(true)
}

// holdAsked is the gate and the cost that a job asks for, or the status that refuses it.
func (s *Server) holdAsked(name, cost string) (gate *budget.Gate, n int64, status int, why string) {
	h, ok := s.holdGate(name)
	if !ok {
		return nil, 0, fasthttp.StatusNotFound, fmt.Sprintf("there is no gate %.100q", name)
	}
	n, err := h.parse(cost)
	if err != nil {
		return nil, 0, fasthttp.StatusBadRequest, fmt.Sprintf("cost %.100q: %v", cost, err)
	}
	if n < 1 {
		return nil, 0, fasthttp.StatusBadRequest, fmt.Sprintf("cost %.100q: want more than nothing", cost)
	}
	return h.gate, n, 0, ""
}

// serveHold serves one job's connection to its end.
func (s *Server) serveHold(c net.Conn, stop <-chan struct{}, name, cost string) {
	defer func() { // no handler of fasthttp's is above us any more
		if fault := recover(); fault != nil {
			s.stats.panicked(s.log, []byte("/hold"), fault, debug.Stack())
		}
	}()
	if !s.holds.enter() {
		answerHold(c, fasthttp.StatusServiceUnavailable, fmt.Sprintf("%d jobs hold leases or wait for one: no more at once", maxHolds))
		return
	}
	defer s.holds.leave()

	// A client has nothing more to say: whatever its connection brings is the end.
	gone := make(chan struct{})
	go func() {
		c.Read(make([]byte, 1))
		close(gone)
	}()
	defer func() {
		// The reader is fasthttp's again once we return.
		c.SetReadDeadline(time.Unix(1, 0))
		<-gone
	}()

	h := &hold{s: s, gone: gone, stop: stop, turn: make(chan struct{}, 1)}
	defer h.end()
	switch status, why := h.wait(name, cost); {
	case status != 0:
		answerHold(c, status, why)
	case answerHold(c, fasthttp.StatusOK, "admitted"):
		h.pause(nil)
	}
}

// answerHold answers, and tells whether that could be written. What follows the answer's
// first line is the connection's end.
func answerHold(c net.Conn, status int, text string) bool {
	c.SetWriteDeadline(time.Now().Add(holdWrite))
	_, err := io.WriteString(c, fmt.Sprintf("HTTP/1.1 %d %s\r\nContent-Type: text/plain; charset=utf-8\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n%s\n",
		status, fasthttp.StatusMessage(status), text))
	return err == nil
}

// hold is one job.
type hold struct {
	s          *Server
	gone, stop <-chan struct{} // its client has gone; the daemon stops
	turn       chan struct{}   // something has changed in its line

	gate  *budget.Gate
	id    budget.ID
	cost  int64
	state holdState
}

type holdState uint8

const (
	holdNew     holdState = iota
	holdWaiting           // in the line
	holdGiven             // has a lease
)

// wait asks until there is a lease. Otherwise it returns a status, and why.
//
// A wait in the gate's queue ends after a while, and a job then begins another, behind
// those who have come meanwhile: a visitor waits seconds, a job can wait for hours.
func (h *hold) wait(name, cost string) (status int, why string) {
	rand.Read(h.id[:])
	r := budget.Request{ID: h.id, Caller: mathrand.Uint64(), Lane: budget.Operator, Hold: true}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		// Again each time: a reload may have come between.
		gate, n, status, why := h.s.holdAsked(name, cost)
		if status != 0 {
			return status, why
		}
		h.join(gate, n)
		again := holdLook
		if h.s.holds.next(h) {
			r.Cost = n
			a, w := gate.Admit(&r, h.s.monotonic())
			if w != nil {
				select {
				case <-w.Done():
					a = w.Answer()
				case <-h.gone:
					w.Leave(h.s.monotonic())
				case <-h.stop:
					w.Leave(h.s.monotonic())
				}
			}
			switch a {
			case budget.Admitted:
				h.s.holds.give(h)
				return 0, ""
			case budget.Elapsed:
				again = 0
			default: // no place in the queue, or a gate that a reload is about to replace
				again = holdRetry/2 + mathrand.N(holdRetry)
			}
		}
		timer.Reset(again)
		if !h.pause(timer.C) {
			return fasthttp.StatusServiceUnavailable, "stile is stopping"
		}
	}
}

// pause waits until the job's turn may have come or the time is over, and tells whether
// the job is still wanted.
func (h *hold) pause(over <-chan time.Time) bool {
	turn := h.turn
	if over == nil {
		turn = nil
	}
	select {
	case <-h.gone:
		return false
	case <-h.stop:
		return false
	case <-turn:
	case <-over:
	}
	select { // of several that have come, the end counts
	case <-h.gone:
		return false
	case <-h.stop:
		return false
	default:
		return true
	}
}

// join puts the job into the line of a gate, unless it is there.
func (h *hold) join(gate *budget.Gate, cost int64) {
	if h.gate != gate {
		h.s.holds.remove(h)
		h.gate = gate
	}
	h.cost = cost
	h.s.holds.add(h)
}

// end gives back what the job has.
func (h *hold) end() {
	if h.state == holdGiven {
		h.gate.Release(h.id, h.s.monotonic())
	}
	h.s.holds.remove(h)
}

// holds are the jobs. Those of one gate stand in a line of their own, and only the first
// asks the gate, once there will be room for it beside the jobs at work. In the gate's
// queue it would else keep every visitor behind it waiting until another job is over,
// which may be hours; and there the jobs take one place at most.
//
// The zero value is ready. Safe for concurrent use.
type holds struct {
	mu    sync.Mutex
	n     int
	lines map[*budget.Gate]*holdLine // none that is empty
}

type holdLine struct {
	waiting []*hold // in the order of their arrival
	given   int     // jobs at work
	cost    int64   // and theirs together
}

// enter counts a job, unless there are too many.
func (hs *holds) enter() bool {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	if hs.n >= maxHolds {
		return false
	}
	hs.n++
	return true
}

func (hs *holds) leave() {
	hs.mu.Lock()
	hs.n--
	hs.mu.Unlock()
}

// len is how many there are.
func (hs *holds) len() int {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	return hs.n
}

func (hs *holds) add(h *hold) {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	if h.state != holdNew {
		return
	}
	if hs.lines == nil {
		hs.lines = map[*budget.Gate]*holdLine{}
	}
	l := hs.lines[h.gate]
	if l == nil {
		l = &holdLine{}
		hs.lines[h.gate] = l
	}
	l.waiting = append(l.waiting, h)
	h.state = holdWaiting
}

// next tells whether it is this job's turn to ask the gate.
func (hs *holds) next(h *hold) bool {
	most := h.gate.Stats(h.s.monotonic()).Budget
	hs.mu.Lock()
	defer hs.mu.Unlock()
	l := hs.lines[h.gate]
	return l.waiting[0] == h && (l.given == 0 || h.cost <= most-l.cost)
}

// give takes a job out of the line to those at work.
func (hs *holds) give(h *hold) {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	l := hs.lines[h.gate]
	l.leave(h)
	l.given++
	l.cost += h.cost
	h.state = holdGiven
	l.call()
}

// remove takes a job out of its line, wherever it is in it.
func (hs *holds) remove(h *hold) {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	l := hs.lines[h.gate]
	switch h.state {
	case holdNew:
		return
	case holdWaiting:
		l.leave(h)
	case holdGiven:
		l.given--
		l.cost -= h.cost
	}
	h.state = holdNew
	l.call()
	if len(l.waiting) == 0 && l.given == 0 {
		delete(hs.lines, h.gate)
	}
}

func (l *holdLine) leave(h *hold) {
	i := slices.Index(l.waiting, h)
	l.waiting = slices.Delete(l.waiting, i, i+1)
}

// call tells the first in line to look again.
func (l *holdLine) call() {
	if len(l.waiting) > 0 {
		select {
		case l.waiting[0].turn <- struct{}{}:
		default:
		}
	}
}
