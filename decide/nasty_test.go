package decide

import (
	"encoding/binary"
	"strings"
	"testing"

	"stile/decide/path"
)

// nasty are targets of 8 KB, as long as nginx takes, that make the default preset work.
func nasty() map[string]string {
	fill := func(head, s, tail string) string {
		return head + strings.Repeat(s, (8000-len(head)-len(tail))/len(s)) + tail
	}
	return map[string]string{
		"plain":                 "/some/page",
		"long":                  fill("/", "a", ""),
		"query of sizes":        fill("/?s=1", "&s=1", ""),
		"query of escapes":      fill("/a;/b%2F/?", "%&", ""),
		"query of one number":   fill("/a;/b%2F/?s=1&w=", "1", ""),
		"query of a version":    fill("/a;/b%2F/x.css?v=", "1", ""),
		"query of versions":     fill("/a;/b%2F/x.css?v=1", "&v=1", ""),
		"segments":              fill("/", "a/", "\xc5\xbf/\xe2\x84\xaa?x=1"),
		"encoded slashes":       fill("/a;/", "b%2F", "search"),
		"parameters":            fill("/", "b;s/", ""),
		"double slashes":        fill("/", "/a", "/"),
		"scripts":               fill("/;\xc5\xbf/", ".php.ph", "x.css"),
		"folded search":         fill("/;\xc5\xbf/", "search/", "\xc5\xbfearch/"),
		"objects":               fill("/;/objects/", "ab/cd/objects/", "ab/ef"),
		"objects, long":         fill("/;/objects/ab/", "c", "/"),
		"packages":              fill("/;/dists/by-hash/", "/by-hash/dists/x", "/Packages.xz"),
		"repodata":              fill("/;/", "repodata/ab-", "c.xml"),
		"registry":              fill("/v2/;/", "manifests/blobs/tags/list/referrers/", "/x"),
		"git":                   fill("/;/", "info/lfs/objects/git-upload-pack/", "info/refs/x"),
		"asset of many folders": fill("/;/", "xlog/", "x.css"),
		"statuses":              fill("/users/;/", "1", "/statuses/x"),
	}
}

// BenchmarkNasty is what they cost beside a plain one, reading the target included:
// go test ./decide -run - -bench Nasty -benchtime 400x
func BenchmarkNasty(b *testing.B) {
	e := benchEngine(b, "")
	for name, target := range nasty() {
		b.Run(name, func(b *testing.B) {
			r, err := NewRequest("GET", target, "192.0.2.1", map[string]string{"User-Agent": firefox})
			if err != nil {
				b.Fatal(err)
			}
			var readings path.Readings
			for i := uint64(1); b.Loop(); i++ {
				if err := readings.Parse(target); err != nil {
					b.Fatal(err)
				}
				r.Path, r.Query, r.Alt = readings.Path, readings.Query, readings.Alt
				binary.LittleEndian.PutUint64(r.ID[:], i*0x9E3779B97F4A7C15)
				e.Decide(r, start+int64(i))
			}
			b.ReportMetric(float64(1+len(r.Alt)), "readings")
		})
	}
}

// Dots and slashes that only some backends see do not lead out of an exemption's folder
// either.
func TestWideDotsLeadNowhere(t *testing.T) {
	p := benchEngine(t, "include = [\"preset:forge\"]").Policy()
	for _, target := range []string{
		"/assets/%c0%ae%c0%ae/o/r/src/branch/main", "/assets/%e0%80%ae%e0%80%ae/o/r/src/branch/main", "/assets/%c0%ae%c0%ae%c0%afo/r/src/branch/main",
		"/assets/%ef%bc%8e%ef%bc%8e/o/r/src/branch/main", "/assets/..%ef%bc%8fo/r/src/branch/main", "/assets/\xC0\xAE\xC0\xAE/o/r/src/branch/main",
	} {
		r, err := NewRequest("GET", target, "", nil)
		if err != nil {
			t.Fatal(err)
		}
		if got, rule := p.Classify(r); got != "meter expensive expensive-hour expensive-day" {
			t.Errorf("%s: %s by %s", target, got, rule)
		}
	}
}

// A reading under a stricter rule without a gate does not lead past the gate of another.
func TestAnotherReadingLeadsPastNoGate(t *testing.T) {
	e := benchEngine(t, `include = []
[[meter]]
name = "m"
window = "1m"
stranger = 10
pass = 10
[[gate]]
name = "dear"
budget = 8
[[rule]]
name = "git"
path = "/git/**"
do = "meter"
meter = ["m"]
proof = "never"
gate = "dear"
[[rule]]
name = "pages"
path = "/**"
do = "meter"
meter = ["m"]
`)
	for target, want := range map[string]string{"/git/x": "git", "/git%2Fx": "pages", "/x": "pages"} {
		r, err := NewRequest("GET", target, "192.0.2.1", nil)
		if err != nil {
			t.Fatal(err)
		}
		v := e.Decide(r, start)
		if got := e.Policy().RuleName(v); got != want {
			t.Errorf("%s falls under %s, want %s", target, got, want)
		}
		c, ok := e.Policy().Claim(r, v)
		if target == "/x" {
			if ok {
				t.Errorf("%s owes %s", target, c.Gate)
			}
		} else if !ok || c.Gate != "dear" || c.Rule != "git" {
			t.Errorf("%s owes %q of %q, %v; want dear of git", target, c.Gate, c.Rule, ok)
		}
	}
}
