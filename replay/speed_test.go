package replay

import (
	"bufio"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"stile/config"
	"stile/decide"
	"stile/replay/replaytest"
)

// madeFile writes a log.
func madeFile(t testing.TB, m replaytest.Log) string {
	name := filepath.Join(t.TempDir(), "access.log")
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	b := bufio.NewWriter(f)
	if err := m.Write(b); err != nil {
		t.Fatal(err)
	}
	if err := b.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return name
}

// defaults is preset:generic.
func defaults(t testing.TB, toml string) *config.Config {
	cfg, err := config.Parse("stile.toml", []byte(toml))
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// perCore reports the speed by the processor's time: what one core does that has nothing
// else to do. On a busy machine the time on the wall says little.
func perCore(b *testing.B, size int64, f func()) {
	b.SetBytes(size)
	before := cpu()
	for b.Loop() {
		f()
	}
	b.ReportMetric(float64(size)*float64(b.N)/1e6/(cpu()-before).Seconds(), "MB/core-s")
}

func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// forge is the log that is measured with: 600,000 lines of 246 bytes, 236,502 different
// targets, 32,860 addresses ("bench/replay.sh" counts them).
var forge = replaytest.Log{Lines: 600_000, Addresses: 20_000, Seed: 1}

// BenchmarkReplay is the whole of a run, in bytes of log: of a forge's log, of one without a
// target that comes twice (real logs are between the two), and of one with times.
func BenchmarkReplay(b *testing.B) {
	distinct, timed := forge, forge
	distinct.Distinct, timed.Timed = true, true
	for _, c := range []struct {
		name string
		log  replaytest.Log
	}{{"Forge", forge}, {"Distinct", distinct}, {"Timed", timed}} {
		b.Run(c.name, func(b *testing.B) {
			name := madeFile(b, c.log)
			st, err := os.Stat(name)
			if err != nil {
				b.Fatal(err)
			}
			cfg := defaults(b, "")
			perCore(b, st.Size(), func() {
				if _, err := Run(Options{Config: cfg, Logs: []string{name}}); err != nil {
					b.Fatal(err)
				}
			})
		})
	}
}

// BenchmarkLine is a line without the decision: finding its end, taking it apart, and
// reading its values.
func BenchmarkLine(b *testing.B) {
	name := madeFile(b, forge)
	st, err := os.Stat(name)
	if err != nil {
		b.Fatal(err)
	}
	perCore(b, st.Size(), func() {
		f, err := newFeed([]string{name}, "combined", "stile", nil)
		if err != nil {
			b.Fatal(err)
		}
		var r record
		for err == nil {
			err = f.next(&r)
		}
	})
}

// BenchmarkDecision is what of BenchmarkReplay is the decision itself, the same requests
// in memory: what the rest is to be compared with.
func BenchmarkDecision(b *testing.B) {
	name := madeFile(b, forge)
	st, err := os.Stat(name)
	if err != nil {
		b.Fatal(err)
	}
	f, err := newFeed([]string{name}, "combined", "stile", nil)
	if err != nil {
		b.Fatal(err)
	}
	var all []request
	for {
		var r request
		if f.next(&r.record) != nil {
			break
		}
		all = append(all, r)
	}
	e, err := decide.New(defaults(b, ""))
	if err != nil {
		b.Fatal(err)
	}
	find := newFinder(shape{}, e, defaults(b, ""), false)
	var q decide.Request
	perCore(b, st.Size(), func() {
		for i := range all {
			r := &all[i]
			if err := find.readings.Parse(r.target); err != nil {
				b.Fatal(err)
			}
			r.path, r.query, r.alt = find.readings.Path, find.readings.Query, find.readings.Alt
			find.fill(&q, r)
			e.Decide(&q, r.at)
		}
	})
}
