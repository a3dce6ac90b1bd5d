//go:build !race

package decide

import "testing"

func TestDecideAllocatesNothing(t *testing.T) {
	for name, toml := range map[string]string{"hundred rules": hundredRules(), "preset:generic": ""} {
		e := benchEngine(t, toml)
		for _, target := range []string{"/packages/halogen", "/search?q=x", "/a%2Fb;c//d", "/x.css"} {
			r, err := NewRequest("GET", target, "192.0.2.1", map[string]string{"User-Agent": firefox, "Accept": "text/html"})
			if err != nil {
				t.Fatal(err)
			}
			i := byte(0)
			if n := testing.AllocsPerRun(1000, func() {
				i++
				r.ID[0] = i
				e.Decide(r, start+int64(i))
			}); n != 0 {
				t.Errorf("%s, %s: %v allocations", name, target, n)
			}
		}
	}
}
