package lint

import (
	"regexp"
	"slices"
	"strings"
)

// A server's own set, if, rewrite, return and break run before a location is looked for, and once more in each
// subrequest: also in the one that puts the question to stile. There $uri is /.stile/check and there are no arguments;
// the variables are the visitor's request's own, so what is set there holds for it afterwards.
//
// The second run is followed here. A condition about the client (a header, the method, the host) comes out as it did
// the first time, so a return behind it has ended the request by then. One about the path or the arguments does not.

// step is a directive of the rewrite phase, and the scope of its block if it is an if.
type step struct {
	d     *directive
	block *scope
}

// rewriting tells whether a directive runs in the rewrite phase.
func rewriting(name string) bool {
	return name == "set" || name == "if" || name == "rewrite" || name == "return" || name == "break"
}

// varies: a variable has another value in the subrequest than in the request.
func varies(name string) bool {
	switch name {
	case "uri", "document_uri", "args", "query_string", "is_args", "request_filename", "realpath_filename", "fastcgi_script_name":
		return true
	}
	return strings.HasPrefix(name, "arg_")
}

// ordinary is paths of ordinary requests: what holds for all of them is taken to hold for any.
var ordinary = []string{"/", "/x", "/x/", "/x/y/z.html", "/index.php", "/.well-known/x"}

// phase is one run through a server's rewrite phase, for a path without arguments.
type phase struct {
	uri      string
	captures []string          // of the last expression that was held against something known
	texts    map[string]string // of variables, where they are known
	ended    bool

	moved   []move            // rewrites that lead somewhere else
	answers []*directive      // returns and redirects that answer here, and have not answered the first time
	ran     map[string][]*set // by variable
	missed  map[string]bool   // variables with a set that was run the first time, perhaps, and not here
}

// move is a rewrite, and the path that it makes.
type move struct {
	d   *directive
	uri string
}

// set is a set directive that is run.
type set struct {
	d      *directive
	varies bool // its value, or whether it is run, hangs on the path
}

// rerun follows the run for a path of stile's.
func (s *scope) rerun(uri string) *phase {
	p := &phase{uri: uri, texts: make(map[string]string), ran: make(map[string][]*set), missed: make(map[string]bool)}
	p.steps(s.phase, false, false)
	return p
}

// steps runs a list. byPath: it is run here, and for a visitor's path perhaps not. perhaps: it is run for some clients,
// and for those the first time, too.
func (p *phase) steps(list []step, byPath, perhaps bool) {
	for _, st := range list {
		switch d := st.d; d.name {
		case "break":
			p.ended = true
		case "return":
			if byPath {
				p.answers = append(p.answers, d)
			}
			p.ended = true
		case "set":
			p.set(d, byPath, perhaps)
		case "rewrite":
			p.rewrite(d, byPath)
		case "if":
			p.branch(st, byPath, perhaps)
		}
		if p.ended {
			return
		}
	}
}

func (p *phase) branch(st step, byPath, perhaps bool) {
	if st.block == nil {
		return // nginx knows no if in an if
	}
	words := condition(st.d)
	switch holds, known := p.holds(words); {
	case !known:
		uri := p.uri
		p.captures = nil
		p.steps(st.block.phase, byPath, true)
		p.uri, p.captures, p.ended = uri, nil, false // it goes on for the other clients
	case holds:
		p.steps(st.block.phase, byPath || !p.always(words), perhaps)
	default:
		p.miss(st.block.phase)
	}
}

// miss notes what is not run here because of the path.
func (p *phase) miss(list []step) {
	for _, st := range list {
		if st.d.name == "set" {
			p.missed[st.d.arg(0)] = true
		}
	}
}

func (p *phase) set(d *directive, byPath, perhaps bool) {
	name := d.arg(0)
	if len(name) < 2 || name[0] != '$' {
		return // nginx wants a variable
	}
	x := &set{d: d, varies: byPath}
	for _, v := range variables(d.arg(1)) {
		_, is := p.captured(v)
		x.varies = x.varies || varies(v) || is || "$"+v == name && len(p.ran[name]) == 0
		for _, before := range p.ran["$"+v] {
			x.varies = x.varies || before.varies
		}
	}
	p.ran[name] = append(p.ran[name], x)
	text, known := p.text(d.arg(1))
	if delete(p.texts, name); known && !perhaps {
		p.texts[name] = text
	}
}

