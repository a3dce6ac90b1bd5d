package botauth

import "strings"

// component is one that a signature covers.
type component struct {
	name   string // as it is written: lower case
	key    string // of the member of a dictionary, by the parameter key; "": all of it
	keyed  bool
	others bool // it has parameters that nobody here can honour
}

// input is one member of Signature-Input.
type input struct {
	label      string
	components [maxComponents]component
	covered    int
	created    int64
	expires    int64
	hasCreated bool
	hasExpires bool
	keyid      string
	alg        string
	tag        string
	// params is the member as it goes into the signature base; it is in scratch's text.
	params []byte
}

// scratch is the memory of one check. It is reused.
type scratch struct {
	input   input // the member that is being read
	chosen  input // the one that is to be verified
	params  [maxParams]param
	text    []byte // of chosen.params
	other   []byte // of input.params
	members []agentMember
	said    []byte // their values
	base    []byte
}

// choose reads Signature-Input and takes from it the member with our tag and a key that
// is known. It looks at every member, so that a field is well-formed or is not.
func (c *scratch) choose(field string, keys map[string][]listed) Result {
	if len(field) > maxField {
		return Oversized
	}
	s := scanner{s: field}
	s.skip(false)
	var labels [maxLabels]string
	ours, found := false, 0
	for n := 0; ; n++ {
		label := s.key()
		if label == "" || !s.take('=') {
			return Malformed
		}
		if n == len(labels) {
			return Oversized
		}
		for _, l := range labels[:n] {
			if l == label {
				return Duplicate
			}
		}
		labels[n] = label
		if why := c.member(&s, label); why != Good {
			return why
		}
		if c.input.tag == Tag {
			ours = true
			if keys[c.input.keyid] != nil {
				found++
				c.chosen = c.input
				c.text = append(c.text[:0], c.input.params...)
				c.chosen.params = c.text
			}
		}
		more, ok := s.comma()
		if !ok {
			return Malformed
		}
		if !more {
			break
		}
	}
	switch {
	case found == 1:
		return Good
	case found > 1:
		return Several
	case ours:
		return UnknownKey
	}
	return Unsigned
}

// member reads an inner list of components with the signature's parameters into c.input.
func (c *scratch) member(s *scanner, label string) Result {
	in := &c.input
	*in = input{label: label}
	if !s.take('(') {
		return Malformed
	}
	b := append(c.other[:0], '(')
	for {
		s.skip(false)
		if s.take(')') {
			break
		}
		if s.peek() != '"' {
			return Malformed
		}
		it, ok := s.text()
		if !ok || it.raw == "" || it.escaped() {
			return Malformed
		}
		n, why := s.params(c.params[:])
		if why != Good {
			return why
		}
		if next := s.peek(); next != ' ' && next != ')' {
			return Malformed
		}
		cp := component{name: it.raw}
		for i := range n {
			p := &c.params[i]
			if p.key == "key" && p.kind == aString && !p.escaped() {
				cp.key, cp.keyed = p.raw, true
			} else {
				cp.others = true
			}
		}
		if in.covered == len(in.components) {
			return Oversized
		}
		// Two identifiers are the same when name and parameters are (RFC 9421, section 2).
		// With parameters that nobody here honours it is not accepted anyway.
		for i := range in.covered {
			if in.components[i] == cp && !cp.others {
				return Duplicate
			}
		}
		in.components[in.covered] = cp
		if in.covered++; in.covered > 1 {
			b = append(b, ' ')
		}
		b = it.append(b)
		b = appendParams(b, c.params[:n])
	}
	b = append(b, ')')
	n, why := s.params(c.params[:])
	if why != Good {
		return why
	}
	b = appendParams(b, c.params[:n])
	c.other, in.params = b, b
	for i := range n {
		p := &c.params[i]
		want := aString
		switch p.key {
		case "created":
			want, in.created, in.hasCreated = anInteger, p.n, true
		case "expires":
			want, in.expires, in.hasExpires = anInteger, p.n, true
		case "keyid":
			in.keyid = p.raw
		case "alg":
			in.alg = p.raw
		case "tag":
			in.tag = p.raw
		case "nonce":
		default:
			continue // another of the agent's own: signed, and of no meaning here
		}
		if p.kind != want {
			return Malformed
		}
	}
	return Good
}

// signature finds the member of that label in Signature and decodes it.
func signature(field, label string, to []byte) Result {
	if len(field) > maxField {
		return Oversized
	}
	s := scanner{s: field}
	s.skip(false)
	var labels [maxLabels]string
	var params [maxParams]param
	why := Missing
	for n := 0; ; n++ {
		key := s.key()
		if key == "" || !s.take('=') || s.peek() != ':' {
			return Malformed
		}
		it, ok := s.bytes()
		if !ok {
			return Malformed
		}
		if _, why := s.params(params[:]); why != Good {
			return why
		}
		if n == len(labels) {
			return Oversized
		}
		for _, l := range labels[:n] {
			if l == key {
				return Duplicate
			}
		}
		labels[n] = key
		if key == label {
			if why = Good; !decode64(to, it.raw) {
				why = Algorithm
			}
		}
		more, ok := s.comma()
		if !ok {
			return Malformed
		}
		if !more {
			return why
		}
	}
}

// agentMember is a member of Signature-Agent.
type agentMember struct {
	key      string // "" of a field that is one string
	url      item
	ours     bool // its keys are in the directory of its origin, as a Bot's are
	covered  bool
	from, to int // its value as it goes into a signature base, in scratch.said
}

// agents reads Signature-Agent into c.members: a dictionary of strings, or one string,
// as it was in older drafts and is still sent.
func (c *scratch) agents(field string) Result {
	c.said, c.members = c.said[:0], c.members[:0]
	if len(field) > maxField {
		return Oversized
	}
	s := scanner{s: field}
	s.skip(false)
	alone := s.peek() == '"'
	for {
		var m agentMember
		if !alone {
			if m.key = s.key(); m.key == "" || !s.take('=') {
				return Malformed
			}
		}
		if s.peek() != '"' {
			return Malformed
		}
		var ok bool
		if m.url, ok = s.text(); !ok {
			return Malformed
		}
		n, why := s.params(c.params[:])
		if why != Good {
			return why
		}
		m.ours = true
		for i := range n {
			if p := &c.params[i]; p.key == "type" && (p.kind != aToken || p.raw != "directory") {
				m.ours = false
			}
		}
		for i := range c.members {
			if c.members[i].key == m.key {
				return Duplicate
			}
		}
		if len(c.members) == maxLabels {
			return Oversized
		}
		m.from = len(c.said)
		c.said = appendParams(m.url.append(c.said), c.params[:n])
		m.to = len(c.said)
		c.members = append(c.members, m)
		if alone {
			s.skip(false)
			if !s.end() {
				return Malformed
			}
			return Good
		}
		more, ok := s.comma()
		if !ok {
			return Malformed
		}
		if !more {
			return Good
		}
	}
}

// names tells whether a member is an agent's, by its origin.
func (m *agentMember) names(origin string) bool {
	url := m.url.raw
	if n := len(url); n > 0 && url[n-1] == '/' {
		url = url[:n-1]
	}
	return m.ours && origin != "" && strings.EqualFold(url, origin)
}
