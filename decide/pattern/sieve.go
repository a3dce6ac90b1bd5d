package pattern

// Sieve says of many patterns at once that none of them can match a path, by its second byte
// (the first is a slash), its last, and the starts of its segments: one cache line and a
// word for a whole rule. In a policy of a hundred rules it settles nearly all of them (see
// decide's BenchmarkDecide).
type Sieve struct {
	second, last [4]uint64
	starts       Starts
}

// May tells whether a path gets through: false means that no pattern of the sieve
// matches it. starts are the path's.
func (v *Sieve) May(path string, starts Starts) bool {
	if v.starts&starts == 0 {
		return false
	}
	second, last := byte(0), byte(0)
	if n := len(path); n > 1 {
		second, last = path[1], path[n-1]
	} else if n == 1 {
		last = path[0]
	}
	return v.second[second>>6]&(1<<(second&63)) != 0 && v.last[last>>6]&(1<<(last&63)) != 0
}

// All lets everything through.
func (v *Sieve) All() {
	v.add(&v.second, 0, false)
	v.add(&v.last, 0, false)
	v.starts = ^Starts(0)
}

// Add lets through what a pattern may match.
func (v *Sieve) Add(p *Path) {
	if all := p.demand.all; all != 0 {
		v.starts |= all & -all // one of them will do
	} else {
		v.starts |= p.demand.any
	}
	if p.re != nil {
		v.addRegex(p.re)
		return
	}
	v.add(&v.second, p.glob.second, false)
	last := p.glob.last
	if n := len(p.text); p.glob.only == 0 && p.glob.machine == nil && n > 0 {
		last = p.text[n-1] // no wildcard: the path is the text
	}
	v.add(&v.last, last, false)
}

func (v *Sieve) addRegex(x *regex) {
	heads, tails := x.heads, x.tails
	if len(x.whole) > 0 {
		heads, tails = x.whole, x.whole
	}
	if x.beyond || len(heads) == 0 {
		v.add(&v.second, 0, false)
	}
	if x.beyond || len(tails) == 0 {
		v.add(&v.last, 0, false)
	}
	for _, s := range heads {
		second := byte(0)
		if len(s) > 1 {
			second = s[1]
		}
		v.add(&v.second, second, x.fold)
	}
	for _, s := range tails {
		last := byte(0)
		if n := len(s); n > 0 {
			last = s[n-1]
		}
		v.add(&v.last, last, x.fold)
	}
}

// add lets one byte through, in both cases if fold is set; 0 lets everything through.
func (v *Sieve) add(set *[4]uint64, b byte, fold bool) {
	if b == 0 {
		*set = [4]uint64{^uint64(0), ^uint64(0), ^uint64(0), ^uint64(0)}
		return
	}
	set[b>>6] |= 1 << (b & 63)
	if fold && isLetter(b) {
		b ^= 'a' - 'A'
		set[b>>6] |= 1 << (b & 63)
	}
}
