// Package replaytest makes access logs to test and to measure replays with.
package replaytest

import (
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"time"
)

// Log is a log as a small forge would have it in nginx's format combined: readers who load
// pages and their parts, a crawler, and a swarm that asks for a few pages from each of many
// addresses. The same values make the same log.
type Log struct {
	Lines     int
	Addresses int  // of the swarm
	Timed     bool // with $request_time and $upstream_response_time after it
	Distinct  bool // no two targets are the same; else four in ten lines have one of their own
	Seed      uint64
}

// agents are three hundred browsers, of which few are frequent.
var agents = func() (all []string) {
	for _, os := range [...]string{"Windows NT 10.0; Win64; x64", "X11; Linux x86_64", "Macintosh; Intel Mac OS X 10_15_7", "Linux; Android 10; K"} {
		for v := range 75 {
			all = append(all, fmt.Sprintf("Mozilla/5.0 (%s) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/%d.0.0.0 Safari/537.36", os, 75+v))
		}
	}
	return all
}()

// Write writes the log, with many small writes.
func (m Log) Write(w io.Writer) error {
	rng := rand.New(rand.NewPCG(m.Seed, 7))
	now := time.Date(2026, 11, 28, 0, 0, 0, 0, time.FixedZone("", 3600))
	var b strings.Builder
	for i := range m.Lines {
		if i%25 == 24 {
			now = now.Add(time.Second)
		}
		b.Reset()
		one := func(of int) int { // of so many things, or one of its own
			n := rng.IntN(of)
			if m.Distinct {
				n = i
			}
			return n
		}
		addr, target, referer, agent := "", "", "-", agents[int(float64(len(agents))*rng.Float64()*rng.Float64())]
		status, bytes := 200, 1000+rng.IntN(60000)
		switch k := rng.IntN(100); {
		case k < 45: // a part of a page
			addr = fmt.Sprintf("198.51.%d.%d", rng.IntN(8), rng.IntN(250))
			target = fmt.Sprintf("/assets/app.%x.js", one(40))
			referer = fmt.Sprintf("https://www.example.org/project/halogen/issues/%d", rng.IntN(900))
		case k < 60: // a page
			addr = fmt.Sprintf("198.51.%d.%d", rng.IntN(8), rng.IntN(250))
			target = fmt.Sprintf("/project/halogen/issues/%d?page=%d", one(900), rng.IntN(9))
			referer = "https://www.example.org/project/halogen"
		case k < 62: // a search
			addr = fmt.Sprintf("2001:db8:%x:%x::%x", rng.IntN(40), rng.IntN(16), rng.IntN(99))
			target = fmt.Sprintf("/search?q=word%d", one(500))
		case k < 65: // a crawler
			addr, agent = "192.0.2.77", "Mozilla/5.0 (compatible; ExampleBot/2.1; +https://bot.example.net/)"
			target = fmt.Sprintf("/project/halogen/commit/%x", rng.Uint64())
		default: // the swarm
			n := rng.IntN(max(m.Addresses, 1))
			addr = fmt.Sprintf("%d.%d.%d.%d", 100+n>>24, n>>16&255, n>>8&255, n&255)
			target = fmt.Sprintf("/project/halogen/blame/%x/src/lib/part%d.go", rng.Uint64(), rng.IntN(400))
			if rng.IntN(9) == 0 {
				target = fmt.Sprintf("/search?q=%x%x", rng.Uint32(), one(1))
			}
		}
		fmt.Fprintf(&b, "%s - - [%s] \"GET %s HTTP/1.1\" %d %d \"%s\" \"%s\"", addr, now.Format("02/Jan/2006:15:04:05 -0700"), target, status, bytes, referer, agent)
		if m.Timed {
			took := 0.002 + rng.Float64()*rng.Float64()*rng.Float64()*3
			if strings.HasPrefix(target, "/search") {
				took *= 8
			}
			fmt.Fprintf(&b, " %.3f %.3f", took, took)
		}
		b.WriteByte('\n')
		if _, err := io.WriteString(w, b.String()); err != nil {
			return err
		}
	}
	return nil
}
