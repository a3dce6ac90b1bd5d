package botauth

import (
	"encoding/base64"
	"strconv"
)

// maxField is the length of each of the three fields. The longest that agents send has
// an RSA signature beside ours, and a nonce of 88 characters in each input.
const maxField = 4096

// Limits of the parts of a field.
const (
	maxLabels     = 8
	maxComponents = 24
	maxParams     = 12
)

// scanner reads structured fields (RFC 8941, section 4.2), of which it knows what the
// three fields here are made of: dictionaries, inner lists, and items but for decimals.
// It is as strict as the RFC but for one thing, in which it is stricter: what is there
// twice is an error, where the RFC takes the last.
type scanner struct {
	s  string
	at int
}

func (s *scanner) end() bool { return s.at == len(s.s) }

// peek is the next byte, 0 at the end; no field has one.
func (s *scanner) peek() byte {
	if s.end() {
		return 0
	}
	return s.s[s.at]
}

func (s *scanner) take(c byte) bool {
	if s.peek() != c || s.end() {
		return false
	}
	s.at++
	return true
}

// skip leaves out spaces; tabs, too, around the commas of a dictionary.
func (s *scanner) skip(tabs bool) {
	for s.peek() == ' ' || tabs && s.peek() == '\t' {
		s.at++
	}
}

func isLower(c byte) bool { return 'a' <= c && c <= 'z' }
func isDigit(c byte) bool { return '0' <= c && c <= '9' }
func isAlpha(c byte) bool { return isLower(c | 0x20) }

// key is a key of a dictionary or of parameters, "" if there is none.
func (s *scanner) key() string {
	from := s.at
	if c := s.peek(); !isLower(c) && c != '*' {
		return ""
	}
	for c := s.peek(); isLower(c) || isDigit(c) || c == '_' || c == '-' || c == '.' || c == '*'; c = s.peek() {
		s.at++
	}
	return s.s[from:s.at]
}

// kind is the type of an item.
type kind uint8

const (
	aString kind = iota
	anInteger
	aToken
	someBytes
	aBoolean
)

// item is a bare item.
type item struct {
	kind kind
	raw  string // without the quotes of a string, still escaped; without the colons of bytes
	n    int64  // of an integer; 1 for a true boolean
}

// escaped tells whether a string has escapes, so that raw is not its value.
func (it *item) escaped() bool {
	for i := range len(it.raw) {
		if it.raw[i] == '\\' {
			return true
		}
	}
	return false
}

// append writes the item as RFC 8941, section 4.1, does.
func (it *item) append(b []byte) []byte {
	switch it.kind {
	case aString:
		b = append(b, '"')
		b = append(b, it.raw...)
		return append(b, '"')
	case anInteger:
		return strconv.AppendInt(b, it.n, 10)
	case someBytes:
		b = append(b, ':')
		b = append(b, it.raw...)
		return append(b, ':')
	case aBoolean:
		return append(b, '?', '0'+byte(it.n))
	}
	return append(b, it.raw...)
}

func (s *scanner) item() (it item, ok bool) {
	switch c := s.peek(); {
	case c == '"':
		return s.text()
	case c == '-' || isDigit(c):
		return s.integer()
	case c == ':':
		return s.bytes()
	case c == '?':
		s.at++
		switch s.peek() {
		case '1':
			it.n = 1
		case '0':
		default:
			return it, false
		}
		s.at++
		it.kind = aBoolean
		return it, true
	case c == '*' || isAlpha(c):
		from := s.at
		for isTokenByte(s.peek()) {
			s.at++
		}
		return item{kind: aToken, raw: s.s[from:s.at]}, true
	}
	return it, false
}

func isTokenByte(c byte) bool {
	if isAlpha(c) || isDigit(c) {
		return true
	}
	switch c {
	case '!', '#', '$', '%', '&', '\'', '*', '+', '-', '.', '^', '_', '`', '|', '~', ':', '/':
		return true
	}
	return false
}

