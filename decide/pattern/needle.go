package pattern

import "strings"

// needle is a text in lower case to be found in any ASCII case. It looks for its rarest byte with
// strings.IndexByte, which does 32 bytes at a step, and compares only there: a miss
// in an agent of 110 bytes takes a fifth of the time of folding each byte
// (BenchmarkText/miss).
type needle struct {
	low   string
	rare  int  // position of the byte that is looked for
	up    byte // its upper case, or the byte itself
	start byte // low[rare]
}

// The bytes of agents from the commonest on; what is missing here is rare.
const common = " .0e/o;i5tlak7(n)rm36sc,4h1w8x2bgup9dK-_:fvyz+@"

func newNeedle(low string) needle {
	n := needle{low: low}
	best := -1
	for i := range len(n.low) {
		rank := strings.IndexByte(common, n.low[i])
		if rank < 0 {
			rank = len(common)
		}
		if isLetter(n.low[i]) {
			rank /= 2 // two searches
		}
		if rank > best {
			best, n.rare = rank, i
		}
	}
	n.start = n.low[n.rare]
	n.up = n.start
	if isLetter(n.start) {
		n.up &^= 0x20
	}
	return n
}

func isLetter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }

// index is the first position of the needle in s, or -1.
func (n *needle) index(s string) int {
	// Positions of the rare byte in both cases, the nearer one first.
	a := next(s, n.start, n.rare)
	b := len(s)
	if n.up != n.start {
		b = next(s, n.up, n.rare)
	}
	for {
		at := min(a, b)
		from := at - n.rare
		if from+len(n.low) > len(s) {
			return -1
		}
		if sameFold(s[from:from+len(n.low)], n.low) {
			return from
		}
		if at == a {
			a = next(s, n.start, at+1)
		} else {
			b = next(s, n.up, at+1)
		}
	}
}

// next is the first position of c in s that is not before from, or len(s).
func next(s string, c byte, from int) int {
	if from < len(s) {
		if i := strings.IndexByte(s[from:], c); i >= 0 {
			return from + i
		}
	}
	return len(s)
}
