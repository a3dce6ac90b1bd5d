package config

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestAmounts(t *testing.T) {
	good := func(u Unit, s string, want int64) {
		t.Helper()
		n, err := u.Parse(s)
		if err != nil || n != want {
			t.Errorf("%q: %d %v, want %d", s, n, err, want)
		}
	}
	good(Bytes, "16MiB", 16<<20)
	good(Bytes, "16MB", 16_000_000)
	good(Bytes, "1B", 1)
	good(Bytes, "0B", 0)
	good(Bytes, "3KB", 3000)
	good(Bytes, "3KiB", 3072)
	good(Bytes, "2GB", 2_000_000_000)
	good(Bytes, "2GiB", 2<<30)
	good(Bytes, "1TB", 1_000_000_000_000)
	good(Bytes, "1024TiB", 1<<50)
	good(Bytes, "1.5GiB", 3<<29)
	good(Bytes, "1.001KB", 1001)
	good(Bytes, "0.1KiB", 102)
	good(Bytes, strings.Repeat("9", 400)+"TiB", 1<<62)
	good(Micros, "8s", 8_000_000)
	good(Micros, "500ms", 500_000)
	good(Micros, "1m30s", 90_000_000)
	good(Micros, "1.234ms", 1234)
	good(Micros, "13031d", 13031*24*3600*1_000_000)
	good(Requests, "1", 1)
	good(Requests, "0", 0)
	good(Requests, strings.Repeat("9", 400), 1<<62)

	bad := func(u Unit, s, want string) {
		t.Helper()
		if n, err := u.Parse(s); err == nil || err.Error() != want {
			t.Errorf("%q: %d %v, want %s", s, n, err, want)
		}
	}
	bad(Bytes, "16M", `did you mean "16MiB"?`)
	bad(Bytes, "16mib", `did you mean "16MiB"?`)
	bad(Bytes, "16mb", `did you mean "16MB"?`)
	bad(Bytes, "16Mi", `did you mean "16MiB"?`)
	bad(Bytes, "16k", `did you mean "16KiB"?`)
	bad(Bytes, "16kB", `did you mean "16KB"?`)
	bad(Bytes, "16 MiB", `did you mean "16MiB"?`)
	bad(Bytes, "16 bytes", `did you mean "16B"?`)
	bad(Bytes, "8s", `the budget is in bytes: want a size such as "1MiB"`)
	for _, s := range []string{"", "16", "MiB", "-1MiB", "+1MiB", "1,5MiB", "1.MiB", ".5MiB", "1e3B", "1_000B", "16MiB/s", "0x10B", "1MiB2KiB", "nanB", "٣MiB"} {
		bad(Bytes, s, `want a number and a unit (B, KB, MB, GB, TB, KiB, MiB, GiB, TiB), such as "1MiB"`)
	}
	bad(Micros, "8S", `did you mean "8s"?`)
	bad(Micros, "8 s", `did you mean "8s"?`)
	bad(Micros, "8sec", `did you mean "8s"?`)
	bad(Micros, "8 minutes", `did you mean "8m"?`)
	bad(Micros, "8MiB", `the budget is a time: want a duration such as "500ms"`)
	for _, s := range []string{"", "8", "-8s", "8us", "1e3s"} {
		bad(Micros, s, `want a number and a unit (ms, s, m, h, d), such as "500ms"`)
	}
	for _, s := range []string{"", "-1", "1.5", "8s", "1MiB", "one"} {
		bad(Requests, s, "the budget counts requests: want a whole number, such as 1")
	}
}

// What Format writes, Parse reads, and it is short.
func TestAmountFormat(t *testing.T) {
	f := func(u Unit, n int64, want string) {
		t.Helper()
		if got := u.Format(n); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
		if got, err := u.Parse(want); err != nil || got != n {
			t.Errorf("%q: %d %v, want %d", want, got, err, n)
		}
	}
	f(Bytes, 0, "0B")
	f(Bytes, 1, "1B")
	f(Bytes, 1<<50, "1024TiB")
	f(Bytes, 3<<29, "1536MiB")
	f(Bytes, 1500, "1500B")
	f(Bytes, 15_000_000, "15MB")
	f(Micros, 0, "0s")
	f(Micros, 1, "0.001ms")
	f(Micros, 1234, "1.234ms")
	f(Micros, 500_000, "500ms")
	f(Micros, 8_000_000, "8s")
	f(Requests, 8, "8")
	for _, u := range []Unit{Bytes, Micros, Requests} {
		for n := int64(1); n <= 1<<50; n = n*3 + 1 {
			if got, err := u.Parse(u.Format(n)); err != nil || got != n {
				t.Errorf("%q: %d %v, want %d", u.Format(n), got, err, n)
			}
		}
	}
}

