// Package replay runs access logs through the decision, with the log's own clock, and
// reports what would have happened: what an operator chooses limits by.
//
// A log does not tell who has a pass or what a challenge would have led to. So there are two
// reckonings. In the first nobody solves: whoever is above a limit stays a stranger, is
// asked again at each request, and what is refused is not counted, as in the daemon. In the
// second all solve: who is asked in the first gets a pass by work, at once, and has its
// limits from then on, until it ends. The truth lies between. In the second, what all
// strangers together may have is used up as in the first: it asks rather too often.
package replay

import (
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"stile/config"
)

// Options of a run.
type Options struct {
	Config *config.Config
	Logs   []string  // files; "-" is Stdin
	Stdin  io.Reader // default: an empty one
	// Format is "combined", "json", a log_format string or a whole log_format directive.
	// Default "": what the first lines look like.
	Format string
	// Since and Until bound the time at which requests ended: RFC 3339, or "2026-11-30",
	// "2026-11-30 06:37" in the log's zone. Default "": no bound.
	Since, Until string
	// Progress is called now and then, by another goroutine than Run's, with how many bytes
	// of the files have been read. Default nil.
	Progress func(read int64)
}

// batch is how many requests go from the reading to the deciding goroutine at once: few
// enough that those under way lie in the nearer caches of a core.
const batch = 128

// most is how many requests are read for one batch: those outside of the time asked for are
// not sent, and progress is to be told meanwhile.
const most = 64 * batch

// Run replays logs. It uses a second core if there is one: one reads and finds the rules,
// the other decides and counts. Memory does not grow with the logs.
func Run(o Options) (*Report, error) {
	if o.Stdin == nil {
		o.Stdin = strings.NewReader("")
	}
	f, err := newFeed(o.Logs, o.Format, o.Config.Pass.Cookie, o.Stdin)
	if err != nil {
		return nil, err
	}
	zone := time.FixedZone("", f.offset)
	since, err := when(o.Since, zone, 0)
	if err != nil {
		return nil, err
	}
	until, err := when(o.Until, zone, math.MaxInt64)
	if err != nil {
		return nil, err
	}
	s, err := newSimulation(o.Config, f)
	if err != nil {
		f.close()
		return nil, err
	}
	full, empty := make(chan []request, 2), make(chan []request, 3)
	failed := make(chan error, 1)
	for range cap(empty) {
		empty <- make([]request, batch)
	}
	go func() { failed <- f.read(full, empty, s.find, since, until, o.Progress) }()
	for requests := range full {
		s.touch(requests)
		for i := range requests {
			s.request(&requests[i])
		}
		empty <- requests[:batch]
	}
	if err := <-failed; err != nil {
		return nil, err
	}
	if s.requests == 0 {
		return nil, f.nothing(o.Logs)
	}
	return s.report(zone), nil
}

// read sends all requests in the order in which they came, with the rules that they fall
// under, and closes full.
func (f *feed) read(full chan<- []request, empty <-chan []request, find *finder, since, until int64, progress func(int64)) error {
	defer close(full)
	defer f.close()
	next := f.next
	if f.timed() {
		o := &order{feed: f, whole: !f.has[fieldMsec]}
		next = o.next
	}
	for {
		requests, n := <-empty, 0
		var err error
		for read := 0; n < batch && read < most; read++ {
			r := &requests[n]
			if err = next(&r.record); err != nil {
				break
			}
			if r.end < since || r.end > until {
				f.skip.Outside++
				continue
			}
			n++
		}
		found := find.all(requests[:n])
		f.skip.Own += int64(n - found)
		full <- requests[:found]
		if progress != nil {
			progress(f.done.Load())
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// when reads a time of the operator's.
func when(s string, zone *time.Location, unset int64) (int64, error) {
	if s == "" {
		return unset, nil
	}
	for _, layout := range [...]string{time.RFC3339, "2006-01-02 15:04:05", "2006-01-02T15:04:05", "2006-01-02 15:04", "2006-01-02T15:04", "2006-01-02"} {
		if t, err := time.ParseInLocation(layout, s, zone); err == nil {
			return t.UnixNano(), nil
		}
	}
	return 0, fmt.Errorf("time %q: want one such as 2026-11-30, 2026-11-30T06:37, or 2026-11-30T06:37:00Z", s)
}
