package budget

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// line is a way to wait: the gate, or the one without an order that it is shown beside.
type line interface {
	ask(n int, cost int64, now time.Duration)
	release(n int, now time.Duration)
	started() []int // since the last call
}

type ordered struct {
	g     *Gate
	wait  []*Waiter
	who   []int
	begun []int
}

func (o *ordered) ask(n int, cost int64, now time.Duration) {
	a, w := o.g.Admit(&Request{ID: id(uint64(n)), Caller: mix(uint64(n)), Lane: Proven, Cost: cost}, int64(now))
	switch a {
	case Admitted:
		o.begun = append(o.begun, n)
	case Waiting:
		o.wait, o.who = append(o.wait, w), append(o.who, n)
	default:
		panic(a)
	}
}

func (o *ordered) release(n int, now time.Duration) { o.g.Release(id(uint64(n)), int64(now)) }

func (o *ordered) started() []int {
	for i := 0; i < len(o.wait); {
		if o.wait[i].Answer() != Admitted {
			i++
			continue
		}
		o.begun = append(o.begun, o.who[i])
		o.wait, o.who = slices.Delete(o.wait, i, i+1), slices.Delete(o.who, i, i+1)
	}
	begun := o.begun
	o.begun = nil
	return begun
}

// unordered is what one writes first: who fits goes, and when something is released all
// who wait look again whether they fit, in no order.
type unordered struct {
	budget, inFlight int64
	costs            map[int]int64
	inside           map[int]bool
	waiting          []int
	begun            []int
	rnd              *rand.Rand
}

func (u *unordered) ask(n int, cost int64, _ time.Duration) {
	u.costs[n] = cost
	u.waiting = append(u.waiting, n)
	u.look()
}

func (u *unordered) release(n int, _ time.Duration) {
	u.inFlight -= u.costs[n]
	delete(u.inside, n)
	u.look()
}

func (u *unordered) look() {
	u.rnd.Shuffle(len(u.waiting), func(i, j int) { u.waiting[i], u.waiting[j] = u.waiting[j], u.waiting[i] })
	u.waiting = slices.DeleteFunc(u.waiting, func(n int) bool {
		if u.inFlight+u.costs[n] > u.budget && len(u.inside) > 0 {
			return false
		}
		u.inFlight += u.costs[n]
		u.inside[n] = true
		u.begun = append(u.begun, n)
		return true
	})
}

func (u *unordered) started() []int {
	begun := u.begun
	u.begun = nil
	return begun
}

// job is a render: what it costs in MiB, when it came, and from when to when it ran.
type job struct {
	cost              int64
	comes, takes      time.Duration
	from, end         time.Duration
	client            int
	isLarge, hasBegun bool
}

const (
	largeComes = 30 * time.Second
	streamEnds = 10 * time.Minute
)

// simulate lets so many clients render 4 MiB one after another, with a short pause
// between, until the stream ends, and a render of 24 MiB come in between.
func simulate(l line, clients int) []job {
	rnd := rand.New(rand.NewPCG(uint64(clients), 0))
	between := func(from, to float64) time.Duration {
		return time.Duration((from + (to-from)*rnd.Float64()) * float64(time.Second))
	}
	coming := []job{{cost: 24, comes: largeComes, takes: 2 * time.Second, client: -1, isLarge: true}}
	for c := range clients {
		coming = append(coming, job{cost: 4, comes: between(0, 0.1), takes: between(0.2, 0.4), client: c})
	}
	jobs, running := []job(nil), []int(nil)
	for len(coming) > 0 || len(running) > 0 {
		slices.SortStableFunc(coming, func(a, b job) int { return int(a.comes - b.comes) })
		slices.SortStableFunc(running, func(a, b int) int { return int(jobs[a].end - jobs[b].end) })
		var now time.Duration
		if len(running) == 0 || len(coming) > 0 && coming[0].comes < jobs[running[0]].end {
			now = coming[0].comes
			jobs, coming = append(jobs, coming[0]), coming[1:]
			l.ask(len(jobs)-1, jobs[len(jobs)-1].cost, now)
		} else {
			done := jobs[running[0]]
			now = done.end
			l.release(running[0], now)
			running = running[1:]
			if !done.isLarge && now < streamEnds {
				coming = append(coming, job{cost: 4, comes: now + between(0.001, 0.01), takes: between(0.2, 0.4), client: done.client})
			}
		}
		for _, n := range l.started() {
			j := &jobs[n]
			j.from, j.end, j.hasBegun = now, now+j.takes, true
			running = append(running, n)
		}
	}
	return jobs
}

// TestStarvation lets a render of 24 MiB come to a budget of 16 MiB that small ones keep
// busy, or even less than busy: three clients never have more than 12 MiB in flight. In
// order it is served as soon as the work that came before it is done; in no order when
// the small ones happen to pause all at once, if ever. The numbers, and how much is in
// flight over time, are left as text to be plotted:
//
//	go test -run Starvation -v -artifacts -outputdir DIR ./budget
func TestStarvation(t *testing.T) {
	var table strings.Builder
	fmt.Fprintf(&table, "clients\tdrain_seconds\tordered_seconds\tunordered_seconds\n")
	for _, clients := range []int{1, 2, 3, 4, 6, 8} {
		g, err := New(Options{Budget: 16, Queue: 32, Wait: time.Hour, Lease: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		first := simulate(&ordered{g: g}, clients)
		second := simulate(&unordered{budget: 16, costs: map[int]int64{}, inside: map[int]bool{}, rnd: rand.New(rand.NewPCG(1, 1))}, clients)

		the := slices.IndexFunc(first, func(j job) bool { return j.isLarge })
		drain := time.Duration(0) // of the work that was there before
		for _, j := range first[:the] {
			drain = max(drain, j.end-largeComes)
		}
		waited := first[the].from - largeComes
		other := second[slices.IndexFunc(second, func(j job) bool { return j.isLarge })]
		waitedUnordered := other.from - largeComes
		fmt.Fprintf(&table, "%d\t%.2f\t%.2f\t%.2f\n", clients, drain.Seconds(), waited.Seconds(), waitedUnordered.Seconds())
		if waited > 2*drain {
			t.Errorf("%d clients: the large one waited %v, the work before it took %v", clients, waited, drain)
		}
		for i := 1; i < len(first); i++ {
			if first[i].from < first[i-1].from {
				t.Errorf("%d clients: %d was admitted before %d, who was there first", clients, i, i-1)
			}
		}
		if clients >= 3 && waitedUnordered < 100*waited || clients >= 4 && other.from < streamEnds {
			t.Errorf("%d clients: in no order it waited %v, in order %v: this shows nothing", clients, waitedUnordered, waited)
		}
		if clients == 3 {
			write(t, "inflight.tsv", inFlight(first, second))
		}
	}
	write(t, "starvation.tsv", table.String())
	t.Log("\n" + table.String())
}

// inFlight is what is in flight around the time when the large one comes.
func inFlight(first, second []job) string {
	var b strings.Builder
	fmt.Fprintf(&b, "seconds\tordered_mib\tunordered_mib\n")
	for now := -2 * time.Second; now < 10*time.Second; now += 50 * time.Millisecond {
		fmt.Fprintf(&b, "%.2f", now.Seconds())
		for _, jobs := range [][]job{first, second} {
			sum := int64(0)
			for _, j := range jobs {
				if j.hasBegun && j.from <= largeComes+now && largeComes+now < j.end {
					sum += j.cost
				}
			}
			fmt.Fprintf(&b, "\t%d", sum)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(t.ArtifactDir(), name), []byte(text), 0o644); err != nil {
		t.Error(err)
	}
}
