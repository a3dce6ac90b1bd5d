package replay

import "strings"

// values are the fields of one line. They are parts of the line, not yet unescaped.
type values [fieldCount]string

// cut takes a line apart. It tells whether the line has the format's shape. It keeps
// nothing and allocates nothing.
func (f *format) cut(line string, v *values) bool {
	if f.object != nil {
		return f.cutObject(line, v)
	}
	if !strings.HasPrefix(line, f.before) {
		return false
	}
	line = line[len(f.before):]
	for i := range f.steps {
		s := &f.steps[i]
		value := line
		if s.sep == "" {
			line = ""
		} else {
			// Fast path: the first byte that may begin it does.
			n := strings.IndexByte(line, s.sep[0])
			if n < 0 {
				return false
			}
			if s.sep[0] == '"' && f.escape == escapeJSON || !begins(line[n:], s.sep) {
				if n = f.find(line, s.sep); n < 0 {
					return false
				}
			}
			value = line[:n]
			if s.keep {
				line = line[n:]
			} else {
				line = line[n+len(s.sep):]
			}
		}
		if value == "-" {
			value = ""
		}
		v[s.is] = value
	}
	return line == "" || f.open
}

// begins is strings.HasPrefix for prefixes of few bytes.
func begins(s, prefix string) bool {
	if len(s) < len(prefix) {
		return false
	}
	for i := range len(prefix) {
		if s[i] != prefix[i] {
			return false
		}
	}
	return true
}

// find is where the next separator begins. One that begins with a quote ends at the first
// quote that nginx did not escape: nothing that a client sends can look like one.
func (f *format) find(line, sep string) int {
	from := 0
	for {
		n := strings.IndexByte(line[from:], sep[0])
		if n < 0 {
			return -1
		}
		n += from
		if len(sep) == 1 || strings.HasPrefix(line[n:], sep) {
			if sep[0] != '"' || f.escape != escapeJSON || !escaped(line[:n]) {
				return n
			}
		} else if sep[0] == '"' && (f.escape == escapeDefault || f.escape == escapeJSON && !escaped(line[:n])) {
			return -1
		}
		from = n + 1
	}
}

// escaped tells whether an odd number of backslashes ends s.
func escaped(s string) bool {
	n := len(s)
	for n > 0 && s[n-1] == '\\' {
		n--
	}
	return (len(s)-n)%2 == 1
}

// plain undoes nginx's escapes. Nearly no value has any.
func (f *format) plain(s string) string {
	if strings.IndexByte(s, '\\') < 0 || f.escape == escapeNone {
		return s
	}
	if f.escape == escapeJSON {
		return unquoteJSON(s)
	}
	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) && s[i+1] == 'x' {
			if c, ok := hex(s[i+2 : i+4]); ok {
				b = append(b, byte(c))
				i += 3
				continue
			}
		}
		b = append(b, s[i])
	}
	return string(b)
}

func hex(s string) (n rune, ok bool) {
	for i := range len(s) {
		c := s[i]
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c|0x20 && c|0x20 <= 'f':
			c = c | 0x20 - 'a' + 10
		default:
			return 0, false
		}
		n = n<<4 | rune(c)
	}
	return n, true
}
