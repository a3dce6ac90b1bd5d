package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"time"
)

var (
	trials = flags.Int("trials", 20, "starve: how many times the large page is asked for")
	length = flags.Duration("d", time.Minute, "starve: how long the small ones go on where nothing is in order")
	plot   = flags.String("plot", "", "starve: draw the two runs into this SVG file")
)

// load is the visitors who ask for small pages all the time, one after another with a
// pause: together they fit the budget.
var load = []string{"4.4", "4.4", "1.4", "1.4", "1.4", "1.4"}

const large = "25"

// near is how close in time two requests are of which nobody can say which came first.
const near = 20 * time.Millisecond

// page is one page that a visitor got: asked for, begun by the backend, and done.
type page struct {
	size              string
	asked, begun, end time.Time
}

// stream is one run: small pages all the time, and large ones.
type stream struct{ small, large []page }

func starveFigure(ctx context.Context, dir string) error {
	pages := dir + "/pages"
	if err := os.MkdirAll(pages, 0o755); err != nil {
		return err
	}
	if err := writePages(pages, *seed); err != nil {
		return err
	}
	sum := int64(0)
	for _, size := range load {
		sum += bytesOf(size)
	}
	fmt.Printf("%d visitors ask for small pages one after another, at most %.1f MB of files at once; the budget is %.1f MB; a page of %s MB comes in between\n",
		len(load), float64(sum)/1e6, budget/1e6, large)

	ordered, err := runOrdered(ctx, pages, dir+"/ordered")
	if err != nil {
		return fmt.Errorf("stile: %w", err)
	}
	unordered, err := runUnordered(ctx, pages, dir+"/unordered")
	if err != nil {
		return fmt.Errorf("in no order: %w", err)
	}

	var b bounds
	fmt.Printf("\nin order (stile), %d times, and %d small pages meanwhile\n  %10s %10s %8s %10s\n", len(ordered.large), len(ordered.small), "drain", "waited", "ratio", "served in")
	var ratios []float64
	var waits []time.Duration
	late, early := 0, 0
	for _, p := range ordered.large {
		drain, after, before := ordered.around(p)
		waited := p.begun.Sub(p.asked)
		late, early = late+after, early+before
		waits = append(waits, waited)
		if drain > 0 {
			ratios = append(ratios, waited.Seconds()/drain.Seconds())
			fmt.Printf("  %10s %10s %8.2f %10s\n", round(drain), round(waited), ratios[len(ratios)-1], round(p.end.Sub(p.asked)))
		} else {
			fmt.Printf("  %10s %10s %8s %10s\n", "nothing", round(waited), "", round(p.end.Sub(p.asked)))
		}
	}
	if len(ratios) == 0 {
		return errors.New("nothing was ever in flight when the large page was asked for")
	}
	worst := 0.0
	for _, r := range ratios {
		worst = max(worst, r)
	}
	b.hold(worst <= 2, "waited / the time that the work in flight took to drain: median %.2f, worst %.2f", median(ratios), worst)
	b.hold(early == 0, "small pages that came before the large one and were begun after it: %d", early)
	b.hold(late == 0, "small pages that came after the large one and were begun before it: %d", late)

	p := unordered.large[0]
	waited := p.begun.Sub(p.asked)
	_, overtook, _ := unordered.around(p)
	fmt.Printf("\nin no order: it waited %s; %d small pages that came later were begun before it\n", round(waited), overtook)
	b.hold(waited >= *length, "it was begun when the small ones stopped coming, after %s", *length)
	fmt.Printf("  in order it waited %.4f of that\n", median(waits).Seconds()/waited.Seconds())

	if *plot != "" {
		if err := os.WriteFile(*plot, drawStarvation(ordered, unordered), 0o644); err != nil {
			return err
		}
	}
	return b.err()
}

func round(d time.Duration) time.Duration { return d.Round(time.Millisecond) }

// around is how long the work that was there before a page went on after it was asked
// for; and how many came clearly after it and were begun before it, and clearly before and
// after.
func (s *stream) around(p page) (drain time.Duration, overtook, overtaken int) {
	for _, o := range s.small {
		if o.asked.Before(p.asked) && o.begun.Before(p.begun) {
			drain = max(drain, o.end.Sub(p.asked))
		}
		if o.asked.After(p.asked.Add(near)) && o.begun.Before(p.begun) {
			overtook++
		}
		if o.asked.Before(p.asked.Add(-near)) && o.begun.After(p.begun) {
			overtaken++
		}
	}
	return drain, overtook, overtaken
}

