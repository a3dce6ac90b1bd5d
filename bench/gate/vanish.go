package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

var (
	vanishing = flags.Int("vanish", 10000, "vanish: how many clients join the queue and go, and how many are admitted and go")
	slow      = flags.Int("slow", 50, "vanish: how many read a byte a second")
)

const (
	places  = 16  // at once in the backend
	waiters = 128 // in the queue; strangers may have half
	wave    = waiters / 2
	lease   = time.Second // the shortest that stile learns
	back    = time.Second // how long a gate may take to be empty after the last real end
	work    = "/work/40"
	workFor = 40 * time.Millisecond
	atOnce  = 100 * time.Millisecond // how long somebody may take to be admitted where there is room
)

const vanishPolicy = `
[[gate]]
name = "work"
budget = 16
queue = 128
wait = "25s"
lease = "5m"
[[rule]]
name = "everything"
path = "/**"
do = "allow"
gate = "work"
`

// crowd is the site, its backend and those who come to it.
type crowd struct {
	*site
	*counter
	bounds
	from chan ask // strangers, each from an address of its own
}

func vanishFigure(ctx context.Context, dir string) error {
	c := &crowd{from: make(chan ask)}
	var err error
	if c.counter, err = startCounter(dir + "/backend.sock"); err != nil {
		return err
	}
	defer c.server.Close()
	if c.site, err = startSite(dir, vanishPolicy); err != nil {
		return err
	}
	defer c.stop()
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	all := addresses(4**vanishing+1000, rand.New(rand.NewPCG(*seed, 9)))
	go func() {
		for _, a := range all {
			select {
			case c.from <- ask{from: a}:
			case <-ctx.Done():
				return
			}
		}
		close(c.from)
	}()
	// What each path costs is known, as on any other day.
	for _, path := range []string{work, "/work/300", "/large"} {
		for range 4 {
			if _, _, err := c.patient(ctx, path); err != nil {
				return err
			}
		}
	}
	for _, part := range []func(context.Context) error{c.joinAndVanish, c.enterAndVanish, c.readSlowly} {
		if err := part(ctx); err != nil {
			return err
		}
	}
	m, err := c.metrics()
	if err != nil {
		return err
	}
	lines := func(result string) float64 { return m["stile_lease_lines_total{result=\""+result+"\"}"] }
	expired, told := m[`stile_gate_lease_expired_total{gate="work"}`], lines("late")+lines("cut")
	fmt.Printf("\nleases that ended by themselves: %.0f; of %.0f of them nginx told that the answer broke off; lines that were lost: %.0f\n", expired, told, expired-told)
	return c.bounds.err()
}

// patient asks and waits, and tells when the backend began, and how long after asking.
func (c *crowd) patient(ctx context.Context, path string) (at time.Time, took time.Duration, err error) {
	a := <-c.from
	a.path = path
	begun, done := c.expect(&a), make(chan error, 1)
	start := time.Now()
	go func() {
		got, err := a.do(ctx, c.address(true))
		if err == nil && got.status != 200 {
			err = fmt.Errorf("a patient visitor gets %d: %s", got.status, got.text)
		}
		done <- err
	}()
	select {
	case <-begun:
		at = time.Now()
		return at, at.Sub(start), <-done
	case err := <-done:
		return at, 0, err
	}
}

// gate is one of stile's numbers for the gate.
func (c *crowd) gate(name string) (float64, error) {
	m, err := c.metrics()
	return m["stile_gate_"+name+`{gate="work"}`], err
}

// becomes waits until a number of stile's is what it should be, and tells how long that
// took, or that it never was.
func (c *crowd) becomes(ctx context.Context, most time.Duration, name string, want float64) (time.Duration, bool, error) {
	return until(ctx, most, func() (bool, error) {
		x, err := c.gate(name)
		return x == want, err
	})
}

// fill occupies all places, and tells how long it took until the last visitor was
// admitted.
func (c *crowd) fill(ctx context.Context, group *sync.WaitGroup, path string) (time.Duration, error) {
	start := time.Now()
	var all []<-chan struct{}
	for range places {
		a := <-c.from
		a.path = path
		all = append(all, c.expect(&a))
		group.Go(func() { a.do(ctx, c.address(true)) })
	}
	for _, begun := range all {
		select {
		case <-begun:
		case <-time.After(10 * time.Second):
			return 0, errors.New("the places could not be filled")
		}
	}
	return time.Since(start), nil
}

