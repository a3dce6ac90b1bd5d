package decide

import (
	"testing"

	"stile/config"
)

// A repository's browser answers behind its own words whatever is asked of it: cgit walks
// the whole history for the log of a file that never was. So nobody who puts a program's
// address behind such a word is without a limit for all of his kind, where nothing is known
// of the site: thousands of addresses have none of their own that would help.
func TestGenericBoundsRepositoryBrowsers(t *testing.T) {
	c := defaultsFor(t, "generic")
	e, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	p := e.Policy()
	tried, told := 0, map[string]bool{}
	for i := range c.Expects {
		x := &c.Expects[i]
		exempt, err := NewRequest(x.Method, x.Target, "192.0.2.1", x.Header)
		if err != nil || !p.unbounded(p.find(exempt)) {
			continue
		}
		for _, page := range []string{"/r.git/log", "/r/blame", "/pub/r/commit", "/r/diff", "/r/patch", "/r/stats", "/r/tree", "/r/plain", "/r/blob", "/o/r/commits/branch/main", "/o/r/src/tag/v1", "/o/r/media/commit/abc", "/g/p/-/commits/main"} {
			r, err := NewRequest(x.Method, page+x.Target, "192.0.2.1", x.Header)
			if err != nil {
				continue
			}
			tried++
			if f := p.find(r); p.unbounded(f) && !told[p.rules[f.rule].name] {
				told[p.rules[f.rule].name] = true
				t.Errorf("%s %s: rule %q, without a limit for all", x.Method, r.Path, p.rules[f.rule].name)
			}
		}
	}
	if tried < 500 {
		t.Errorf("only %d requests tried", tried)
	}
}

// unbounded tells whether strangers are never asked, and all of them together are without a
// limit.
func (p *Policy) unbounded(f found) bool {
	if f.rule < 0 || f.gated >= 0 {
		return false
	}
	ru := &p.rules[f.rule]
	for _, m := range ru.meters {
		if p.meters[m].strangers > 0 {
			return false
		}
	}
	return ru.never || ru.do == config.Allow
}