func runOrdered(ctx context.Context, pages, dir string) (*stream, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	s, err := startSite(dir, strings.ReplaceAll(gatePolicy, "COST", `cost = "file:`+pages+`/{2}.json"`))
	if err != nil {
		return nil, err
	}
	defer s.stop()
	return s.stream(ctx, pages, func(ctx context.Context, ask func() error, _ func()) error {
		for range *trials {
			if err := pause(ctx, 2500*time.Millisecond); err != nil {
				return err
			}
			if err := ask(); err != nil {
				return err
			}
		}
		return pause(ctx, 8*time.Second) // as much of it is drawn
	})
}

func runUnordered(ctx context.Context, pages, dir string) (*stream, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	l, err := startLoose(dir)
	if err != nil {
		return nil, err
	}
	defer l.stop()
	// It answers when it answers.
	s, err := startSite(dir, "", "proxy_read_timeout 30s;", "proxy_read_timeout 10m;")
	if err != nil {
		return nil, err
	}
	defer s.stop()
	return s.stream(ctx, pages, func(ctx context.Context, ask func() error, calm func()) error {
		if err := pause(ctx, 3*time.Second); err != nil {
			return err
		}
		served := make(chan error, 1)
		go func() { served <- ask() }()
		if err := pause(ctx, *length+time.Second); err != nil {
			return err
		}
		calm()
		return <-served
	})
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// stream lets the small ones come until between is done, or calls calm. It asks for the
// large page as often as it likes.
func (s *site) stream(ctx context.Context, pages string, between func(ctx context.Context, ask func() error, calm func()) error) (*stream, error) {
	backend, err := supervise(pages, s.dir+"/backend.sock", 0)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, 15*time.Minute)
	defer cancel()
	from := addresses(len(load)+1, rand.New(rand.NewPCG(*seed, 8)))
	var mu sync.Mutex
	asked := map[string][]page{}
	get := func(who int, size string) error {
		a := ask{from: from[who], path: "/packages/" + size + "/0", cookie: s.pass(uint64(who))}
		got, err := a.do(ctx, s.address(true))
		if err == nil && got.status != 200 {
			err = fmt.Errorf("%s: %d: %s", a.path, got.status, got.text)
		}
		mu.Lock()
		defer mu.Unlock()
		asked[a.from.String()] = append(asked[a.from.String()], page{size: size, asked: got.from})
		return err
	}
	stop, errs := make(chan struct{}), make(chan error, len(load)+1)
	var group sync.WaitGroup
	for who, size := range load {
		group.Add(1)
		go func() {
			defer group.Done()
			rnd := rand.New(rand.NewPCG(*seed, uint64(who)))
			for {
				select {
				case <-stop:
					return
				case <-time.After(time.Duration(1+rnd.IntN(10)) * time.Millisecond):
				}
				if err := get(who, size); err != nil {
					errs <- err
					return
				}
			}
		}()
	}
	calm := sync.OnceFunc(func() { close(stop) })
	err = between(ctx, func() error { return get(len(load), large) }, calm)
	calm()
	group.Wait()
	got := backend.stop()
	select {
	case err := <-errs:
		return nil, err
	default:
	}
	if err != nil {
		return nil, err
	}
	return match(asked, got.renders)
}

// match finds for each page that was asked for when the backend began it and was done: a
// visitor asks for one after another.
func match(asked map[string][]page, renders []*render) (*stream, error) {
	s := &stream{}
	for _, r := range renders {
		list := asked[r.client]
		if len(list) == 0 || list[0].size != r.size || r.from.Before(list[0].asked) {
			return nil, fmt.Errorf("the backend rendered %s MB for %s, who has not asked for it", r.size, r.client)
		}
		p := list[0]
		asked[r.client] = list[1:]
		p.begun, p.end = r.from, r.to
		if p.size == large {
			s.large = append(s.large, p)
		} else {
			s.small = append(s.small, p)
		}
	}
	if len(s.large) == 0 {
		return nil, errors.New("no large page was ever begun")
	}
	return s, nil
}
