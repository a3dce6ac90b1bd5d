package pattern

import (
	"math/bits"
	"slices"
	"strings"
)

// A word is something that a path must have for a pattern to match it: a whole segment
// ("blame"), the suffix of one (".css"), or what one begins with ("@"). Each of a policy's
// patterns is known by its rarest; a path is looked through once for the words of all of
// them, and most patterns are never asked (decide's BenchmarkDecide).

// WordID is a word's number in a Dictionary.
type WordID uint16

// anyWord is of patterns of which no word is known.
const anyWord WordID = 0

// Words are the words of a dictionary that a path has.
type Words struct {
	mask uint64 // by the low six bits of their numbers
	n    uint8
	more bool // than have a place: then it has all
	ids  [15]WordID
}

func (ws *Words) add(id WordID) {
	if int(ws.n) == len(ws.ids) {
		ws.all()
		return
	}
	ws.mask |= 1 << (id & 63)
	ws.ids[ws.n] = id
	ws.n++
}

func (ws *Words) all() { ws.more, ws.mask = true, ^uint64(0) }

// IDs are their numbers. ok is false when there are more.
func (ws *Words) IDs() (ids []WordID, ok bool) { return ws.ids[:ws.n], !ws.more }

// Has tells whether id is one of them.
func (ws *Words) Has(id WordID) bool { return ws.mask&(1<<(id&63)) != 0 && ws.has(id) }

func (ws *Words) has(id WordID) bool {
	for _, w := range ws.ids[:ws.n] {
		if w == id {
			return true
		}
	}
	return ws.more || id == anyWord
}

// Dictionary numbers the words of a policy's patterns, from 1. It must not be added to any
// more when it is used. The zero value is not ready: NewDictionary makes one.
type Dictionary struct {
	hashes   []uint32 // a power of two, at most a quarter of them used; 0: free
	ids      []WordID // of each
	first    [256]WordID
	notASCII WordID
	n        WordID
	suffixes bool // some are suffixes
}

// NewDictionary makes an empty one.
func NewDictionary() *Dictionary {
	return &Dictionary{hashes: make([]uint32, 16), ids: make([]WordID, 16)}
}

// Len is one more than the highest number.
func (d *Dictionary) Len() int { return int(d.n) + 1 }

// maxWords leaves room for the numbers of a policy of thousands of rules.
const maxWords = 1<<16 - 1

// word is one before it has a number.
type word struct {
	kind wordKind
	text string
}

type wordKind uint8

const (
	noWord   wordKind = iota
	first             // text is what a segment begins with: only its first byte counts
	suffix            // text is what follows the last dot of a segment
	segment           // text is a whole segment
	notASCII          // a byte that is not ASCII
)

// id is the number of a word, a new one if it is new. When there are no more numbers it is
// anyWord: such a pattern is always asked.
func (d *Dictionary) id(w word) WordID {
	if w.kind == noWord || d.n == maxWords {
		return anyWord
	}
	at := &d.notASCII
	switch w.kind {
	case first:
		at = &d.first[w.text[0]|0x20]
	case segment, suffix:
		d.suffixes = d.suffixes || w.kind == suffix
		if 4*d.Len() > len(d.hashes) {
			d.grow()
		}
		at = d.slot(hashWord(w.text, 0, len(w.text), w.kind))
	}
	if *at == 0 {
		d.n++
		*at = d.n
	}
	return *at
}

// slot is where a hash has its number. A new one is entered.
func (d *Dictionary) slot(hash uint32) *WordID {
	for i := d.place(hash); ; i = (i + 1) & (len(d.hashes) - 1) {
		if d.hashes[i] == 0 {
			d.hashes[i] = hash
		}
		if d.hashes[i] == hash {
			return &d.ids[i]
		}
	}
}

func (d *Dictionary) place(hash uint32) int { return int(hash) & (len(d.hashes) - 1) }

func (d *Dictionary) grow() {
	old := *d
	d.hashes, d.ids = make([]uint32, 4*len(old.hashes)), make([]WordID, 4*len(old.ids))
	for i, h := range old.hashes {
		if h != 0 {
			*d.slot(h) = old.ids[i]
		}
	}
}

// Find finds the words of a path. It takes a few ns for a segment.
func (d *Dictionary) Find(path string, ws *Words) {
	ws.mask, ws.n, ws.more = 1<<anyWord, 0, false
	dotted := d.suffixes && strings.IndexByte(path, '.') >= 0
	if path == "" || path[0] != '/' {
		ws.all()
		return
	}
	for from := 1; from <= len(path) && !ws.more; {
		to := len(path)
		if n := strings.IndexByte(path[from:], '/'); n >= 0 {
			to = from + n
		}
		d.look(hashWord(path, from, to, segment), ws)
		if from < to {
			if id := d.first[path[from]|0x20]; id != 0 {
				ws.add(id)
			}
			if dotted {
				if dot := strings.LastIndexByte(path[from:to], '.'); dot >= 0 {
					d.look(hashWord(path, from+dot+1, to, suffix), ws)
				}
			}
		}
		from = to + 1
	}
	if d.notASCII != 0 && !isASCII(path) {
		ws.add(d.notASCII)
	}
}

