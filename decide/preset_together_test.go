package decide

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"stile/config"
)

// Presets in one file are tried in their order. So whatever stands behind it, the first one's own rules decide as
// they do alone; of the next ones an exemption of the first may take something, or what is dear in the first one a
// program, but nothing of any becomes free.
func TestPresetsTogether(t *testing.T) {
	load := func(names []string) *Policy {
		t.Helper()
		c, err := config.Parse("test.toml", fmt.Appendf(nil, "include = [\"preset:%s\"]\n", strings.Join(names, `", "preset:`)))
		if err != nil {
			t.Fatalf("%v: %v", names, err)
		}
		c.State.Keys = 1
		p, err := compile(c, nil, 0)
		if err != nil {
			t.Fatalf("%v: %v", names, err)
		}
		return p
	}
	examples := map[string][]config.Expect{}
	alone := map[string]*Policy{}
	var all []string
	for _, name := range config.Presets() {
		if name == "generic" { // each brings it along, and it comes last
			continue
		}
		c, err := config.Parse("test.toml", fmt.Appendf(nil, "include = [\"preset:%s\"]\n", name))
		if err != nil {
			t.Fatal(err)
		}
		examples[name], alone[name] = c.Expects, load([]string{name})
		all = append(all, name)
	}
	var orders [][]string
	for _, first := range all {
		for _, second := range all {
			if first != second {
				orders = append(orders, []string{first, second})
			}
		}
		orders = append(orders, append([]string{first}, slices.DeleteFunc(slices.Clone(all), func(n string) bool { return n == first })...))
	}
	tried := 0
	for _, order := range orders {
		p := load(order)
		for i, name := range order {
			for _, x := range examples[name] {
				r, err := NewRequest(x.Method, x.Target, x.Addr, x.Header)
				if err != nil {
					t.Fatal(err)
				}
				r.Agent, r.Crawler, r.Bot, r.Place = x.Agent, x.Crawler, x.Bot, x.Place
				tried++
				want, own := alone[name].Classify(r)
				got, rule := p.Classify(r)
				if i == 0 && strings.HasPrefix(own, name+"/") && (got != want || rule != own) {
					t.Errorf("%v: %s %s: %q by rule %q, alone %q by %q", order, x.Method, x.Target, got, rule, want, own)
				}
				if !strings.HasPrefix(got, "meter ") && got != want {
					t.Errorf("%v: %s %s: %q by rule %q, alone %q by %q", order, x.Method, x.Target, got, rule, want, own)
				}
			}
		}
	}
	if tried < 5000 {
		t.Errorf("only %d requests were tried", tried)
	}
}
