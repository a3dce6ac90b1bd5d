package replay

import (
	"bufio"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"stile/config"
	"stile/decide"
)

// madeFile is a generated log; STILE_REPLAY_LOG writes it to a place of your own, for
// stile replay on the command line:
//
//	STILE_REPLAY_LOG=/tmp/1g.log STILE_REPLAY_LINES=5100000 go test -run MadeFile ./replay
//	time GOMAXPROCS=1 stile replay /tmp/1g.log
func madeFile(t testing.TB, m made) string {
	name := filepath.Join(t.TempDir(), "access.log")
	writeMade(t, name, m)
	return name
}

func writeMade(t testing.TB, name string, m made) {
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	b := bufio.NewWriter(f)
	if err := m.write(b); err != nil {
		t.Fatal(err)
	}
	if err := b.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestMadeFile(t *testing.T) {
	name := os.Getenv("STILE_REPLAY_LOG")
	if name == "" {
		t.Skip("STILE_REPLAY_LOG is not set: nothing to write")
	}
	n, err := strconv.Atoi(os.Getenv("STILE_REPLAY_LINES"))
	if err != nil {
		t.Fatal(err)
	}
	writeMade(t, name, made{lines: n, addresses: 20000, seed: 1, timed: os.Getenv("STILE_REPLAY_TIMED") != ""})
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

// BenchmarkReplay is the whole of a run, in bytes of log.
func BenchmarkReplay(b *testing.B) {
	name := madeFile(b, made{lines: 600_000, addresses: 20000, seed: 1})
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
}

// BenchmarkLine is a line without the decision: finding its end, taking it apart, and
// reading its values.
func BenchmarkLine(b *testing.B) {
	name := madeFile(b, made{lines: 600_000, addresses: 20000, seed: 1})
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
	name := madeFile(b, made{lines: 600_000, addresses: 20000, seed: 1})
	st, err := os.Stat(name)
	if err != nil {
		b.Fatal(err)
	}
	f, err := newFeed([]string{name}, "combined", "stile", nil)
	if err != nil {
		b.Fatal(err)
	}
	var all []record
	for {
		var r record
		if f.next(&r) != nil {
			break
		}
		all = append(all, r)
	}
	e, err := decide.New(defaults(b, ""))
	if err != nil {
		b.Fatal(err)
	}
	find := newFinder(shape{}, e, defaults(b, ""))
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
