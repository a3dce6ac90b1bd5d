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
