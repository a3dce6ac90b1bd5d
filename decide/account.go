package decide

import "stile/network"

// Rule is the place in the configuration's Rules of the rule that a verdict of this policy
// names. ok is false if it names none.
func (p *Policy) Rule(v Verdict) (i int, ok bool) {
	if v.rule <= 0 || v.policy != p.gen || int(v.rule) > len(p.rules) {
		return 0, false
	}
	return int(v.rule) - 1, true
}

// Meter is the place in the configuration's Meters of the meter whose limit is the reason
// of a verdict of this policy. ok is false if no meter is.
func (p *Policy) Meter(v Verdict) (i int, ok bool) {
	if v.meter <= 0 || v.policy != p.gen || int(v.meter) > len(p.meters) {
		return 0, false
	}
	return int(v.meter) - 1, true
}

// WideFactor is how many times a stranger's limit the i-th of n.Wider() may use.
func WideFactor(n network.Network, i int) uint32 { return factor(n, i) }

// Segment is the n-th segment of a path, counted from 1; "" when there is none.
func Segment(path string, n int) string { return segment(path, n) }
