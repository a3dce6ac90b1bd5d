//go:build !race

package decide

import (
	"context"
	"net/netip"
	"testing"
	"time"

	"stile/crawler"
	"stile/geo"
)

// claims is Lookups of a real checker.
type claims struct{ *crawler.Checker }

func (c claims) Crawler(agent string, a netip.Addr, now int64) crawler.Claim {
	return c.Checker.Claim(agent, a, now)
}

func (claims) Place(netip.Addr) geo.Place { return geo.Place{ASN: 64496} }

// Whether the lists say it, or DNS is asked, or nobody is named.
func TestLookupsAllocateNothing(t *testing.T) {
	e := benchEngine(t, "[geo]\nfile = '/x'\n[[rule]]\nname = 'a'\ncrawler = ['verified', 'spoofed']\nasn = 64496\ncountry = 'DE'\ndo = 'allow'\n[[rule]]\nname = 'b'\nnot = { crawler = 'google', asn = 1 }\ndo = 'allow'\n")
	lists, err := crawler.Load("", 0, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	look := claims{crawler.NewChecker(lists, crawler.NewResolver("127.0.0.1:1"), nil)}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	look.Run(ctx)
	for addr, agent := range map[string]string{"66.249.64.1": googlebot, "192.0.2.1": googlebot, "192.0.2.2": firefox, "192.0.2.3": "GPTBot/1.1"} {
		r, err := NewRequest("GET", "/x", addr, map[string]string{"User-Agent": agent})
		if err != nil {
			t.Fatal(err)
		}
		r.Look = look
		if n := allocations(e, r); n != 0 {
			t.Errorf("%s from %s: %v allocations", agent, addr, n)
		}
	}
}

// allocations are those of a decision, each time of another request.
func allocations(e *Engine, r *Request) float64 {
	i := byte(0)
	return testing.AllocsPerRun(1000, func() {
		i++
		r.ID[0] = i
		e.Decide(r, start+int64(i))
	})
}

func TestDecideAllocatesNothing(t *testing.T) {
	for name, toml := range map[string]string{"hundred rules": hundredRules(), "preset:generic": "", "preset:forge": "include = [\"preset:forge\"]"} {
		e := benchEngine(t, toml)
		for _, target := range []string{"/packages/halogen", "/search?q=x", "/a%2Fb;c//d", "/x.css", "/o/r/src/branch/main/x.go", "/o/r.git/info/refs?service=git-upload-pack"} {
			for _, agent := range []string{firefox, googlebot} { // both go far above their limits
				r, err := NewRequest("GET", target, "192.0.2.1", map[string]string{"User-Agent": agent, "Accept": "text/html"})
				if err != nil {
					t.Fatal(err)
				}
				if n := allocations(e, r); n != 0 {
					t.Errorf("%s, %s by %.20s: %v allocations", name, target, agent, n)
				}
			}
		}
	}
}
