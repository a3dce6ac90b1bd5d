package decide

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"stile/config"
	"stile/decide/path"
	"stile/network"
)

// hundredRules is a policy whose last rule is the one, and whose table has room for a
// million keys.
func hundredRules() string {
	var b strings.Builder
	b.WriteString("include = []\n[state]\nkeys = 1000000\n[[meter]]\nname = \"m\"\nwindow = \"1h\"\nstranger = 10000000\npass = 10000000\n")
	for i := range 99 {
		switch i % 4 {
		case 0:
			fmt.Fprintf(&b, "[[rule]]\nname = \"r%d\"\npath = \"/section%d/**\"\ndo = \"deny\"\n", i, i)
		case 1:
			fmt.Fprintf(&b, "[[rule]]\nname = \"r%d\"\npath = \"/**.ext%d\"\ndo = \"allow\"\n", i, i)
		case 2:
			fmt.Fprintf(&b, "[[rule]]\nname = \"r%d\"\npath = \"~^/re%d/[0-9a-f]+$\"\ndo = \"deny\"\n", i, i)
		case 3:
			fmt.Fprintf(&b, "[[rule]]\nname = \"r%d\"\nnetwork = \"10.%d.0.0/16\"\nmethod = [\"POST\"]\ndo = \"deny\"\n", i, i)
		}
	}
	b.WriteString("[[rule]]\nname = \"last\"\npath = \"/**\"\ndo = \"meter\"\nmeter = [\"m\"]\n")
	return b.String()
}

func benchEngine(b testing.TB, toml string) *Engine {
	cfg, err := config.Parse("bench.toml", []byte(toml))
	if err != nil {
		b.Fatal(err)
	}
	e, err := New(cfg)
	if err != nil {
		b.Fatal(err)
	}
	return e
}

// BenchmarkDecide is one decision with a million keys in the table, under a hundred rules
// and under preset:forge, whose pages are what its rules are about (src), what none of them
// but the last is about (issue), and what programs ask for (git). It starts from the raw
// target; the pass is verified in server's BenchmarkFacts.
func BenchmarkDecide(b *testing.B) {
	forge := "include = [\"preset:forge\"]\n[state]\nkeys = 1000000\n"
	for _, m := range []string{"expensive", "expensive-day", "pages", "pages-hour", "git"} {
		forge += fmt.Sprintf("[[meter]]\nname = %q\nwindow = \"1h\"\nstranger = 10000000\npass = 10000000\n", m)
	}
	b.Run("hundred", func(b *testing.B) { benchDecide(b, hundredRules(), "/packages/halogen/1.2.3?x=1") })
	b.Run("forge/src", func(b *testing.B) { benchDecide(b, forge, "/halogen/packages/src/branch/main/read.go") })
	b.Run("forge/issue", func(b *testing.B) { benchDecide(b, forge, "/halogen/packages/issues/1234") })
	b.Run("forge/git", func(b *testing.B) { benchDecide(b, forge, "/halogen/packages/info/refs?service=git-upload-pack") })
}

func benchDecide(b *testing.B, rules, target string) {
	e := benchEngine(b, rules)
	r, _ := NewRequest("GET", target, "192.0.2.1", map[string]string{"User-Agent": firefox})
	r.Caller = Caller{Kind: Holder, Level: 2}
	rng := rand.New(rand.NewPCG(1, 2))
	for range 1_000_000 { // fill the table
		r.Caller.Key = rng.Uint64()
		e.Decide(r, start)
	}
	keys := make([]uint64, 1<<16)
	for i := range keys {
		keys[i] = rng.Uint64()
	}
	var readings path.Readings
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if err := readings.Parse(target); err != nil {
			b.Fatal(err)
		}
		r.Path, r.Query, r.Alt = readings.Path, readings.Query, readings.Alt
		r.Caller.Key = keys[i&(1<<16-1)]
		binary.LittleEndian.PutUint64(r.ID[:], r.Caller.Key+uint64(i))
		if v := e.Decide(r, start+int64(i)); v.Action != Allow {
			b.Fatal(v)
		}
	}
}

// BenchmarkDecideStranger is the same under the default preset, for strangers.
func BenchmarkDecideStranger(b *testing.B) {
	e := benchEngine(b, "")
	r, _ := NewRequest("GET", "/some/page", "192.0.2.1", map[string]string{"User-Agent": firefox, "Accept": "text/html"})
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		r.From = network.Network(0xFF00<<48 | uint64(i)*0x9E3779B1&0xFFFFFFFF)
		binary.LittleEndian.PutUint64(r.ID[:], uint64(i)*0x9E3779B97F4A7C15)
		e.Decide(r, start+int64(i))
	}
}

// BenchmarkDecideHostile is what the dearest targets cost that nginx lets through, under the
// default preset: the work must be bounded, for it is done before anybody is counted.
func BenchmarkDecideHostile(b *testing.B) {
	e := benchEngine(b, "")
	for name, target := range map[string]string{
		"query":    "/x?" + strings.Repeat("s=1&", 2000),
		"readings": `//a%25/..;x/%2F\/.?` + strings.Repeat("s=1&", 2000),
		"path":     `/%2F;x//` + strings.Repeat(`a/../b;c/%2F\`, 600),
		"assets":   "/" + strings.Repeat("a:/", 2600) + "x.css",
		"plain":    "/some/page",
	} {
		b.Run(name, func(b *testing.B) {
			var readings path.Readings
			r, err := NewRequest("GET", target, "192.0.2.1", map[string]string{"User-Agent": strings.Repeat("a", 8000)})
			if err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				if err := readings.Parse(target); err != nil {
					b.Fatal(err)
				}
				r.Path, r.Query, r.Alt = readings.Path, readings.Query, readings.Alt
				e.Decide(r, start)
			}
		})
	}
}
