package replay

import (
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// keys are what programs call the fields in JSON, beside nginx's own names.
var keys = map[string]field{
	"ip": fieldAddr, "client": fieldAddr, "client_ip": fieldAddr, "clientip": fieldAddr, "remote": fieldAddr, "remote_ip": fieldAddr, "addr": fieldAddr, "remote_address": fieldAddr,
	"time": fieldISO, "@timestamp": fieldISO, "timestamp": fieldISO, "date": fieldISO, "datetime": fieldISO, "ts": fieldISO,
	"method": fieldMethod, "verb": fieldMethod, "path": fieldTarget, "url": fieldTarget, "target": fieldTarget,
	"vhost": fieldHost, "server": fieldServer, "agent": fieldAgent, "ua": fieldAgent, "user_agent": fieldAgent, "http_agent": fieldAgent, "useragent": fieldAgent,
	"referer": head + headerReferer, "referrer": head + headerReferer, "http_referrer": head + headerReferer,
	"bytes": fieldBodyBytes, "size": fieldBodyBytes, "bytes_received": fieldUpstreamBytes, "duration": fieldTook, "response_time": fieldTook, "upstream_time": fieldUpstreamTime,
	"user": fieldUser, "code": fieldStatus, "response": fieldStatus, "query": fieldArgs,
}

// newObject is the format of lines that are JSON objects. Which fields there are is known
// when one has been seen.
func newObject(passCookie string) *format {
	f := &format{name: "json", escape: escapeJSON, object: map[string]field{"cookie_" + passCookie: fieldPass}}
	for k, v := range keys {
		f.object[k] = v
	}
	for k, v := range variables {
		f.object[k] = v
	}
	f.object["uri"] = fieldTarget // what a log of its own making calls it is raw more often than not
	return f
}

// learn notes the fields of lines. It tells whether the first of them is an object.
func (f *format) learn(lines []string) bool {
	for i, line := range lines {
		var v values
		if !f.cutObject(line, &v) {
			if i == 0 {
				return false
			}
			continue
		}
		f.learned = true
		for k := range v {
			f.has[k] = f.has[k] || v[k] != ""
		}
	}
	return true
}

// cutObject takes an object apart. Objects and arrays in it are passed over.
func (f *format) cutObject(line string, v *values) bool {
	*v = values{}
	s := scanner{rest: line}
	if !s.is('{') {
		return false
	}
	for first := true; ; first = false {
		if s.is('}') {
			return s.end()
		}
		if !first && !s.is(',') {
			return false
		}
		key, ok := s.text()
		if !ok || !s.is(':') {
			return false
		}
		value, ok := s.value()
		if !ok {
			return false
		}
		if is := f.object[strings.TrimPrefix(key, "$")]; is != skipped && v[is] == "" && value != "-" {
			v[is] = value
		}
	}
}

// scanner reads JSON as far as it must.
type scanner struct{ rest string }

func (s *scanner) space() { s.rest = strings.TrimLeft(s.rest, " \t\r\n") }

func (s *scanner) is(c byte) bool {
	s.space()
	if s.rest == "" || s.rest[0] != c {
		return false
	}
	s.rest = s.rest[1:]
	return true
}

func (s *scanner) end() bool {
	s.space()
	return s.rest == ""
}

// text is what stands between two quotes, still escaped.
func (s *scanner) text() (string, bool) {
	if !s.is('"') {
		return "", false
	}
	for i := 0; i < len(s.rest); i++ {
		switch s.rest[i] {
		case '\\':
			i++
		case '"':
			t := s.rest[:i]
			s.rest = s.rest[i+1:]
			return t, true
		}
	}
	return "", false
}

// value is a string, a number or a word; "" for null, and for what is passed over.
func (s *scanner) value() (string, bool) {
	s.space()
	switch {
	case s.rest == "":
		return "", false
	case s.rest[0] == '"':
		return s.text()
	case s.rest[0] == '{' || s.rest[0] == '[':
		return "", s.pass()
	}
	n := strings.IndexAny(s.rest, ",} \t")
	if n <= 0 {
		return "", false
	}
	word := s.rest[:n]
	s.rest = s.rest[n:]
	if word == "null" {
		word = ""
	}
	return word, true
}

// pass passes over an object or an array.
func (s *scanner) pass() bool {
	for depth := 0; s.rest != ""; {
		switch s.rest[0] {
		case '"':
			if _, ok := s.text(); !ok {
				return false
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		}
		s.rest = s.rest[1:]
		if depth == 0 {
			return true
		}
	}
	return false
}

func unquoteJSON(s string) string {
	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 == len(s) {
			b = append(b, s[i])
			continue
		}
		i++
		switch s[i] {
		case 'n':
			b = append(b, '\n')
		case 't':
			b = append(b, '\t')
		case 'r':
			b = append(b, '\r')
		case 'b':
			b = append(b, '\b')
		case 'f':
			b = append(b, '\f')
		case 'u':
			r, n := unit(s[i+1:])
			i += n
			if utf16.IsSurrogate(r) && strings.HasPrefix(s[i+1:], `\u`) {
				if second, n := unit(s[i+3:]); n > 0 {
					if both := utf16.DecodeRune(r, second); both != utf8.RuneError {
						r = both
						i += 2 + n
					}
				}
			}
			b = utf8.AppendRune(b, r)
		default:
			b = append(b, s[i])
		}
	}
	return string(b)
}

// unit is four hexadecimal digits, or U+FFFD and 0 if there are none.
func unit(s string) (rune, int) {
	if len(s) >= 4 {
		if r, ok := hex(s[:4]); ok {
			return r, 4
		}
	}
	return utf8.RuneError, 0
}
