package main

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"time"
)

var (
	visitors = flags.Int("n", 2000, "swarm: how many visitors, each from an address of its own")
	perSec   = flags.Float64("rate", 200, "swarm: how many of them come in a second")
	rounds   = flags.Int("rounds", 3, "swarm: how many times the gate and each fixed concurrency have their turn")
	most     = flags.Int("fixed", 4, "swarm: the largest fixed concurrency")
	only     = flags.String("only", "", "swarm: only the scenario whose name begins like this")
)

// mix is how many of a hundred visitors want a page of each size, and how many different
// pages there are.
var mix = []struct{ share, pages int }{{70, 12}, {25, 6}, {5, 2}}

// scenario is who comes, and how the gate knows what they cost.
type scenario struct {
	name   string
	passes bool
	learns bool
}

var scenarios = []scenario{
	{name: "strangers, cost = \"file:…\""},
	{name: "visitors with passes, cost = \"file:…\"", passes: true},
	{name: "visitors with passes, cost = \"learned\"", passes: true, learns: true},
}

const gatePolicy = `
[[gate]]
name = "decode"
budget = "16MiB"
queue = 32
per_caller = 4
wait = "20s"
lease = "60s"
COST
[[rule]]
name = "package pages"
path = "/packages/**"
do = "allow"
gate = "decode"
`

// swarm makes the same visitors for the same seed. pass: what they have earned.
func swarm(pass func(n uint64) string) []ask {
	rnd := rand.New(rand.NewPCG(*seed, 7))
	asks := make([]ask, *visitors)
	at := time.Duration(0)
	for i, from := range addresses(*visitors, rnd) {
		x, k := rnd.IntN(100), 0
		for x >= mix[k].share {
			x -= mix[k].share
			k++
		}
		asks[i] = ask{from: from, path: fmt.Sprintf("/packages/%s/%d", sizes[k].name, rnd.IntN(mix[k].pages)), at: at}
		if pass != nil {
			asks[i].cookie = pass(uint64(i))
		}
		at += time.Duration(rnd.ExpFloat64() / *perSec * float64(time.Second))
	}
	return asks
}