func (p *phase) rewrite(d *directive, byPath bool) {
	re := compile(d.arg(0), false)
	if re == nil {
		return // one that Go does not know: nothing is said about it
	}
	m := re.FindStringSubmatch(p.uri)
	if m == nil {
		return
	}
	p.captures = m
	if redirects(d) {
		if byPath || slices.ContainsFunc(ordinary, func(uri string) bool { return !re.MatchString(uri) }) {
			p.answers = append(p.answers, d)
		}
		p.ended = true
		return
	}
	to, _ := p.text(d.arg(1))
	to, _, _ = strings.Cut(to, "?")
	if to != p.uri {
		p.uri = to
		p.moved = append(p.moved, move{d, to})
	}
	p.ended = d.arg(2) == "last" || d.arg(2) == "break"
}

// redirects: a rewrite answers the client, in place of going on with another path.
func redirects(d *directive) bool {
	to, flag := d.arg(1), d.arg(2)
	return flag == "redirect" || flag == "permanent" || strings.HasPrefix(to, "http://") || strings.HasPrefix(to, "https://") || strings.HasPrefix(to, "$scheme")
}

// text puts the values of variables in, where they are known, and leaves the others as they are written.
func (p *phase) text(s string) (out string, known bool) {
	known = true
	out = variableInText.ReplaceAllStringFunc(s, func(v string) string {
		name := strings.Trim(v, "${}")
		if name == "uri" || name == "document_uri" || name == "fastcgi_script_name" {
			return p.uri
		}
		if name == "args" || name == "query_string" || name == "is_args" || strings.HasPrefix(name, "arg_") {
			return ""
		}
		if text, ok := p.captured(name); ok {
			return text
		}
		if text, ok := p.texts["$"+name]; ok {
			return text
		}
		known = false
		return v
	})
	return out, known
}

// captured is the text of $1 to $9 where it is known.
func (p *phase) captured(name string) (string, bool) {
	if len(name) != 1 || name[0] < '1' || name[0] > '9' || p.captures == nil {
		return "", false
	}
	if n := int(name[0] - '0'); n < len(p.captures) {
		return p.captures[n], true
	}
	return "", true
}

// condition is the words between the parentheses of an if.
func condition(d *directive) (words []string) {
	for i, a := range d.args {
		if i == 0 {
			a = strings.TrimPrefix(a, "(")
		}
		last := i == len(d.args)-1
		if last {
			a = strings.TrimSuffix(a, ")")
		}
		if a != "" || i > 0 && !last {
			words = append(words, a)
		}
	}
	return words
}

// holds is whether a condition holds. known is false if that hangs on more than the path.
func (p *phase) holds(words []string) (holds, known bool) {
	switch len(words) {
	case 1:
		text, ok := p.text(words[0])
		return text != "" && text != "0", ok
	case 2: // -f FILE
		if !strings.HasPrefix(strings.TrimPrefix(words[0], "!"), "-") || !slices.ContainsFunc(variables(words[1]), varies) {
			return false, false
		}
		return words[0][0] == '!', true // stile's paths are no files
	case 3:
		text, ok := p.text(words[0])
		switch op := words[1]; op {
		case "=":
			return text == words[2], ok
		case "!=":
			return text != words[2], ok
		case "~", "~*", "!~", "!~*":
			re := compile(words[2], strings.HasSuffix(op, "*"))
			if re == nil || !ok {
				return false, ok // one that Go does not know: nothing is said about it
			}
			m := re.FindStringSubmatch(text)
			if m != nil {
				p.captures = m
			}
			return (m == nil) == (op[0] == '!'), true
		}
	}
	return false, false
}

// always: a condition that holds here does so whatever is asked for.
func (p *phase) always(words []string) bool {
	if len(words) == 2 {
		return false
	}
	if len(words) == 3 && strings.HasPrefix(words[1], "!") && slices.ContainsFunc(variables(words[0]), varies) {
		return false // it names what there is
	}
	for _, v := range variables(strings.Join(words, " ")) {
		byPath := func(x *set) bool { return x.varies }
		if p.missed["$"+v] || slices.ContainsFunc(p.ran["$"+v], byPath) || varies(v) && v != "uri" && v != "document_uri" {
			return false // there are requests with arguments
		}
	}
	for _, uri := range ordinary {
		if holds, known := (&phase{uri: uri, texts: p.texts}).holds(words); !holds || !known {
			return false
		}
	}
	return true
}

// compile is nil for an expression that Go does not know.
func compile(text string, fold bool) *regexp.Regexp {
	if fold {
		text = "(?i)" + text
	}
	re, err := regexp.Compile(text)
	if err != nil {
		return nil
	}
	return re
}
