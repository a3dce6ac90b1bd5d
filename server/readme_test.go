package server

import (
	"bytes"
	"os"
	"regexp"
	"strings"
	"testing"
)

// The README names every metric that there is, with what to do about it, and no other.
func TestReadmeNamesEveryMetric(t *testing.T) {
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, strings.Replace(gateTOML, "[[rule]]", "[[rule]]\nname = 'bots'\ncrawler = 'robot'\ndo = 'allow'\n[[rule]]", 1)+`
[[gate]]
name = "bytes"
budget = "1MiB"
[[gate]]
name = "time"
budget = "8s"
[[gate]]
name = "requests"
budget = 8
[[bot]]
name = "robot"
directory = "http://127.0.0.1:1"
`)
	for range 3 {
		w.check("GET /", "192.0.2.1")
	}
	var page bytes.Buffer
	w.s.stats.write(&page, w.s.engine.Policy(), w.s.ledger, &w.s.gates, &w.s.holds, w.now.UnixNano())
	there := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^(stile_[a-z_]+)`).FindAllStringSubmatch(page.String(), -1) {
		name := m[1]
		for _, suffix := range []string{"_bucket", "_sum", "_count"} { // of histograms
			name = strings.TrimSuffix(name, suffix)
		}
		there[name] = true
		if !strings.Contains(string(readme), "`"+name) {
			t.Errorf("README.md does not name %s", name)
		}
	}
	for _, m := range regexp.MustCompile("`(stile_[a-z_]+)").FindAllStringSubmatch(string(readme), -1) {
		if !there[m[1]] && m[1] != "stile_rule_observed_total" {
			t.Errorf("README.md names %s, which is not there", m[1])
		}
	}
}

// Two scrapes after requests with a thousand paths and agents have the same series.
func TestSeriesAreAClosedSet(t *testing.T) {
	w := newWorld(t, "")
	series := func() int {
		var page bytes.Buffer
		w.s.stats.write(&page, w.s.engine.Policy(), w.s.ledger, &w.s.gates, &w.s.holds, w.now.UnixNano())
		n := 0
		for _, line := range strings.Split(page.String(), "\n") {
			// Empty buckets of a histogram are not written, and the process's own vary.
			if strings.HasPrefix(line, "stile_") && !strings.Contains(line, "_bucket") {
				n++
			}
		}
		return n
	}
	w.check("GET /", "192.0.2.1")
	before := series()
	for i := range 1000 {
		w.check("GET /"+strings.Repeat("x", i)+"?q="+strings.Repeat("y", i), "198.51.100.1", "User-Agent: "+strings.Repeat("z", i))
	}
	if after := series(); after != before {
		t.Errorf("%d series before, %d after", before, after)
	}
}
