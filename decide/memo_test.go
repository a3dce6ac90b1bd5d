package decide

import (
	"fmt"
	"testing"

	"stile/config"
)

// TestMemo: what is remembered of one request is never taken for another's: each thing that
// a rule can look at is varied alone.
func TestMemo(t *testing.T) {
	cfg, err := config.Parse("memo.toml", []byte(`
include = []
[[rule]]
name = "agent"
path = "/agent"
agent = "*bad*"
do = "deny"
[[rule]]
name = "host"
path = "/host"
host = "bad.example.org"
do = "deny"
[[rule]]
name = "network"
path = "/network"
network = "198.51.100.0/24"
do = "deny"
[[rule]]
name = "header"
path = "/header"
header = { Accept = "bad" }
do = "deny"
[[rule]]
name = "query"
path = "/query"
query = "bad"
do = "deny"
[[rule]]
name = "method"
path = "/method"
method = "POST"
do = "deny"
[[rule]]
name = "not"
path = "/not"
not = { header = { Origin = "good" } }
do = "deny"
[[rule]]
name = "path"
path = "/bad/**"
do = "deny"
`))
	if err != nil {
		t.Fatal(err)
	}
	e, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	m := e.NewMemo(cfg, 1<<10)
	for round := range 3 {
		for _, target := range []string{"/agent", "/host", "/network", "/header", "/query", "/query?bad", "/query?good", "/method", "/not", "/bad/x", "/good/..%2Fbad/x", "/good/x"} {
			for i, header := range []map[string]string{{}, {"User-Agent": "is bad"}, {"Host": "bad.example.org"}, {"Accept": "bad"}, {"Origin": "good"}, {"Accept": "good"}} {
				for _, addr := range []string{"192.0.2.1", "198.51.100.7", "2001:db8::1"} {
					for _, method := range []string{"GET", "POST"} {
						r, err := NewRequest(method, target, addr, header)
						if err != nil {
							t.Fatal(err)
						}
						want := e.Decide(r, start)
						if got := e.DecideFound(r, m.Find(r), start); got != want {
							t.Errorf("round %d: %s %s, header %d, %s: %+v, want %+v", round, method, target, i, addr, got, want)
						}
					}
				}
			}
		}
	}
	if n := fmt.Sprint(len(m.headers), m.agent, m.host, m.address); n != "2 true true true" {
		t.Error(n)
	}
}
