package pattern

import (
	"errors"
	"strings"
)

// wild is a wildcard of a path glob.
type wild uint8

const (
	star    wild = iota + 1 // "*": a run without slashes
	stars                   // "**": any run
	folders                 // "**/" after a slash: nothing, or any run that ends in a slash
)

// glob is a compiled path glob: prefix, wildcards with literals between them, suffix.
// It is matched from the cheapest test to the dearest, and nearly always only the
// first few run.
type glob struct {
	shortest       int  // sum of all literals; 0: the zero value, matches nothing
	second, last   byte // of the prefix and of the suffix, 0: there is none
	only           wild // the wildcard, if there is one
	prefix, suffix string
	needle         string   // the longest literal between two wildcards
	machine        *machine // for several wildcards
}

var errLongGlob = errors.New(`too long between its first and its last wildcard (62 characters, each wildcard is one); write a regular expression that begins with "~"`)

func compileGlob(text string) (glob, error) {
	lits, wilds := cut(text)
	g := glob{prefix: lits[0], suffix: lits[len(lits)-1]}
	if len(g.prefix) > 1 {
		g.second = g.prefix[1]
	}
	if len(g.suffix) > 0 {
		g.last = g.suffix[len(g.suffix)-1]
	}
	for _, l := range lits {
		g.shortest += len(l)
	}
	switch len(wilds) {
	case 0:
		g.suffix = "" // else it would have to be there twice
	case 1:
		g.only = wilds[0]
	default:
		for _, l := range lits[1 : len(lits)-1] {
			if len(l) > len(g.needle) {
				g.needle = l
			}
		}
		if len(g.needle) < 2 {
			g.needle = "" // a slash is in every path
		}
		if g.machine = newMachine(lits[1:len(lits)-1], wilds); g.machine == nil {
			return glob{}, errLongGlob
		}
	}
	return g, nil
}

// cut takes a glob apart: lits[0] wilds[0] lits[1] wilds[1] … lits[n]. No two wildcards
// are neighbours.
func cut(text string) (lits []string, wilds []wild) {
	from := 0
	for i := 0; i < len(text); {
		if text[i] != '*' {
			i++
			continue
		}
		w, end := star, i+1
		if strings.HasPrefix(text[i:], "**") {
			w, end = stars, i+2
			if i > 0 && text[i-1] == '/' && end < len(text) && text[end] == '/' {
				w, end = folders, i+3
			}
		}
		if n := len(wilds); n > 0 && from == i {
			// Behind "**/" any other wildcard makes a run of anything.
			if w != folders {
				wilds[n-1] = stars
			}
		} else {
			lits, wilds = append(lits, text[from:i]), append(wilds, w)
		}
		i, from = end, end
	}
	return append(lits, text[from:]), wilds
}

func (g *glob) match(s string) bool {
	// Fast path: single bytes tell nearly all misses, without a call.
	if len(s) < g.shortest || g.second != 0 && s[1] != g.second || g.last != 0 && s[len(s)-1] != g.last {
		return false
	}
	if g.shortest == 0 || !strings.HasPrefix(s, g.prefix) || !strings.HasSuffix(s, g.suffix) {
		return false
	}
	middle := s[len(g.prefix) : len(s)-len(g.suffix)]
	switch {
	case g.machine != nil:
		return (g.needle == "" || strings.Contains(middle, g.needle)) && g.machine.match(middle)
	case g.only == star:
		return strings.IndexByte(middle, '/') < 0
	case g.only == folders:
		return middle == "" || middle[len(middle)-1] == '/'
	case g.only == stars:
		return true
	}
	return middle == ""
}

// machine matches wildcards with literals between them in one pass: a nondeterministic
// automaton with one bit for each literal byte and each wildcard. Bit i of its state says:
// what has been read may be followed by element i. Each byte of the text costs a few
// instructions, whatever the text (bitap: Baeza-Yates and Gonnet, A New Approach to
// Text Searching, CACM 35(10), 1992).
type machine struct {
	literal  [256]uint64 // for each byte the literal elements that it satisfies
	notSlash uint64      // wildcards that read anything but a slash
	any      uint64      // those that read anything
	skip     uint64      // those that may be left at any time
	leave    uint64      // folders: may be left after a slash
	rest     uint64      // the last element, if it reads anything: it has matched then
	end      uint64      // the bit behind the last element
}

// maxElements leaves a bit for the end.
const maxElements = 63

// machineStart: element 0 is a wildcard and may be left at once, folders too, since they
// come after a slash.
const machineStart uint64 = 3

// newMachine makes one for wilds[0] lits[0] wilds[1] …, which may end in either. It
// returns nil when they do not fit.
func newMachine(lits []string, wilds []wild) *machine {
	m := &machine{}
	bit := uint64(1)
	elements := len(wilds)
	for _, l := range lits {
		elements += len(l)
	}
	if elements > maxElements {
		return nil
	}
	for i, w := range wilds {
		switch w {
		case star:
			m.notSlash |= bit
			m.skip |= bit
		case stars:
			m.any |= bit
			m.skip |= bit
			m.rest = bit
		case folders:
			m.any |= bit
			m.leave |= bit
		}
		bit <<= 1
		for k := 0; i < len(lits) && k < len(lits[i]); k++ {
			m.literal[lits[i][k]] |= bit
			bit <<= 1
		}
	}
	m.end = bit
	if m.rest<<1 != m.end {
		m.rest = 0
	}
	return m
}

func (m *machine) step(state uint64, c byte) uint64 {
	reads, left := m.any|m.notSlash, m.skip
	if c == '/' {
		reads, left = m.any, m.skip|m.leave
	}
	state = state&m.literal[c]<<1 | state&reads
	return state | state&left<<1
}

func (m *machine) matched(state uint64) bool { return state&(m.end|m.rest) != 0 }

func (m *machine) match(s string) bool {
	state := machineStart
	for i := range len(s) {
		if state = m.step(state, s[i]); state == 0 || state&m.rest != 0 {
			break
		}
	}
	return m.matched(state)
}
