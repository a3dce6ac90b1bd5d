package lint

import (
	"bytes"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
)

// Limits of what is read. They are far above any real configuration: lists of addresses with half a million lines fit.
const (
	MaxDump       = 64 << 20 // bytes
	maxDirectives = 1_000_000
	maxDepth      = 100 // of blocks and includes
	maxMistakes   = 10
)

// directive is one directive, with its block if it has one.
type directive struct {
	name  string
	args  []string
	block []*directive
	open  bool // it has a block, which may be empty
	file  string
	line  int
	meant bool // its line says that this is meant
}

func (d *directive) pos() string { return fmt.Sprintf("%s:%d", d.file, d.line) }

// String is the directive as one would write it, without its block.
func (d *directive) String() string {
	var b strings.Builder
	b.WriteString(d.name)
	for _, a := range d.args {
		if a == "" || strings.ContainsAny(a, " \t\r\n;{}\"'") {
			a = `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\r", `\r`, "\t", `\t`).Replace(a) + `"`
		}
		b.WriteString(" " + a)
	}
	return b.String()
}

// arg is the n-th argument, from 0, or "".
func (d *directive) arg(n int) string {
	if d == nil || n >= len(d.args) {
		return ""
	}
	return d.args[n]
}

// dump is the output of nginx -T: every file of the configuration once.
type dump struct {
	main  string // the first file
	names []string
	files map[string][]*directive
}

const header = "# configuration file "

// parse takes the output of nginx -T apart. All mistakes are reported, up to ten.
func parse(text []byte) (*dump, error) {
	switch {
	case len(bytes.TrimSpace(text)) == 0:
		return nil, errors.New("is empty; write `nginx -T > FILE`, as root")
	case len(text) > MaxDump:
		return nil, fmt.Errorf("has more than %d MB, which no configuration has", MaxDump>>20)
	case bytes.HasPrefix(text, []byte("\x1f\x8b")):
		return nil, errors.New("is compressed; write `zcat FILE | stile check --nginx -`")
	case bytes.IndexByte(text, 0) >= 0:
		return nil, errors.New("is binary, and not the output of nginx -T; write `nginx -T > FILE`")
	}
	d := &dump{files: make(map[string][]*directive)}
	parts, before := split(string(text))
	if len(parts) == 0 {
		for line := range strings.Lines(before) {
			if strings.Contains(line, "[emerg]") {
				return nil, fmt.Errorf("holds no configuration: nginx has refused its own (%s)", strings.TrimSpace(line))
			}
		}
		if strings.Contains(before, " test is successful\n") {
			return nil, errors.New("is the output of nginx -t, which only tests; write `nginx -T > FILE`, as root: with a capital T it writes the configuration, too")
		}
		if list, err := (&lexer{text: before, line: 1}).block(0, new(int)); err == nil && slices.ContainsFunc(list, func(d *directive) bool { return d.open }) {
			return nil, errors.New("is one file of a configuration, without what it includes and what includes it; write `nginx -T > FILE`, as root, which has all of them")
		}
		return nil, fmt.Errorf("is not the output of nginx -T: there is no line %q; write `nginx -T > FILE`, as root", header+"/etc/nginx/nginx.conf:")
	}
	var mistakes []error
	count := 0
	for _, p := range parts {
		if d.files[p.name] != nil {
			continue // nginx writes each once
		}
		l := &lexer{file: p.name, text: p.text, line: 1}
		list, err := l.block(0, &count)
		if err != nil {
			if mistakes = append(mistakes, err); len(mistakes) == maxMistakes {
				break
			}
		}
		if list == nil {
			list = []*directive{}
		}
		d.files[p.name] = list
		d.names = append(d.names, p.name)
	}
	if len(mistakes) > 0 {
		return nil, fmt.Errorf("cannot be read; is it the whole output of nginx -T?\n%w", errors.Join(mistakes...))
	}
	d.main = d.names[0]
	return d, nil
}

// part is the text of one file.
type part struct{ name, text string }