// emptied waits for the last real end, and for the gate to be empty after it.
func (c *crowd) emptied(ctx context.Context) error {
	end, err := c.idle(ctx)
	if err != nil {
		return err
	}
	_, empty, err := c.becomes(ctx, 15*time.Second, "inflight_requests", 0)
	if err != nil {
		return err
	}
	took := time.Since(end)
	c.hold(empty && took <= back, "the gate is empty after the last real end: %s", round(took))
	return nil
}

// joinAndVanish keeps the backend busy while waves of visitors join the queue and go.
func (c *crowd) joinAndVanish(ctx context.Context) error {
	c.most()
	before, err := c.gate("abandoned_total")
	if err != nil {
		return err
	}
	var holders sync.WaitGroup
	if _, err := c.fill(ctx, &holders, "/hold"); err != nil {
		return err
	}
	start, joined, waves, slowest := time.Now(), 0.0, 0, time.Duration(0)
	for ; joined < float64(*vanishing) && waves < 2**vanishing/wave+2; waves++ {
		leave, left := context.WithCancel(ctx)
		var group sync.WaitGroup
		for range wave {
			a := <-c.from
			a.path = work
			group.Go(func() { a.do(leave, c.address(true)) })
		}
		if _, _, err := c.becomes(ctx, 5*time.Second, "queue_length", wave); err != nil {
			left()
			return err
		}
		left()
		group.Wait()
		took, gone, err := c.becomes(ctx, 5*time.Second, "queue_length", 0)
		if err != nil {
			return err
		}
		if !gone {
			return errors.New("visitors who have left still wait")
		}
		slowest = max(slowest, took)
		if joined, err = c.gate("abandoned_total"); err != nil {
			return err
		}
		joined -= before
	}
	took := time.Since(start)
	type result struct {
		begun time.Time
		err   error
	}
	next := make(chan result, 1)
	go func() {
		begun, _, err := c.patient(ctx, work)
		next <- result{begun, err}
	}()
	if _, is, err := c.becomes(ctx, 5*time.Second, "queue_length", 1); err != nil || !is {
		return errors.Join(err, errors.New("nobody waits"))
	}
	released := time.Now()
	go c.release(1)
	patient := <-next
	if patient.err != nil {
		return patient.err
	}
	fmt.Printf("joined the queue and gone: %.0f in %d waves, %s\n", joined, waves, round(took))
	c.hold(joined >= float64(*vanishing), "all of them had joined the queue: %.0f of %d", joined, *vanishing)
	c.hold(slowest <= back, "the queue is empty after a wave has gone, at the latest after: %s", round(slowest))
	c.hold(patient.begun.Sub(released) <= atOnce, "a patient visitor's work begins after the next place is free: %s", round(patient.begun.Sub(released)))
	c.release(places - 1)
	holders.Wait()
	c.hold(c.most() <= places, "the backend's true concurrency is never above the budget of %d", places)
	return c.emptied(ctx)
}

// enterAndVanish lets visitors go as soon as the backend has begun to work for them.
func (c *crowd) enterAndVanish(ctx context.Context) error {
	c.most()
	expired, err := c.gate("lease_expired_total")
	if err != nil {
		return err
	}
	var vanished, busy, others atomic.Int64
	var group sync.WaitGroup
	start := time.Now()
	for range wave {
		group.Go(func() {
			for vanished.Load() < int64(*vanishing) && ctx.Err() == nil {
				a, ok := <-c.from
				if !ok {
					return
				}
				switch entered, status := c.enter(ctx, a); {
				case entered:
					vanished.Add(1)
				case status == "503":
					busy.Add(1)
				default:
					others.Add(1)
				}
			}
		})
	}
	group.Wait()
	took := time.Since(start)
	fmt.Printf("\nadmitted and gone: %d, %s; %d were told to come later, %d got nothing\n", vanished.Load(), round(took), busy.Load(), others.Load())
	c.hold(vanished.Load() >= int64(*vanishing), "all of them had been admitted: %d of %d", vanished.Load(), *vanishing)
	if err := c.emptied(ctx); err != nil {
		return err
	}
	most := c.most()
	c.hold(most <= places, "the backend's true concurrency / the budget: %d / %d", most, places)
	_, begun, err := c.patient(ctx, work)
	if err != nil {
		return err
	}
	c.hold(begun <= atOnce, "the next patient visitor's work begins after: %s", round(begun))
	now, err := c.gate("lease_expired_total")
	fmt.Printf("    time / what the work would take without a pause: %.2f; leases that ended by themselves: %.0f\n",
		took.Seconds()/(float64(vanished.Load())*workFor.Seconds()/places), now-expired)
	return err
}

