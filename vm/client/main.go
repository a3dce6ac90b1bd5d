// Command client asks a site until it is told to stop, and says what became of every
// request that was not answered as it should be. It is the visitor of vm/test.sh.
//
//	client URL WORKERS
//
// Half of the workers keep their connections. At SIGTERM it prints one line and ends, with
// 1 if a request has failed. A request has failed if its answer did not come within 40 s,
// or is not a 200. It was unjudged if stile's answer, which the site says in
// X-Stile-Status, was not a 200 either: nginx has opened.
package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// pause is between two requests of a worker: a site in use, not a benchmark.
const pause = 100 * time.Millisecond

type client struct {
	url                     string
	stop                    atomic.Bool
	asked, failed, unjudged atomic.Int64
	slowest                 atomic.Int64 // ns
}

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: client URL WORKERS")
		os.Exit(2)
	}
	workers, err := strconv.Atoi(os.Args[2])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	c := &client{url: os.Args[1]}
	var all sync.WaitGroup
	for i := range workers {
		h := &http.Client{Timeout: 40 * time.Second, Transport: &http.Transport{DisableKeepAlives: i%2 == 1}}
		all.Go(func() {
			for !c.stop.Load() {
				c.ask(h)
				time.Sleep(pause)
			}
		})
	}
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGTERM, syscall.SIGINT)
	<-end
	c.stop.Store(true)
	all.Wait()
	fmt.Printf("asked=%d failed=%d unjudged=%d slowest=%.1fs\n", c.asked.Load(), c.failed.Load(), c.unjudged.Load(), time.Duration(c.slowest.Load()).Seconds())
	if c.failed.Load() > 0 {
		os.Exit(1)
	}
}

func (c *client) ask(h *http.Client) {
	begun := time.Now()
	status, said, err := get(h, c.url)
	c.asked.Add(1)
	took := time.Since(begun)
	for {
		most := c.slowest.Load()
		if int64(took) <= most || c.slowest.CompareAndSwap(most, int64(took)) {
			break
		}
	}
	if err != nil || status != 200 {
		c.failed.Add(1)
		fmt.Printf("%s failed after %.1fs: status %d, stile's %q, %v\n", begun.Format("15:04:05.000"), took.Seconds(), status, said, err)
		return
	}
	// Where nginx has asked again over another connection there are two: "502, 200".
	if all := strings.Split(said, ", "); all[len(all)-1] != "200" {
		c.unjudged.Add(1)
		fmt.Printf("%s unjudged after %.1fs: stile's %q\n", begun.Format("15:04:05.000"), took.Seconds(), said)
	}
}

func get(h *http.Client, url string) (status int, said string, err error) {
	r, err := h.Get(url)
	if err != nil {
		return 0, "", err
	}
	defer r.Body.Close()
	_, err = io.Copy(io.Discard, r.Body)
	return r.StatusCode, r.Header.Get("X-Stile-Status"), err
}
