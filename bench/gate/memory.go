package main

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	budget = 16 << 20
	// headroom is what the backend may have, to what the largest page alone takes: enough to
	// live with a gate, and not enough for two of them.
	headroom = 1.4
)

// model is what renders hold, measured one after another: base, and so many bytes for
// each byte of the file.
type model struct {
	base  int64
	peak  float64
	data  int64   // as RLIMIT_DATA counts it, of the largest page alone
	scale float64 // bytes of file for a byte of page
}

// bound is how much the backend holds with so many bytes of files in flight.
func (m *model) bound(inFlight int64) int64 { return m.base + int64(m.peak*float64(inFlight)) }

// limit is what the backend may have, as RLIMIT_DATA counts it.
func (m *model) limit() int64 { return int64(headroom * float64(m.data)) }

func largest() int64 {
	n := int64(budget)
	for _, s := range sizes {
		n = max(n, s.bytes)
	}
	return n
}

// measureMemory renders each file many times, one after another, in a fresh process: when
// the collector runs, and so how high the heap gets, is a matter of luck. So it does with
// a mix of them, where a large one begins beside what is left of others.
func measureMemory(pages, dir string) (*model, error) {
	const atLeast, bytes = 8, 200e6
	m := &model{}
	fmt.Printf("one render at a time, many of each file in a fresh process\n  %-8s %10s %10s %16s %12s %14s\n", "file", "bytes", "page", "live heap/file", "peak/file", "render")
	for _, size := range sizes {
		one, err := renderAlone(pages, dir, slices.Repeat([]string{size.name}, max(atLeast, int(bytes/float64(size.bytes)))))
		if err != nil {
			return nil, err
		}
		file := float64(one.file)
		fmt.Printf("  %-8s %10d %10d %14.1f ×  %10.1f × %14s\n", size.name+" MB", one.file, one.page, float64(one.live)/file, float64(one.peak-one.base)/file, one.took.Round(time.Millisecond))
		m.data = max(m.data, one.data)
		m.scale = max(m.scale, file/float64(one.page))
		m.add(one)
	}
	var mixed []string
	for _, a := range swarm(nil)[:min(*visitors, 100)] {
		mixed = append(mixed, strings.Split(a.path, "/")[2])
	}
	one, err := renderAlone(pages, dir, mixed)
	if err != nil {
		return nil, err
	}
	fmt.Printf("  %-8s %10s %10s %16s  %10.1f × (of the largest)\n", "mixed", "", "", "", float64(one.peak-one.base)/float64(one.file))
	m.add(one)
	fmt.Printf("  model: a backend holds %s and %.1f bytes for each byte of file that it renders; the kernel gives it %s in all\n\n", mib(m.base), m.peak, mib(m.limit()))
	return m, nil
}

func (m *model) add(one *alone) {
	m.base = max(m.base, one.base)
	m.peak = max(m.peak, float64(one.peak-one.base)/float64(one.file))
}

// alone is what renders one after another hold and take: bytes of the largest file, of
// the last page, live for the last file, at the beginning and at most, and at most as
// RLIMIT_DATA counts it.
type alone struct {
	file                   int64
	page                   int
	live, base, peak, data int64
	took                   time.Duration // of half of them
}

func renderAlone(pages, dir string, list []string) (*alone, error) {
	s, err := supervise(pages, dir+"/backend.sock", 0)
	if err != nil {
		return nil, err
	}
	defer s.stop()
	one := &alone{}
	if one.base, _, err = s.memoryNow(); err != nil {
		return nil, err
	}
	var took []time.Duration
	for i, size := range list {
		info, err := os.Stat(pageFile(pages, size))
		if err != nil {
			return nil, err
		}
		start := time.Now()
		page, err := s.get("/packages/"+size+"/0", strconv.Itoa(i))
		if err != nil {
			return nil, err
		}
		took = append(took, time.Since(start))
		one.file, one.page = max(one.file, info.Size()), len(page)
	}
	one.took = median(took)
	if one.peak, one.data, err = s.memoryNow(); err != nil {
		return nil, err
	}
	text, err := s.get("/live/"+list[len(list)-1], "")
	if err != nil {
		return nil, err
	}
	one.live, err = strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	return one, err
}

func mib(n int64) string { return fmt.Sprintf("%.0f MiB", float64(n)/(1<<20)) }

// fixed lets so many workers render the list, without nginx and without a gate, and
// returns the bytes of file a second, or that the backend died of it.
func fixed(pages, dir string, limit int64, list []string, workers int) (rate float64, died bool, err error) {
	s, err := supervise(pages, dir+"/fixed.sock", limit)
	if err != nil {
		return 0, false, err
	}
	work := make(chan int)
	var group sync.WaitGroup
	for range workers {
		group.Add(1)
		go func() {
			defer group.Done()
			for i := range work {
				s.get("/packages/"+list[i]+"/0", strconv.Itoa(i)) // an error is a death, which is counted
			}
		}()
	}
	for i := range list {
		s.mu.Lock()
		died = s.deaths > 0
		s.mu.Unlock()
		if died {
			break
		}
		work <- i
	}
	close(work)
	group.Wait()
	got := s.stop()
	return throughput(got.renders), got.deaths > 0, nil
}

// throughput is the bytes of file rendered in a second, from the first begin to the last end.
func throughput(renders []*render) float64 {
	sum, from, to := int64(0), time.Time{}, time.Time{}
	for _, r := range renders {
		if r.to.IsZero() {
			continue
		}
		if from.IsZero() || r.from.Before(from) {
			from = r.from
		}
		if r.to.After(to) {
			to = r.to
		}
		sum += r.bytes()
	}
	if sum == 0 {
		return 0
	}
	return float64(sum) / to.Sub(from).Seconds()
}
