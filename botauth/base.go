package botauth

import "strings"

// maxBase bounds what is hashed for one request.
const maxBase = 16 << 10

// makeBase writes what c.chosen signs of the request into c.base (RFC 9421, section
// 2.5). Signature-Agent has been read by then, if the request has it.
func (v *Verifier) makeBase(c *scratch, m *Message) Result {
	in := &c.chosen
	b := c.base[:0]
	bound := false
	for i := range in.covered {
		cp := &in.components[i]
		if cp.others {
			return Unsupported
		}
		b = append(b, '"')
		b = append(b, cp.name...)
		b = append(b, '"')
		if cp.keyed {
			b = append(b, `;key="`...)
			b = append(b, cp.key...)
			b = append(b, '"')
		}
		b = append(b, ": "...)
		why := Good
		if cp.name[0] == '@' {
			bound = bound || cp.name == "@authority" || cp.name == "@target-uri"
			b, why = derived(b, cp, m)
		} else {
			b, why = v.field(b, c, cp, m)
		}
		if why != Good {
			return why
		}
		b = append(b, '\n')
		if len(b) > maxBase {
			return Oversized
		}
	}
	if !bound {
		return Missing // a signature for every site is one for none
	}
	b = append(b, `"@signature-params": `...)
	b = append(b, in.params...)
	c.base = b
	return Good
}

// derived appends the value of a derived component (RFC 9421, section 2.2).
func derived(b []byte, cp *component, m *Message) ([]byte, Result) {
	if cp.keyed {
		return b, Malformed
	}
	path, query, _ := strings.Cut(m.Target, "?")
	switch cp.name {
	case "@authority":
		return append(b, m.Host...), Good
	case "@method":
		return append(b, m.Method...), Good
	case "@scheme":
		return append(b, m.Scheme...), Good
	case "@target-uri":
		b = append(b, m.Scheme...)
		b = append(b, "://"...)
		b = append(b, m.Host...)
		return append(b, m.Target...), Good
	case "@request-target":
		return append(b, m.Target...), Good
	case "@path":
		return append(b, path...), Good
	case "@query": // absent and empty are both "?"
		b = append(b, '?')
		return append(b, query...), Good
	}
	return b, Unsupported
}

// field appends the value of a header field.
func (v *Verifier) field(b []byte, c *scratch, cp *component, m *Message) ([]byte, Result) {
	if cp.name == "signature-agent" {
		return c.signatureAgent(b, cp, m)
	}
	if cp.keyed {
		return b, Unsupported
	}
	for i, name := range v.fields {
		if name != cp.name {
			continue
		}
		// An empty one does not reach us, so it is as good as none.
		if i >= len(m.Fields) || m.Fields[i] == "" {
			return b, Missing
		}
		return append(b, strings.Trim(m.Fields[i], " \t")...), Good
	}
	return b, Unsupported
}

// signatureAgent appends the field or a member of it, and notes what is covered.
func (c *scratch) signatureAgent(b []byte, cp *component, m *Message) ([]byte, Result) {
	if m.SignatureAgent == "" {
		return b, Missing
	}
	if !cp.keyed {
		for i := range c.members {
			c.members[i].covered = true
		}
		return append(b, strings.Trim(m.SignatureAgent, " \t")...), Good
	}
	for i := range c.members {
		if mb := &c.members[i]; mb.key == cp.key && cp.key != "" {
			mb.covered = true
			return append(b, c.said[mb.from:mb.to]...), Good
		}
	}
	return b, Missing
}
