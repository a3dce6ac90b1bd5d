package lint

import (
	"fmt"
	"strings"
)

// maxWord is the longest parameter that is read. nginx itself allows 4096 bytes.
const maxWord = 64 << 10

// lexer reads nginx's configuration language as nginx 1.22 does (ngx_conf_read_token): what
// is a comment, where a quote may stand and which escapes there are is decided alike.
type lexer struct {
	file string
	text string
	pos  int
	line int // of pos, from 1
}

// statement is what ends in ";", "{" or "}". At the end of the text all is zero.
type statement struct {
	words []string
	line  int  // of the first word
	end   byte // ';', '{' or '}'
}

// meant is the comment that says that what a line does is meant.
const meant = "stile: meant"

func (l *lexer) errorf(line int, format string, args ...any) error {
	return fmt.Errorf("%s:%d: %s", l.file, line, fmt.Sprintf(format, args...))
}

// next reads one statement. A comment at the end of a line is handed to remark, with its line.
func (l *lexer) next(remark func(line int, text string)) (s statement, err error) {
	for {
		c, ok := l.skip(remark)
		if !ok {
			if len(s.words) > 0 {
				return s, l.errorf(s.line, `%q is not ended by ";" or "{": the file is cut off here`, s.words[0])
			}
			return statement{}, nil
		}
		switch c {
		case ';', '{':
			l.pos++
			if len(s.words) == 0 {
				return s, l.errorf(l.line, "unexpected %q", c)
			}
			s.end = c
			return s, nil
		case '}':
			if len(s.words) > 0 {
				return s, l.errorf(l.line, `unexpected "}": %q in line %d is not ended by ";"`, s.words[0], s.line)
			}
			l.pos++
			return statement{line: l.line, end: '}'}, nil
		}
		if len(s.words) == 0 {
			s.line = l.line
		}
		word, err := l.word()
		if err != nil {
			return s, err
		}
		s.words = append(s.words, word)
	}
}

// skip goes to the next byte that is neither white space nor part of a comment.
func (l *lexer) skip(remark func(line int, text string)) (c byte, ok bool) {
	for l.pos < len(l.text) {
		switch c := l.text[l.pos]; c {
		case '\n':
			l.line++
			l.pos++
		case ' ', '\t', '\r':
			l.pos++
		case '#':
			end := strings.IndexByte(l.text[l.pos:], '\n')
			if end < 0 {
				end = len(l.text) - l.pos
			}
			remark(l.line, strings.TrimSpace(l.text[l.pos+1:l.pos+end]))
			l.pos += end
		default:
			return c, true
		}
	}
	return 0, false
}

// word reads one parameter, quoted or not, and takes its escapes away. "}" and "#" are ordinary within one, and "{" is
// after "$".
func (l *lexer) word() (string, error) {
	begin, line := l.pos, l.line
	quote := byte(0)
	if c := l.text[l.pos]; c == '"' || c == '\'' {
		quote = c
		l.pos++
		begin++
	}
	variable := false
	for ; l.pos < len(l.text); l.pos++ {
		c := l.text[l.pos]
		if l.pos-begin > maxWord {
			return "", l.errorf(line, "a parameter of more than %d bytes: is a quotation mark missing?", maxWord)
		}
		switch {
		case c == '\\':
			if l.pos++; l.pos < len(l.text) && l.text[l.pos] == '\n' {
				l.line++
			}
			variable = false
			continue
		case c == '\n':
			if quote == 0 {
				return unescape(l.text[begin:l.pos]), nil
			}
			l.line++
		case quote != 0 && c == quote:
			word := unescape(l.text[begin:l.pos])
			l.pos++
			return word, l.afterQuote()
		case quote == 0 && (c == ' ' || c == '\t' || c == '\r' || c == ';' || c == '{' && !variable):
			return unescape(l.text[begin:l.pos]), nil
		}
		variable = c == '$'
	}
	l.pos = len(l.text)
	if quote != 0 {
		return "", l.errorf(line, "a quotation mark (%c) that is not closed", quote)
	}
	return unescape(l.text[begin:]), nil
}

// afterQuote checks that a quoted word ends there, as nginx wants it. ")" begins a word of its own: the end of an if.
func (l *lexer) afterQuote() error {
	if l.pos < len(l.text) && strings.IndexByte(" \t\r\n;{)", l.text[l.pos]) < 0 {
		return l.errorf(l.line, "unexpected %q after a quotation mark", l.text[l.pos])
	}
	return nil
}

func unescape(s string) string {
	if strings.IndexByte(s, '\\') < 0 {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) {
			switch s[i+1] {
			case '"', '\'', '\\':
				i++
			case 't':
				b.WriteByte('\t')
				i++
				continue
			case 'r':
				b.WriteByte('\r')
				i++
				continue
			case 'n':
				b.WriteByte('\n')
				i++
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// lua goes behind the "}" that ends a block of Lua (OpenResty's …_by_lua_block). Braces in strings, long strings and
// comments do not count.
func (l *lexer) lua(name string, line int) error {
	for depth := 1; l.pos < len(l.text); {
		switch c := l.text[l.pos]; {
		case c == '{':
			depth++
			l.pos++
		case c == '}':
			l.pos++
			if depth--; depth == 0 {
				return nil
			}
		case c == '"' || c == '\'':
			l.luaString(c)
		case strings.HasPrefix(l.text[l.pos:], "--"):
			l.pos += 2
			if !l.luaLong() {
				if end := strings.IndexByte(l.text[l.pos:], '\n'); end >= 0 {
					l.pos += end
				} else {
					l.pos = len(l.text)
				}
			}
		case c == '[':
			if !l.luaLong() {
				l.pos++
			}
		default:
			if c == '\n' {
				l.line++
			}
			l.pos++
		}
	}
	return l.errorf(line, "the Lua of %q is not closed: the file is cut off here", name)
}

func (l *lexer) luaString(quote byte) {
	for l.pos++; l.pos < len(l.text); l.pos++ {
		switch l.text[l.pos] {
		case '\\':
			if l.pos++; l.pos < len(l.text) && l.text[l.pos] == '\n' {
				l.line++
			}
		case '\n': // it may not go on here: whatever this is, it is not the end of the file
			return
		case quote:
			l.pos++
			return
		}
	}
}

// luaLong goes behind a long string or comment, "[[…]]" or "[==[…]==]", if one begins here.
func (l *lexer) luaLong() bool {
	rest := l.text[l.pos:]
	if !strings.HasPrefix(rest, "[") {
		return false
	}
	level := len(rest[1:]) - len(strings.TrimLeft(rest[1:], "="))
	if !strings.HasPrefix(rest[1+level:], "[") {
		return false
	}
	close := "]" + rest[1:1+level] + "]"
	end := len(rest) // not closed
	if i := strings.Index(rest[2+level:], close); i >= 0 {
		end = 2 + level + i + len(close)
	}
	l.line += strings.Count(rest[:end], "\n")
	l.pos += end
	return true
}
