package decide

import (
	"slices"

	"stile/decide/path"
	"stile/decide/pattern"
)

// readings is how many readings of a target there are at most: nginx's and the others.
const readings = 1 + path.Others

// target is the paths that a request may be about, one for each reading.
type target struct {
	n     int
	paths [readings]string
	words [readings]pattern.Words
}

// read fills t, which is empty.
func (t *target) read(r *Request, d *pattern.Dictionary) {
	t.paths[0] = r.Path
	t.n = 1 + copy(t.paths[1:], r.Alt)
	for k := range t.n {
		d.Find(t.paths[k], &t.words[k])
	}
}

// match is those of the readings in set that any of ps matches.
func (t *target) match(ps *pattern.Paths, set uint) (matched uint) {
	for k := range t.n {
		if set&(1<<k) != 0 && ps.Match(t.paths[k], &t.words[k]) {
			matched |= 1 << k
		}
	}
	return matched
}

// index tells which rules of a policy may match a request, a bit for each; all others do
// not. Of a hundred it leaves two or three to be asked.
type index []block

const blockRules = 64

// block is the index of 64 rules, in their order.
type block struct {
	word    []uint64 // by a word of the path; 0: about any path
	method  [classes]uint64
	bare    uint64      // may match without a query
	asked   uint64      // may match with one
	headers []absentees // by header
}

// absentees are the rules that do not match when a header is absent.
type absentees struct {
	header int
	rules  uint64
}

// class is what is told apart of methods.
type class uint8

const (
	classGet class = iota
	classHead
	classPost
	classOther
	classes
)

func classOf(method string) class {
	switch method {
	case "GET":
		return classGet
	case "HEAD":
		return classHead
	case "POST":
		return classPost
	}
	return classOther
}

func newIndex(rules []rule, d *pattern.Dictionary) index {
	x := make(index, (len(rules)+blockRules-1)/blockRules)
	for i := range rules {
		if i%blockRules == 0 {
			x[i/blockRules].word = make([]uint64, d.Len())
		}
		x[i/blockRules].add(&rules[i].match, 1<<(i%blockRules))
	}
	return x
}

// add enters a rule's bit wherever it may match.
func (b *block) add(m *matcher, bit uint64) {
	if m.paths.Empty() {
		b.word[0] |= bit
	}
	for _, w := range m.paths.Words() {
		b.word[w] |= bit
	}
	for c, method := range [...]string{"GET", "HEAD", "POST"} {
		if len(m.methods) == 0 || slices.Contains(m.methods, method) {
			b.method[c] |= bit
		}
	}
	b.method[classOther] |= bit
	if m.queries.Empty() || m.queries.Match("") {
		b.bare |= bit
	}
	if m.not == nil || !m.not.queries.Present() {
		b.asked |= bit
	}
	for i := range m.headers {
		if h := &m.headers[i]; !anyText(h.patterns, "") {
			b.absent(h.index, bit)
		}
	}
}

func (b *block) absent(header int, bit uint64) {
	for i := range b.headers {
		if b.headers[i].header == header {
			b.headers[i].rules |= bit
			return
		}
	}
	b.headers = append(b.headers, absentees{header, bit})
}

// sift is the rules that may match by what is not the path.
func (b *block) sift(r *Request, c class) uint64 {
	set := b.method[c]
	if r.Query == "" {
		set &= b.bare
	} else {
		set &= b.asked
	}
	for i := range b.headers {
		if a := &b.headers[i]; r.Header[a.header] == "" {
			set &^= a.rules
		}
	}
	return set
}

// about is the rules that may match by the path.
func (b *block) about(ws *pattern.Words) uint64 {
	ids, ok := ws.IDs()
	if !ok {
		return ^uint64(0)
	}
	set := b.word[0]
	for _, w := range ids {
		set |= b.word[w]
	}
	return set
}