func (d *Dictionary) look(hash uint32, ws *Words) {
	for i := d.place(hash); d.hashes[i] != 0; i = (i + 1) & (len(d.hashes) - 1) {
		if d.hashes[i] == hash {
			ws.add(d.ids[i])
			return
		}
	}
}

func isASCII(s string) bool {
	or := byte(0)
	for len(s) >= 8 {
		b := s[:8]
		or |= b[0] | b[1] | b[2] | b[3] | b[4] | b[5] | b[6] | b[7]
		s = s[8:]
	}
	for i := range len(s) {
		or |= s[i]
	}
	return or < 0x80
}

// hashWord hashes the first eight bytes, the last one and the length, without regard to
// ASCII case. It is never 0. Two words of the same hash are taken for one: the patterns of
// both are asked then.
func hashWord(s string, from, to int, kind wordKind) uint32 {
	const lowerCase = 0x2020202020202020
	n := to - from
	var x uint64
	if from+8 <= len(s) {
		b := s[from : from+8]
		x = uint64(b[0]) | uint64(b[1])<<8 | uint64(b[2])<<16 | uint64(b[3])<<24 | uint64(b[4])<<32 | uint64(b[5])<<40 | uint64(b[6])<<48 | uint64(b[7])<<56
		x |= lowerCase
		if n < 8 {
			x &= 1<<(8*n) - 1
		}
	} else {
		for i := to - 1; i >= from; i-- {
			x = x<<8 | uint64(s[i]|0x20)
		}
	}
	if n > 8 {
		x ^= uint64(s[to-1]|0x20) << 32
	}
	hi, lo := bits.Mul64(x^(uint64(n)<<8+uint64(kind))*0x9E3779B97F4A7C15, 0xD6E8FEB86659FD93)
	return uint32(hi^lo) | 1<<31
}

// words are words of which a path must have one to match; one that is noWord: any path may.
func (p *Path) words() []word {
	if p.re != nil {
		return p.re.words()
	}
	return []word{bestWord(p.text, true, true)}
}

// words of an expression are those of the strings of which one must be there.
func (x *regex) words() (best []word) {
	parts := make([]string, len(x.parts))
	for i := range x.parts {
		parts[i] = x.parts[i].low
	}
	for _, l := range []struct {
		list []string
		end  bool // its strings end the path
	}{{x.whole, true}, {x.tails, true}, {parts, false}, {x.heads, false}} {
		for _, longest := range []bool{true, false} {
			ws := wordsOf(l.list, l.end, longest)
			if k := weakest(ws); k > weakest(best) || k == weakest(best) && k != noWord && len(ws) < len(best) {
				best = ws
			}
		}
	}
	if best == nil {
		return []word{{}}
	}
	if x.beyond { // words are the same in both cases of ASCII only
		best = append(best, word{kind: notASCII})
	}
	return best
}

func weakest(ws []word) wordKind {
	k := noWord
	for i, w := range ws {
		if i == 0 || w.kind < k {
			k = w.kind
		}
	}
	return k
}

// wordsOf is the best word of each text of a list, without repetitions.
func wordsOf(list []string, end, longest bool) (ws []word) {
	for _, s := range list {
		if w := bestWord(s, end, longest); !slices.Contains(ws, w) {
			ws = append(ws, w)
		}
	}
	return ws
}

// bestWord is the word of a text that says most: the longest, or the first, of its segments
// that are whole and have no wildcard; else a suffix; else what a segment begins with. end:
// the text ends the path.
func bestWord(text string, end, longest bool) (best word) {
	whole := false // what stands before the first slash may be the end of a segment
	for {
		seg, rest, more := strings.Cut(text, "/")
		ends := more || end
		dot := strings.LastIndexByte(seg, '.')
		switch {
		case whole && ends && !strings.Contains(seg, "*"):
			if best.kind < segment || longest && len(seg) > len(best.text) {
				best = word{segment, seg}
			}
		case ends && dot >= 0 && !strings.Contains(seg[dot:], "*"):
			if best.kind < suffix {
				best = word{suffix, seg[dot+1:]}
			}
		case whole && seg != "" && seg[0] != '*':
			if best.kind < first {
				best = word{first, seg[:1]}
			}
		}
		if !more {
			return best
		}
		text, whole = rest, true
	}
}

// Paths is a list of patterns for paths. The zero value is an empty list.
type Paths struct {
	list  []*Path
	words []WordID // of each; a pattern of which one of several words must be there stands there for each
}

// CompilePaths compiles a list, and enters its words in a dictionary.
func CompilePaths(texts []string, d *Dictionary) (ps Paths, err error) {
	for _, t := range texts {
		p, err := CompilePath(t)
		if err != nil {
			return Paths{}, err
		}
		for _, w := range p.words() {
			ps.list, ps.words = append(ps.list, &p), append(ps.words, d.id(w))
		}
	}
	return ps, nil
}

// Empty tells whether there are none.
func (ps *Paths) Empty() bool { return len(ps.list) == 0 }

// Match tells whether any of them matches a path, whose words are ws.
func (ps *Paths) Match(path string, ws *Words) bool {
	for i, w := range ps.words {
		if ws.Has(w) && ps.list[i].Match(path) {
			return true
		}
	}
	return false
}

// Words are the words of all of them: a path that has none does not match.
func (ps *Paths) Words() []WordID { return ps.words }
