package decide

import (
	"fmt"
	"math/bits"
	"strings"
	"testing"

	"stile/config"
	"stile/crawler"
)

// findPlainly is find by asking every rule about every reading.
func (p *Policy) findPlainly(r *Request) found {
	out := found{rule: -1, gated: -1, observed: -1, waits: -1}
	for k, reading := range append([]string{r.Path}, r.Alt...) {
		var t target
		t.read(&Request{Path: reading}, p.words)
		points := 0
		for i := range p.rules {
			ru := &p.rules[i]
			if ru.match.miss(r, reading, &t.words[0]) != "" {
				continue
			}
			switch {
			case ru.do == config.Suspect && !ru.observe:
				points += ru.points
				continue
			case ru.observe && ru.do != config.Suspect && (out.observed < 0 || i < out.observed):
				out.observed = i
			}
			if ru.observe {
				continue
			}
			first := func(than int) bool {
				return than < 0 || ru.strict > p.rules[than].strict || ru.strict == p.rules[than].strict && i < than
			}
			if first(out.rule) {
				out.rule = i
			}
			if ru.gate != 0 && first(out.gated) {
				out.gated = i
			}
			break
		}
		if k == 0 || points > out.points {
			out.points = points
		}
	}
	return out
}

// The index leaves rules out, and must not leave out one that matches. So every example of
// every preset, with headers and without, by several methods, is judged under all of them.
func TestIndexLeavesNothingOut(t *testing.T) {
	for _, name := range config.Presets() {
		cfg := defaultsFor(t, name)
		e, err := New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		tried, kept := 0, 0
		for _, other := range config.Presets() {
			for _, x := range defaultsFor(t, other).Expects {
				for _, target := range dressed(x.Target) {
					for _, method := range []string{x.Method, "GET", "HEAD", "POST", "PUT"} {
						for _, header := range []map[string]string{nil, x.Header, junk} {
							r, err := NewRequest(method, target, "192.0.2.1", header)
							if err != nil {
								continue
							}
							r.Crawler = crawler.Claim{State: crawler.Unknown}
							tried++
							got := e.Policy().find(r)
							if got.rule >= 0 {
								kept++
							}
							if want := e.Policy().findPlainly(r); got.rule != want.rule || got.gated != want.gated || got.points != want.points {
								t.Errorf("%s: %s %s %v: %v, without the index %v", name, method, target, header, got, want)
							}
						}
					}
				}
			}
		}
		if tried < 5000 || kept < tried/2 {
			t.Errorf("%s: only %d of %d requests fall under a rule", name, kept, tried)
		}
	}
}

func defaultsFor(t testing.TB, preset string) *config.Config {
	c, err := config.Parse("test.toml", []byte(fmt.Sprintf("include = [%q]\n[state]\nkeys = 1024", "preset:"+preset)))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// dressed is a target in other spellings.
func dressed(target string) []string {
	path, query, asked := strings.Cut(target, "?")
	out := []string{target, path, path + "?x=1", strings.ToUpper(path), "/a/.." + target, "/" + target, path + "/", "/deep/er" + target, path + "%2F..%2Fx", path + ";x=1", path + "/\u017f\u212a"}
	if asked {
		out = append(out, path+"/?"+query)
	}
	return out
}

// Under more rules than one word holds, and with words in common, the first still counts.
func TestIndexOfManyRules(t *testing.T) {
	var b strings.Builder
	b.WriteString("include = []\n")
	for i := range 300 {
		fmt.Fprintf(&b, "[[rule]]\nname = \"r%d\"\npath = [\"/s%d/**\", \"/**.e%d\", \"~^/x(?:a|b)%d/\", \"/@%d*\"]\nmethod = %q\ndo = \"deny\"\n", i, i%150, i%70, i%130, i%200, []string{"GET", "POST", "PURGE"}[i%3])
	}
	p := benchEngine(t, b.String()).Policy()
	for i := range 300 {
		for _, path := range []string{"/s%d/x", "/y.e%d", "/xa%d/z", "/@%dx", "/none/%d", strings.Repeat("/s1/@1", 20) + "/%d"} {
			for _, method := range []string{"GET", "HEAD", "POST", "PURGE"} {
				r, err := NewRequest(method, fmt.Sprintf(path, i), "192.0.2.1", nil)
				if err != nil {
					t.Fatal(err)
				}
				if got, want := p.find(r), p.findPlainly(r); got != want {
					t.Fatalf("%s %s: %v, without the index %v", method, r.Path, got, want)
				}
			}
		}
	}
}

// Most rules are not asked at all.
func TestIndexLeavesFew(t *testing.T) {
	p := benchEngine(t, "include = [\"preset:forge\"]\n[state]\nkeys = 1024").Policy()
	for _, path := range []string{"/o/r", "/o/r/issues/1234", "/o/r/src/branch/main/x.go", "/o/r/info/refs?service=git-upload-pack", "/"} {
		r, err := NewRequest("GET", path, "192.0.2.1", map[string]string{"User-Agent": firefox})
		if err != nil {
			t.Fatal(err)
		}
		var at target
		at.read(r, p.words)
		asked := 0
		for i := range p.index {
			asked += bits.OnesCount64(p.index[i].about(&at.words[0]) & p.index[i].sift(r, classGet))
		}
		if asked > p.Len()/5 {
			t.Errorf("%s: %d of %d rules are asked", path, asked, p.Len())
		}
	}
}
