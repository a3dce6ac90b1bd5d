package config

import (
	"strings"

	"github.com/BurntSushi/toml"
)

// node is where a value, a table or an array stands in a file. The TOML library
// reports lines for syntax errors only, so locate finds them by a second reading of
// the text, which the library has then found to be valid.
type node struct {
	line int
	text string           // a value as it was written; "" for a table with a header
	keys map[string]*node // of a table
	list []*node          // of an array, or of an array of tables
}

// at is the place of a key; a key that is not found is said to stand where its table
// stands, so that a mistake always has a line.
func (n *node) at(key string) *node {
	if c := n.keys[key]; c != nil {
		return c
	}
	return &node{line: n.line}
}

// item is the place of an element.
func (n *node) item(i int) *node {
	if i < len(n.list) {
		return n.list[i]
	}
	return &node{line: n.line}
}

func (n *node) child(key string, line int) *node {
	if n.keys == nil {
		n.keys = map[string]*node{}
	}
	c := n.keys[key]
	if c == nil {
		c = &node{line: line}
		n.keys[key] = c
	}
	return c
}

// last is the table that [a.b] means when a is an array of tables: its newest.
func (n *node) last() *node {
	if len(n.list) > 0 {
		return n.list[len(n.list)-1]
	}
	return n
}

// maxDepth is how many brackets may be open at once, and how many parts a dotted key may
// have, for which the library takes time by the square. A configuration needs four.
const maxDepth = 32

// locate finds every key and element of a valid TOML text. It ends for any text; for
// an invalid one the places mean nothing. deep: something goes deeper than maxDepth, at
// the root's line.
func locate(text string) (root *node, deep bool) {
	s := scanner{s: text, line: 1}
	root = &node{line: 1}
	table := root
	for s.blank(true); s.i < len(s.s); s.blank(true) {
		start := s.i
		line := s.line
		if s.s[s.i] == '[' {
			array := strings.HasPrefix(s.s[s.i:], "[[")
			s.i++
			if array {
				s.i++
			}
			table = root
			path := s.key()
			for k, name := range path {
				table = table.child(name, line)
				if k < len(path)-1 {
					table = table.last()
				}
			}
			if array {
				element := &node{line: line}
				table.list = append(table.list, element)
				table = element
			} else {
				table.line = line
			}
			s.skip(']')
			s.skip(']')
		} else {
			s.pair(table)
		}
		if s.deep {
			return &node{line: s.line}, true
		}
		if s.i == start {
			s.i++ // not TOML: end anyway
		}
	}
	return root, false
}

type scanner struct {
	s    string
	i    int
	line int
	open int
	deep bool
}

// blank skips blanks and comments, and line ends too if told so.
func (s *scanner) blank(lines bool) {
	for s.i < len(s.s) {
		switch c := s.s[s.i]; {
		case c == ' ' || c == '\t' || c == '\r':
		case c == '\n' && lines:
			s.line++
		case c == '#':
			for s.i+1 < len(s.s) && s.s[s.i+1] != '\n' {
				s.i++
			}
		case s.i == 0 && strings.HasPrefix(s.s, "\xef\xbb\xbf"):
			s.i += 2
		default:
			return
		}
		s.i++
	}
}

func (s *scanner) skip(c byte) {
	s.blank(false)
	if s.i < len(s.s) && s.s[s.i] == c {
		s.i++
	}
}

// key reads a dotted key: a.b."c d".
func (s *scanner) key() (path []string) {
	for {
		s.blank(false)
		start := s.i
		if s.i < len(s.s) && (s.s[s.i] == '"' || s.s[s.i] == '\'') {
			s.quoted()
			path = append(path, unquote(s.s[start:s.i]))
		} else {
			for s.i < len(s.s) && strings.IndexByte(" \t\r\n=.]#,}", s.s[s.i]) < 0 {
				s.i++
			}
			path = append(path, s.s[start:s.i])
		}
		s.blank(false)
		s.deep = s.deep || len(path) > maxDepth
		if s.i >= len(s.s) || s.s[s.i] != '.' || s.deep {
			return path
		}
		s.i++
	}
}

// pair reads KEY = VALUE into a table.
func (s *scanner) pair(table *node) {
	line := s.line
	for _, name := range s.key() {
		table = table.child(name, line)
	}
	s.skip('=')
	s.blank(false)
	v := s.value()
	table.line, table.text, table.list = line, v.text, v.list
	if v.keys != nil {
		table.keys = v.keys
	}
}

func (s *scanner) value() *node {
	n := &node{line: s.line}
	start := s.i
	if s.i >= len(s.s) {
		return n
	}
	switch c := s.s[s.i]; c {
	case '"', '\'':
		s.quoted()
	case '[', '{':
		end := byte(']')
		if c == '{' {
			end = '}'
			n.keys = map[string]*node{}
		}
		s.i++
		s.open++
		s.deep = s.deep || s.open > maxDepth
		for s.blank(true); s.i < len(s.s) && s.s[s.i] != end && !s.deep; s.blank(true) {
			before := s.i
			if c == '{' {
				s.pair(n)
			} else {
				n.list = append(n.list, s.value())
			}
			s.blank(true)
			s.skip(',')
			if s.i == before {
				s.i++ // not TOML: end anyway
			}
		}
		s.skip(end)
		s.open--
	default:
		for s.i < len(s.s) && strings.IndexByte(",]}#\n", s.s[s.i]) < 0 {
			s.i++
		}
	}
	n.text = strings.TrimSpace(s.s[start:s.i])
	return n
}

// quoted skips a string of any of the four kinds.
func (s *scanner) quoted() {
	q := s.s[s.i]
	three := strings.Repeat(s.s[s.i:s.i+1], 3)
	if !strings.HasPrefix(s.s[s.i:], three) {
		for s.i++; s.i < len(s.s) && s.s[s.i] != q && s.s[s.i] != '\n'; s.i++ {
			if q == '"' && s.s[s.i] == '\\' {
				s.i++
			}
		}
		s.i = min(s.i+1, len(s.s))
		return
	}
	for s.i += 3; s.i < len(s.s); s.i++ {
		switch {
		case s.s[s.i] == '\n':
			s.line++
		case q == '"' && s.s[s.i] == '\\':
			s.i++ // and what it escapes; a line end counts
			if s.i < len(s.s) && s.s[s.i] == '\n' {
				s.line++
			}
		case strings.HasPrefix(s.s[s.i:], three):
			s.i += 3
			for range 2 { // up to two quotes may stand before the closing three
				if s.i < len(s.s) && s.s[s.i] == q {
					s.i++
				}
			}
			return
		}
	}
	s.i = len(s.s)
}

// unquote is the value of a quoted key, by the library's own reading.
func unquote(quoted string) string {
	var v struct{ K string }
	if _, err := toml.Decode("K="+quoted, &v); err != nil {
		return quoted
	}
	return v.K
}
