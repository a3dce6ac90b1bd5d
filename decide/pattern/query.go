package pattern

import (
	"slices"
	"strings"
)

// Query is a pattern for the parameters of a request: "name" matches when a parameter of
// that name is there, with or without a value; "name=value" when one of that name has
// that value, in which "*" stands for any run of bytes ("name=": an empty one, or none).
//
// Names and values are compared decoded ("%63" is "c", "+" is a space), exactly and with
// case. "&" and ";" both separate, and any occurrence counts, because backends differ:
// so a restriction cannot be talked away. For the same reason do not let a Query alone
// carry an exemption: a client can add any parameter to any path.
//
// "~" and "~*" begin regular expressions (see Path) over the query as it was sent.
type Query struct {
	name    string   // not empty
	any     bool     // with any value, or none
	value   string   // up to the first "*"
	machine *machine // what follows in the value, nil: nothing
	re      *regex
}

// CompileQuery compiles a Query, or says what is wrong with it and the way out.
func CompileQuery(text string) (Query, error) {
	if err := check(text); err != nil {
		return Query{}, err
	}
	if text[0] == '~' {
		re, err := compileRegex(text, false)
		return Query{re: re}, err
	}
	name, value, ok := strings.Cut(text, "=")
	switch {
	case text[0] == '?':
		return Query{}, faultf(text, "write it without the question mark")
	case strings.ContainsAny(text, "&;"):
		return Query{}, faultf(text, `one parameter a pattern: "&" and ";" separate parameters; for several that must all be there use a regular expression`)
	case encodedAt(text) >= 0:
		return Query{}, faultf(text, "%q is compared decoded; write the character itself", text[encodedAt(text):encodedAt(text)+3])
	case name == "":
		return Query{}, faultf(text, `no name; write "name" or "name=value"`)
	case strings.Contains(name, "*"):
		return Query{}, faultf(text, `"*" only in the value; for several names write a list or begin with "~"`)
	}
	q := Query{name: name, any: !ok || value == "*"}
	first, behind, starred := strings.Cut(value, "*")
	q.value = first
	if starred {
		lits := strings.Split(behind, "*")
		lits = slices.DeleteFunc(lits[:len(lits)-1:len(lits)-1], func(l string) bool { return l == "" }) // "**" is "*"
		lits = append(lits, behind[strings.LastIndexByte(behind, '*')+1:])
		if q.machine = newMachine(lits, slices.Repeat([]wild{stars}, len(lits))); q.machine == nil {
			return Query{}, faultf(text, `too long behind its first "*" (62 characters, each "*" is one); write a regular expression that begins with "~"`)
		}
	}
	return q, nil
}

// has tells whether a parameter is one that the pattern allows.
func (q *Query) has(name, value string) bool {
	end, ok := decodedPrefix(name, q.name)
	return ok && end == len(name) && (q.any || q.globbed(value))
}

// separator is the position of the first "&" or ";", or len(s).
func separator(s string) int {
	for i := range len(s) {
		if s[i] == '&' || s[i] == ';' {
			return i
		}
	}
	return len(s)
}

// globbed tells whether a raw value, decoded, is one that the pattern allows.
func (q *Query) globbed(raw string) bool {
	i, ok := decodedPrefix(raw, q.value)
	if q.machine == nil || !ok {
		return ok && i == len(raw)
	}
	state := machineStart
	for i < len(raw) && state&q.machine.rest == 0 && state != 0 {
		var c byte
		c, i = decodeAt(raw, i)
		state = q.machine.step(state, c)
	}
	return q.machine.matched(state)
}

// decodedPrefix tells whether raw, decoded, begins with want, and where want ends in it.
func decodedPrefix(raw, want string) (end int, ok bool) {
	for k := range len(want) {
		if end == len(raw) {
			return end, false
		}
		c, after := decodeAt(raw, end)
		if c != want[k] {
			return end, false
		}
		end = after
	}
	return end, true
}

// decodeAt is the byte that stands at raw[i:], and the position after it. What is no
// correct encoding stands for itself.
func decodeAt(raw string, i int) (c byte, after int) {
	switch c = raw[i]; {
	case c == '+':
		return ' ', i + 1
	case c == '%' && i+2 < len(raw) && isHex(raw[i+1]) && isHex(raw[i+2]):
		return hexValue(raw[i+1])<<4 | hexValue(raw[i+2]), i + 3
	}
	return c, i + 1
}

func isHex(c byte) bool { return '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'f' }

func hexValue(c byte) byte {
	if c <= '9' {
		return c - '0'
	}
	return c | 0x20 - 'a' + 10
}

// encodedAt is the position of the first percent-encoding in s, or -1.
func encodedAt(s string) int {
	for i := 0; i+2 < len(s); i++ {
		if s[i] == '%' && isHex(s[i+1]) && isHex(s[i+2]) {
			return i
		}
	}
	return -1
}