// text is a string. There is one way to write each, so that raw is also how it is
// written into a signature base.
func (s *scanner) text() (it item, ok bool) {
	s.at++
	from := s.at
	for !s.end() {
		switch c := s.s[s.at]; {
		case c == '"':
			s.at++
			return item{kind: aString, raw: s.s[from : s.at-1]}, true
		case c == '\\':
			s.at++
			if c := s.peek(); c != '"' && c != '\\' {
				return it, false
			}
		case c < ' ' || c > '~':
			return it, false
		}
		s.at++
	}
	return it, false
}

// integer has up to 15 digits. A decimal is an error: no parameter is one.
func (s *scanner) integer() (it item, ok bool) {
	minus := s.take('-')
	from := s.at
	for isDigit(s.peek()) {
		it.n = it.n*10 + int64(s.peek()-'0')
		if s.at++; s.at-from > 15 {
			return it, false
		}
	}
	if minus {
		it.n = -it.n
	}
	it.kind = anInteger
	return it, s.at > from && s.peek() != '.'
}

// bytes are in base64 with padding, in the one spelling that their encoder writes:
// RFC 8941 lets a parser be lenient, and a token that has two spellings is two tokens.
func (s *scanner) bytes() (it item, ok bool) {
	s.at++
	from := s.at
	for c := s.peek(); isAlpha(c) || isDigit(c) || c == '+' || c == '/' || c == '='; c = s.peek() {
		s.at++
	}
	it = item{kind: someBytes, raw: s.s[from:s.at]}
	return it, s.take(':') && canonical64(it.raw)
}

// canonical64 tells whether s is how an encoder writes base64: whole quadruples, "=" at
// the end only, and no bits set that say nothing.
func canonical64(s string) bool {
	n := len(s)
	if n%4 != 0 {
		return false
	}
	for n > 0 && n > len(s)-2 && s[n-1] == '=' {
		n--
	}
	for i := range n {
		if s[i] == '=' {
			return false
		}
	}
	switch len(s) - n {
	case 1:
		return place64(s[n-1])&3 == 0
	case 2:
		return place64(s[n-1])&15 == 0
	}
	return true
}

// place64 is the value of a digit of base64.
func place64(c byte) byte {
	switch {
	case 'A' <= c && c <= 'Z':
		return c - 'A'
	case isLower(c):
		return c - 'a' + 26
	case isDigit(c):
		return c - '0' + 52
	case c == '+':
		return 62
	}
	return 63
}

// decode64 decodes bytes into to, if they are as many.
func decode64(to []byte, s string) bool {
	if base64.StdEncoding.DecodedLen(len(s)) > len(to)+2 {
		return false
	}
	var b [96]byte
	n, err := base64.StdEncoding.Strict().Decode(b[:], []byte(s))
	return err == nil && n == len(to) && copy(to, b[:n]) == n
}

// param is a parameter of an item or of a list.
type param struct {
	key string
	item
}

// params reads parameters into to. more is false when there are more than it holds.
func (s *scanner) params(to []param) (n int, why Result) {
	for s.take(';') {
		s.skip(false)
		p := param{key: s.key()}
		if p.key == "" {
			return n, Malformed
		}
		p.kind, p.n = aBoolean, 1
		if s.take('=') {
			var ok bool
			if p.item, ok = s.item(); !ok {
				return n, Malformed
			}
		}
		for i := range n {
			if to[i].key == p.key {
				return n, Duplicate
			}
		}
		if n == len(to) {
			return n, Oversized
		}
		to[n] = p
		n++
	}
	return n, Good
}

// appendParams writes parameters as RFC 8941, section 4.1.1.2, does.
func appendParams(b []byte, ps []param) []byte {
	for i := range ps {
		p := &ps[i]
		b = append(b, ';')
		b = append(b, p.key...)
		if p.kind != aBoolean || p.n == 0 {
			b = append(b, '=')
			b = p.item.append(b)
		}
	}
	return b
}

// comma goes over to the next member of a dictionary. more is false at the end.
func (s *scanner) comma() (more, ok bool) {
	s.skip(true)
	if s.end() {
		return false, true
	}
	if !s.take(',') {
		return false, false
	}
	s.skip(true)
	return true, !s.end() // a comma at the end is none
}