// Every value of a gate, once, and the defaults of each unit.
func TestGates(t *testing.T) {
	c, err := Parse("stile.toml", []byte(`include = []
[listen]
lease = "unix:/run/web/lease.sock"
[[gate]]
name = "all"
budget = "16MiB"
free_below = "1MiB"
queue = 0
per_caller = 0
wait = "25s"
lease = "1h"
cost = "file:/srv/{2}/{16}-{2}.json"
unseen = "3MiB"
scale = 2.5
[[gate]]
name = "bytes"
budget = "16MB"
[[gate]]
name = "time"
budget = "8s"
[[gate]]
name = "requests"
budget = 1
[[gate]]
name = "fixed"
budget = "8s"
cost = "8s"
free_below = "8s"
queue = 65536
per_caller = 65536
wait = "100ms"
lease = "1s"
[[gate]]
name = "three"
budget = 9
cost = 3
[[gate]]
name = "header"
budget = "1024TiB"
cost = "header"
unseen = "1024TiB"
scale = 1000000
[[rule]]
name = "a"
path = "/a"
do = "allow"
gate = "header"
[[rule]]
name = "b"
path = "/b"
do = "challenge"
gate = "all"
[[rule]]
name = "c"
path = "/c"
do = "deny"
`))
	if err != nil {
		t.Fatal(err)
	}
	const def, minute = 20 * time.Second, time.Minute
	want := defaults()
	want.Files = []string{"stile.toml"}
	want.Listen.Lease = "unix:/run/web/lease.sock"
	want.Gates = []Gate{
		{"all", Bytes, 16 << 20, 1 << 20, 0, 0, 25 * time.Second, time.Hour, CostFile, 0, "/srv/{2}/{16}-{2}.json", 3 << 20, 2.5, Pos{"stile.toml", 4}},
		{"bytes", Bytes, 16e6, 0, 32, 4, def, minute, CostLearned, 0, "", 8e6, 1, Pos{"stile.toml", 15}},
		{"time", Micros, 8e6, 0, 32, 4, def, minute, CostLearned, 0, "", 4e6, 1, Pos{"stile.toml", 18}},
		{"requests", Requests, 1, 0, 32, 4, def, minute, CostFixed, 1, "", 1, 1, Pos{"stile.toml", 21}},
		{"fixed", Micros, 8e6, 8e6, 65536, 65536, 100 * time.Millisecond, time.Second, CostFixed, 8e6, "", 4e6, 1, Pos{"stile.toml", 24}},
		{"three", Requests, 9, 0, 32, 4, def, minute, CostFixed, 3, "", 4, 1, Pos{"stile.toml", 33}},
		{"header", Bytes, 1 << 50, 0, 32, 4, def, minute, CostHeader, 0, "", 1 << 50, 1e6, Pos{"stile.toml", 37}},
	}
	want.Rules = []Rule{
		{Name: "a", Do: Allow, Gate: 7, Level: 1, Match: Match{Path: []string{"/a"}}, Pos: Pos{"stile.toml", 43}},
		{Name: "b", Do: Challenge, Gate: 1, Level: 1, Match: Match{Path: []string{"/b"}}, Pos: Pos{"stile.toml", 48}},
		{Name: "c", Do: Deny, Level: 1, Match: Match{Path: []string{"/c"}}, Pos: Pos{"stile.toml", 53}},
	}
	if diff := difference(c, want); diff != "" {
		t.Error(diff)
	}
}

