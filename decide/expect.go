package decide

import (
	"fmt"
	"slices"
	"strings"

	"stile/config"
)

// Expectations asks the rules of a configuration each of its [[expect]]s, and returns an
// error with its line for each that does not hold.
func Expectations(cfg *config.Config) (failed []error) {
	small := *cfg
	small.State.Keys = 1 // nothing is counted
	p, err := compile(&small, nil, 0)
	if err != nil {
		return []error{err}
	}
	for _, x := range Expects(cfg) {
		if err := p.expect(x); err != nil {
			failed = append(failed, fmt.Errorf("%s:%d: expect %q: %w", x.Pos.File, x.Pos.Line, x.Method+" "+x.Target, err))
		}
	}
	return failed
}

// Expects are the [[expect]]s that must hold. A preset's are about the preset alone: who
// has a rule or a meter of his own may well want something else of the same request.
func Expects(cfg *config.Config) (xs []*config.Expect) {
	preset := func(p config.Pos) bool { return strings.HasPrefix(p.File, "preset:") }
	own := slices.ContainsFunc(cfg.Rules, func(r config.Rule) bool { return !preset(r.Pos) }) ||
		slices.ContainsFunc(cfg.Meters, func(m config.Meter) bool { return !preset(m.Pos) })
	for i := range cfg.Expects {
		if x := &cfg.Expects[i]; !own || !preset(x.Pos) {
			xs = append(xs, x)
		}
	}
	return xs
}

func (p *Policy) expect(x *config.Expect) error {
	header := map[string]string{"User-Agent": x.Agent}
	for k, v := range x.Header {
		header[k] = v
	}
	r, err := NewRequest(x.Method, x.Target, x.Addr, header)
	if err != nil {
		return err
	}
	r.Crawler, r.Bot, r.Place = x.Crawler, x.Bot, x.Place
	got, rule := p.Classify(r)
	if Satisfies(got, x.Verdict) {
		return nil
	}
	if rule == "" {
		return fmt.Errorf("want %q, got %q: no rule matches", x.Verdict, got)
	}
	return fmt.Errorf("want %q, got %q by rule %q: 'stile explain' shows why", x.Verdict, got, rule)
}