// enter asks, and goes when the backend begins to work.
func (c *crowd) enter(ctx context.Context, a ask) (entered bool, status string) {
	a.path = work
	begun := c.expect(&a)
	conn, err := a.dial(ctx, c.address(true))
	if err != nil {
		return false, ""
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(40 * time.Second))
	if _, err := io.WriteString(conn, a.head()); err != nil {
		return false, ""
	}
	answered := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(conn).ReadString('\n')
		if len(line) > 12 {
			answered <- line[9:12]
		} else {
			answered <- ""
		}
	}()
	select {
	case <-begun:
		return true, ""
	case status := <-answered:
		return false, status
	}
}

// readSlowly lets visitors ask for a large page and read a byte of it each second.
func (c *crowd) readSlowly(ctx context.Context) error {
	c.most()
	expired, err := c.gate("lease_expired_total")
	if err != nil {
		return err
	}
	leave, left := context.WithCancel(ctx)
	defer left()
	var readers sync.WaitGroup
	var ended atomic.Int64
	var all []<-chan struct{}
	start := time.Now()
	for range *slow {
		a := <-c.from
		a.path = "/large"
		all = append(all, c.expect(&a))
		readers.Go(func() {
			if a.readSlowly(leave, c.address(true)) {
				ended.Add(1)
			}
		})
	}
	for _, begun := range all {
		select {
		case <-begun:
		case <-time.After(time.Minute):
			return errors.New("a slow reader is never admitted")
		}
	}
	in := time.Since(start)
	took, empty, err := c.becomes(ctx, 30*time.Second, "inflight_requests", 0)
	if err != nil {
		return err
	}
	now, err := c.gate("lease_expired_total")
	if err != nil {
		return err
	}
	// While nobody reads to the end each turn is twice as long as the one before, up to eight
	// times. All are in when the last turn but one is over.
	turns := (*slow + places - 1) / places
	until, last := time.Duration(0), lease
	for turn := 1; turn < turns; turn++ {
		until += last + back/10
		last = min(2*last, 8*lease)
	}
	fmt.Printf("\n%d visitors read a byte a second; a lease is %s, twice as long each turn in which nobody comes to an end\n", *slow, lease)
	c.hold(in <= until, "all are admitted, in %d turns, after: %s", turns, round(in))
	c.hold(empty && took <= last+back, "the gate is empty after the last of them was admitted: %s", round(took))
	c.hold(ended.Load() == 0, "of them have their page by then: %d", ended.Load())
	c.hold(now-expired == float64(*slow), "leases that ended by themselves, one for each: %.0f", now-expired)
	var patient sync.WaitGroup
	filled, err := c.fill(ctx, &patient, "/work/300")
	if err != nil {
		return err
	}
	c.hold(filled <= atOnce, "while they read on, patient visitors have all %d places after: %s", places, round(filled))
	left()
	readers.Wait()
	patient.Wait()
	most := c.most()
	c.hold(most <= places, "the backend's true concurrency / the budget: %d / %d", most, places)
	return c.emptied(ctx)
}

// readSlowly asks, and reads a byte a second until the context is over. It tells whether
// the answer was over before.
func (a *ask) readSlowly(ctx context.Context, server string) bool {
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: a.from.AsSlice()}, Control: func(_, _ string, raw syscall.RawConn) error {
		var set error
		err := raw.Control(func(fd uintptr) {
			set = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 4096)
		})
		return errors.Join(err, set)
	}}
	conn, err := d.DialContext(ctx, "tcp", server)
	if err != nil {
		return true
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, a.head()); err != nil {
		return true
	}
	for pause(ctx, time.Second) == nil {
		conn.SetReadDeadline(time.Now().Add(30 * time.Second)) // it may wait in the queue
		if _, err := conn.Read(make([]byte, 1)); err != nil {
			return ctx.Err() == nil
		}
	}
	return false
}