func TestGateReplacesPresets(t *testing.T) {
	const mine = "[[gate]]\nname = \"expensive\"\nbudget = \"16MiB\"\n"
	dir(t, map[string]string{"included.toml": mine})
	for _, text := range []string{mine, "include = ['included.toml', 'preset:generic']", "include = ['preset:generic', 'included.toml']"} {
		c, err := Parse("stile.toml", []byte(text))
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if len(c.Gates) != 2 || c.Gates[0].Unit != Bytes || strings.HasPrefix(c.Gates[0].Pos.File, "preset:") {
			t.Errorf("%s: %+v", text, c.Gates)
		}
		gated := 0
		for _, r := range c.Rules {
			if r.Gate == 1 {
				gated++
			}
		}
		if gated != 6 {
			t.Errorf("%s: %d of the preset's rules have gate 1, want 6", text, gated)
		}
	}
}

// The operator's gate stays though no rule names it, for it may be for holds.
func TestUnusedGates(t *testing.T) {
	c, err := Parse("stile.toml", []byte("[[gate]]\nname = \"batch\"\nbudget = 2\n"))
	if err != nil || len(c.Gates) != 3 || c.Gates[0].Name != "batch" || c.Gates[1].Name != "expensive" || c.Gates[2].Name != "git" {
		t.Fatalf("%+v %v", c, err)
	}
	for _, r := range c.Rules {
		if r.Gate == 1 {
			t.Errorf("rule %q has gate %d", r.Name, r.Gate)
		}
	}
	// A preset's that no rule names is not there: the definition alone, read as a preset's.
	in := &reading{config: defaults(), main: "stile.toml", reported: map[Mistake]bool{}}
	in.read("preset:test", "[[gate]]\nname = \"a\"\nbudget = 1\n[[gate]]\nname = \"b\"\nbudget = 2\n[[rule]]\nname = \"r\"\ndo = \"allow\"\ngate = \"b\"\n")
	in.resolve()
	if len(in.mistakes) != 0 || len(in.config.Gates) != 1 || in.config.Gates[0].Name != "b" || in.config.Rules[0].Gate != 1 {
		t.Errorf("%v %+v %+v", join(in.mistakes, in.seen), in.config.Gates, in.config.Rules)
	}
}

func TestGateCount(t *testing.T) {
	text := func(n int) []byte {
		var b strings.Builder
		b.WriteString("include = []\n")
		for i := range n {
			fmt.Fprintf(&b, "[[gate]]\nname = \"g%d\"\nbudget = 1\n", i)
		}
		return []byte(b.String())
	}
	if c, err := Parse("stile.toml", text(maxGates)); err != nil || len(c.Gates) != maxGates {
		t.Error(err)
	}
	_, err := Parse("stile.toml", text(maxGates+1))
	if want := `stile.toml:194: gate "g64": it is number 65: want at most 64`; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

// The path of a cost's file.
func TestCostFile(t *testing.T) {
	f := func(file string, good bool) {
		t.Helper()
		_, err := Parse("x", []byte(fmt.Sprintf("[[gate]]\nname = \"g\"\nbudget = \"1MiB\"\ncost = %q\n", "file:"+file)))
		if good != (err == nil) {
			t.Errorf("%q: %v", file, err)
		}
	}
	f("/{1}", true)
	f("/srv/{1}/{1}", true)
	f("/srv/a b{1}.tar.gz", true)
	f("/srv/..{1}", true)
	f("/"+strings.Repeat("x", maxCostFile-4)+"{1}", true)
	f("/"+strings.Repeat("x", maxCostFile-3)+"{1}", false)
	f("", false)
	f("/", false)
	f("{1}", false)
	f("srv/{1}", false)
	f("//{1}", false)
	f("/srv/../{1}", false)
	f("/srv/{1}/..", false)
	f("/srv/./{1}", false)
	f("/srv/{1}/", false)
	f("/srv", false)
	f("/srv/{0}", false)
	f("/srv/{01}", false)
	f("/srv/{17}", false)
	f("/srv/{999999999999}", false)
	f("/srv/{}", false)
	f("/srv/{a}/{1}", false)
	f("/srv/{{1}}", false)
	f("/srv/{1", false)
	f("/srv/1}/{1}", false)
	f("/srv/\t/{1}", false)
}

func TestWantsPass(t *testing.T) {
	f := func(budget, cost int64, want bool) {
		t.Helper()
		if g := (Gate{Budget: budget}); g.WantsPass(cost) != want {
			t.Errorf("%d of %d: %v, want %v", cost, budget, !want, want)
		}
	}
	f(16, 8, false)
	f(16, 9, true)
	f(16, 25, true)
	f(3, 2, true)
	f(1, 1, false)
	f(2, 1, false)
}
