package pattern

import "strings"

// Starts is the set of bytes with which the segments of a path begin, modulo 64. It is made
// once a request, and says of most patterns of a long policy that they cannot match: under
// preset:forge it halves the time of a decision (decide's BenchmarkDecide/forge).
type Starts uint64

// always is in each Starts, and in what is demanded by patterns that demand nothing.
const always Starts = 1 << 63

func startOf(c byte) Starts { return 1 << (c & 63) }

// StartsOf is that of a path.
func StartsOf(path string) Starts {
	s := always
	for {
		i := strings.IndexByte(path, '/')
		if i < 0 || i+1 >= len(path) {
			return s
		}
		path = path[i+1:]
		s |= startOf(path[0])
	}
}

// demand is what a pattern asks of the Starts of a path: each of all, and one of any.
type demand struct{ all, any Starts }

func (d demand) met(s Starts) bool { return d.all&^s == 0 && d.any&s != 0 }

// globDemand finds what a glob asks for: each byte of its own that follows a slash.
func globDemand(text string) demand {
	d := demand{any: ^Starts(0)}
	for i := 0; i+1 < len(text); i++ {
		if c := text[i+1]; text[i] == '/' && c != '*' && c != '/' {
			d.all |= startOf(c)
		}
	}
	return d
}

// demand of an expression: that of the strings of which one must be contained.
func (x *regex) demand() demand {
	if x.beyond {
		return demand{any: ^Starts(0)}
	}
	var parts []string
	for _, p := range x.parts {
		parts = append(parts, p.low)
	}
	for _, list := range [][]string{parts, x.tails, x.whole, x.heads} {
		if any := x.anyStart(list); any != 0 {
			return demand{any: any}
		}
	}
	return demand{any: ^Starts(0)}
}

// anyStart is one start of a segment of each of list, or 0 if one of them has none.
func (x *regex) anyStart(list []string) (any Starts) {
	for _, s := range list {
		i := strings.IndexByte(s, '/')
		if i < 0 || i+1 >= len(s) {
			return 0
		}
		any |= startOf(s[i+1])
		if c := s[i+1]; x.fold && isLetter(c) {
			any |= startOf(c ^ 0x20)
		}
	}
	return any
}