func swarmFigure(ctx context.Context, dir string) error {
	pages := dir + "/pages"
	if err := os.MkdirAll(pages, 0o755); err != nil {
		return err
	}
	if err := writePages(pages, *seed); err != nil {
		return err
	}
	m, err := measureMemory(pages, dir)
	if err != nil {
		return err
	}
	var b bounds
	for i, sc := range scenarios {
		if !strings.HasPrefix(sc.name, *only) || ctx.Err() != nil {
			continue
		}
		if err := sc.run(ctx, &b, m, pages, fmt.Sprintf("%s/%d", dir, i)); err != nil {
			return fmt.Errorf("%s: %w", sc.name, err)
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return b.err()
}

// run shows one scenario: the swarm without the gate, then in turns with it and at fixed
// concurrencies.
func (sc *scenario) run(ctx context.Context, b *bounds, m *model, pages, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	cost := `cost = "file:` + pages + `/{2}.json"`
	if sc.learns {
		cost = fmt.Sprintf("cost = \"learned\"\nscale = %.2f", m.scale)
	}
	s, err := startSite(dir, strings.ReplaceAll(gatePolicy, "COST", cost))
	if err != nil {
		return err
	}
	defer s.stop()
	var pass func(uint64) string
	if sc.passes {
		pass = s.pass
	}
	asks := swarm(pass)
	fmt.Printf("%s: %d addresses ask for one page each, %.0f a second\n", sc.name, len(asks), *perSec)

	bare, err := sc.attack(ctx, s, m, pages, asks, false)
	if err != nil {
		return err
	}
	bare.print("without the gate")
	b.hold(bare.deaths > 0, "the swarm kills the backend: %d times (%s)", bare.deaths, bare.words)

	inFlight, against := int64(budget), "once the budget"
	if sc.passes {
		inFlight, against = largest(), "the largest page alone"
	}
	ratios := make([][]float64, *most+1) // to each fixed concurrency, of every round
	for round := range *rounds {
		if err := ctx.Err(); err != nil {
			return err
		}
		o, err := sc.attack(ctx, s, m, pages, asks, true)
		if err != nil {
			return err
		}
		o.print(fmt.Sprintf("with the gate, round %d", round+1))
		b.hold(o.deaths == 0, "deaths with the gate: %d %s", o.deaths, o.words)
		b.hold(o.peak <= m.bound(inFlight), "peak memory / the model's bound (%s): %s / %s = %.2f", against, mib(o.peak), mib(m.bound(inFlight)), float64(o.peak)/float64(m.bound(inFlight)))
		fmt.Printf("    bytes of files that the backend truly had in flight / the same: %.2f; leases that ended by themselves so far: %.0f\n",
			float64(inFlightMost(o.renders))/float64(inFlight), o.metrics[`stile_gate_lease_expired_total{gate="decode"}`])
		if !sc.passes {
			large := 0
			for _, r := range o.renders {
				if r.bytes() > budget/2 {
					large++
				}
			}
			b.hold(large == 0, "pages above half the budget that reached the backend for a stranger: %d", large)
		}
		list := o.rendered()
		rate := throughput(o.renders)
		for i := range *most {
			c := 1 + (i+round)%*most // they take turns in being the first
			r, died, err := fixed(pages, dir, m.limit(), list, c)
			if err != nil {
				return err
			}
			if died {
				r = 0
			}
			ratios[c] = append(ratios[c], rate/r)
		}
	}
	fmt.Printf("  throughput of admitted renders / that of the same renders directly, so many at a time, median of %d rounds:\n   ", *rounds)
	worst := math.Inf(1)
	for c := 1; c <= *most; c++ {
		// A concurrency that the backend does not survive each time is none that it manages.
		if slices.Contains(ratios[c], math.Inf(1)) {
			fmt.Printf("  %d: dies", c)
			continue
		}
		fmt.Printf("  %d: %.2f", c, median(ratios[c]))
		worst = min(worst, median(ratios[c]))
	}
	fmt.Println()
	b.hold(worst >= 0.9, "throughput of admitted renders / the best fixed concurrency: %.2f", worst)
	fmt.Println()
	return nil
}

// inFlightMost is how many bytes of files were being rendered at once, at most.
func inFlightMost(renders []*render) (most int64) {
	type change struct {
		at    time.Time
		bytes int64
	}
	var changes []change
	for _, r := range renders {
		changes = append(changes, change{r.from, r.bytes()})
		if !r.to.IsZero() {
			changes = append(changes, change{r.to, -r.bytes()})
		}
	}
	slices.SortFunc(changes, func(a, b change) int { return a.at.Compare(b.at) })
	sum := int64(0)
	for _, c := range changes {
		sum += c.bytes
		most = max(most, sum)
	}
	return most
}

// outcome is what came of a swarm.
type outcome struct {
	account
	answers map[int]int
	waited  []time.Duration // of those who got their page, from asking to the backend's begin
	metrics map[string]float64
}

func (sc *scenario) attack(ctx context.Context, s *site, m *model, pages string, asks []ask, gated bool) (*outcome, error) {
	backend, err := supervise(pages, s.dir+"/backend.sock", m.limit())
	if err != nil {
		return nil, err
	}
	if gated {
		if err := sc.warm(ctx, s); err != nil {
			backend.stop()
			return nil, err
		}
	}
	known := len(backend.account().renders)
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	answers := attack(ctx, s.address(gated), asks)
	o := &outcome{answers: map[int]int{}}
	o.metrics, err = s.metrics()
	o.account = backend.stop()
	if err != nil {
		return nil, err
	}
	o.renders = o.renders[known:]
	begun := map[string]time.Time{}
	for _, r := range o.renders {
		begun[r.client] = r.from
	}
	for i, a := range answers {
		o.answers[a.status]++
		if at, ok := begun[asks[i].from.String()]; ok && a.status == 200 {
			o.waited = append(o.waited, at.Sub(a.from))
		}
	}
	slices.Sort(o.waited)
	return o, nil
}

// warm is what happens on any day before a swarm comes: each page has been asked for once,
// and stile has seen that nginx tells it when a request ends.
func (sc *scenario) warm(ctx context.Context, s *site) error {
	for k := range sizes {
		if !sc.passes && sizes[k].bytes > budget/2 {
			continue // the swarm gets none either
		}
		for n := range mix[k].pages {
			a := ask{from: addresses(1, rand.New(rand.NewPCG(9, 9)))[0], path: fmt.Sprintf("/packages/%s/%d", sizes[k].name, n), cookie: s.pass(1 << 40)}
			got, err := a.do(ctx, s.address(true))
			if err == nil && got.status != 200 {
				err = fmt.Errorf("%d: %s", got.status, got.text)
			}
			if err != nil {
				return fmt.Errorf("asking for %s: %w", a.path, err)
			}
			if !sc.learns {
				break
			}
		}
	}
	return nil
}

// rendered is the sizes of the pages that were rendered, in the order in which they were
// begun.
func (o *outcome) rendered() (list []string) {
	for _, r := range o.renders {
		if !r.to.IsZero() {
			list = append(list, r.size)
		}
	}
	return list
}

func (o *outcome) print(name string) {
	fmt.Printf("  %s: %d pages; %d busy (503), %d asked for a proof (429), %d lost (502 or nothing), %d others; peak %s\n", name,
		o.answers[200], o.answers[503], o.answers[429], o.answers[502]+o.answers[504]+o.answers[0], o.others(), mib(o.peak))
	if len(o.waited) > 0 {
		fmt.Printf("    from asking to the backend's begin: half within %s, all within %s\n", median(o.waited).Round(time.Millisecond), o.waited[len(o.waited)-1].Round(time.Millisecond))
	}
}

// others counts the answers that print does not name.
func (o *outcome) others() (n int) {
	for status, count := range o.answers {
		switch status {
		case 200, 503, 429, 502, 504, 0:
		default:
			n += count
		}
	}
	return n
}