// split cuts a dump at its headers. before is what comes before the first: nginx's own messages.
func split(text string) (parts []part, before string) {
	begin, name := 0, ""
	cut := func(end int) {
		if name == "" {
			before = text[:end]
		} else {
			parts = append(parts, part{name, text[begin:end]})
		}
	}
	for at := 0; at < len(text); {
		end := strings.IndexByte(text[at:], '\n')
		if end < 0 {
			end = len(text)
		} else {
			end += at + 1
		}
		if n, ok := strings.CutPrefix(text[at:end], header); ok {
			n = strings.TrimRight(n, "\r\n")
			if n, ok = strings.CutSuffix(n, ":"); ok && n != "" {
				cut(at)
				begin, name = end, n
			}
		}
		at = end
	}
	cut(len(text))
	return parts, before
}

// block reads directives up to the "}" that ends a block, or, at depth 0, to the end of the file.
func (l *lexer) block(depth int, count *int) (list []*directive, err error) {
	var last *directive
	lastLine := 0
	remark := func(line int, text string) {
		if last != nil && line == lastLine && strings.HasPrefix(text, meant) {
			last.mean(line)
		}
	}
	for {
		s, err := l.next(remark)
		if err != nil {
			return nil, err
		}
		switch {
		case s.end == '}' && depth == 0:
			return nil, l.errorf(s.line, `unexpected "}"`)
		case s.end == '}':
			return list, nil
		case s.end == 0 && depth > 0:
			return nil, errNotClosed
		case s.end == 0:
			return list, nil
		}
		if *count++; *count > maxDirectives {
			return nil, l.errorf(s.line, "more than %d directives, which no configuration has", maxDirectives)
		}
		d := &directive{name: s.words[0], args: s.words[1:], file: l.file, line: s.line}
		list, last, lastLine = append(list, d), d, l.line
		if s.end == ';' {
			continue
		}
		d.open = true
		if depth == maxDepth {
			return nil, l.errorf(s.line, "blocks in blocks, more than %d deep", maxDepth)
		}
		if strings.HasSuffix(d.name, "_by_lua_block") {
			if err := l.lua(d.name, s.line); err != nil {
				return nil, err
			}
			continue
		}
		l.opened(d)
		d.block, err = l.block(depth+1, count)
		if err == errNotClosed {
			return nil, l.errorf(s.line, `the block %q is not closed: the file is cut off, or a "}" is missing`, d.name)
		}
		if err != nil {
			return nil, err
		}
		last, lastLine = d, l.line // a remark behind "}" is about it, too
	}
}

// mean says that what a directive does is meant, and what is in its block on the same line.
func (d *directive) mean(line int) {
	d.meant = true
	for _, x := range d.block {
		if x.line == line {
			x.mean(line)
		}
	}
}

// opened looks for a remark behind "{".
func (l *lexer) opened(d *directive) {
	rest, _, _ := strings.Cut(l.text[l.pos:], "\n")
	if c, ok := strings.CutPrefix(strings.TrimSpace(rest), "#"); ok && strings.HasPrefix(strings.TrimSpace(c), meant) {
		d.meant = true
	}
}

var errNotClosed = errors.New("not closed")

// included is the files that an include directive names, in nginx's order. Relative names begin at the main file's folder.
func (d *dump) included(inc *directive) ([]string, error) {
	name := inc.arg(0)
	if !strings.HasPrefix(name, "/") {
		name = path.Dir(d.main) + "/" + name
	}
	if !strings.ContainsAny(name, "*?[") {
		for _, n := range d.names {
			if n == name || path.Clean(n) == path.Clean(name) {
				return []string{n}, nil
			}
		}
		return nil, fmt.Errorf("%s: the file %s is not in the output of nginx -T: is that whole?", inc.pos(), name)
	}
	var found []string
	for _, n := range d.names {
		ok, err := path.Match(path.Clean(name), path.Clean(n))
		if err == nil && ok && !hidden(name, n) {
			found = append(found, n)
		}
	}
	slices.Sort(found)
	return found, nil
}

// hidden: as in a shell, "*" does not stand for a name that begins with a dot.
func hidden(pattern, name string) bool {
	return strings.HasPrefix(path.Base(name), ".") && !strings.HasPrefix(path.Base(pattern), ".")
}
