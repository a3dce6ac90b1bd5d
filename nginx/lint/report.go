package lint

import (
	"bufio"
	"fmt"
	"io"
	"strings"
)

// summary is what holds for a server, in words.
func (l *linter) summary(srv *scope) Server {
	sd := l.sides[srv]
	out := Server{Name: srv.title(), File: srv.d.file, Line: srv.d.line, Protected: sd.asks}
	has := srv.route("/") != nil // else the server itself answers, too
	for _, s := range sd.scopes {
		if s.kind != locationScope && (s.kind != serverScope || has) {
			continue
		}
		name := strings.TrimPrefix(s.path(), "location ")
		if s.kind == serverScope {
			name = "(no location)"
		}
		switch v := sd.verdict[s]; {
		case v == stile && l.answers(s):
			out.Unasked = append(out.Unasked, name+" (return, "+s.own["return"][0].pos()+")")
		case v == stile && l.gated(s):
			out.Gated = append(out.Gated, name)
		case v == stile:
			out.Asked = append(out.Asked, name)
		case v == somebodyElse:
			out.Unasked = append(out.Unasked, name+" ("+s.last("auth_request").String()+", "+s.last("auth_request").pos()+")")
		case s.last("auth_request") != nil:
			out.Unasked = append(out.Unasked, name+" (auth_request off, "+s.last("auth_request").pos()+")")
		default:
			out.Unasked = append(out.Unasked, name)
		}
	}
	out.State = l.state(srv)
	return out
}

// answers: nginx answers in the scope by itself, before anybody is asked.
func (l *linter) answers(s *scope) bool {
	for _, d := range s.own["return"] {
		if p, _ := l.errorPageFor(s.nearest("error_page"), d.arg(0)); p == nil || len(d.args) > 1 {
			return true
		}
	}
	return false
}

// gated: the scope sees its requests through.
func (l *linter) gated(s *scope) bool {
	p := s.pass()
	return p != nil && protocol(p) != "" && s.value(protocol(p)+"_ignore_client_abort") == "on"
}

func (l *linter) state(srv *scope) string {
	sd := l.sides[srv]
	if first := l.before(srv); first != nil {
		return "ignored by nginx: " + first.d.pos() + " has its name"
	}
	switch {
	case sd.asks:
		for _, s := range srv.scopes() {
			if _, to := l.errorPageFor(s.nearest("error_page"), "502"); sd.check[s] && to == "@stile_open" {
				return "protected, and open while stile is down"
			}
		}
		return "protected, and closed while stile is down"
	case sd.outer:
		return "hands everything to protected servers"
	}
	var to []string
	for _, s := range sd.scopes {
		if p := s.pass(); p != nil && !s.harmless() {
			to = append(to, p.arg(0))
		}
	}
	switch {
	case len(to) > 0 && srv.private():
		return "not protected; only this machine can reach it"
	case len(to) > 0:
		return "not protected; hands on to " + to[0]
	}
	return "not protected; no program answers here"
}

// colours of a terminal.
const (
	red, yellow, cyan, bold, plain = "\x1b[1;31m", "\x1b[1;33m", "\x1b[1;36m", "\x1b[1m", "\x1b[0m"
)

// Write writes the report as text, with colours for a terminal or without.
func (r *Report) Write(w io.Writer, colours bool) error {
	b := bufio.NewWriter(w)
	paint := func(colour, text string) string {
		text = printable(text)
		if !colours {
			return text
		}
		return colour + text + plain
	}
	for _, f := range r.Findings {
		colour := map[Severity]string{Error: red, Warning: yellow, Note: cyan}[f.Severity]
		fmt.Fprintf(b, "%s %s %s\n", paint(colour, f.Severity.String()+":"), paint(bold, fmt.Sprintf("%s:%d:", f.File, f.Line)), printable(f.Says))
		more := ""
		if f.More > 0 {
			more = fmt.Sprintf(", and %d more", f.More)
		}
		fmt.Fprintf(b, "  in:    %s%s [%s]\n", printable(f.Where), more, f.Code)
		fmt.Fprintf(b, "  seen:  %s\n", printable(f.Seen))
		fmt.Fprintf(b, "  write: %s\n\n", printable(f.Write))
	}
	for _, s := range r.Servers {
		fmt.Fprintf(b, "%s (%s:%d): %s\n", paint(bold, "server "+s.Name), printable(s.File), s.Line, printable(s.State))
		if !s.Protected {
			continue
		}
		for _, line := range []struct {
			what string
			list []string
		}{{"asked", s.Asked}, {"asked, for a gate", s.Gated}, {"not asked", s.Unasked}} {
			if len(line.list) > 0 {
				fmt.Fprintf(b, "  %-18s %s\n", line.what+":", printable(strings.Join(line.list, ", ")))
			}
		}
	}
	count := func(s Severity) string {
		n := r.Count(s)
		if n == 1 {
			return "1 " + s.String()
		}
		return fmt.Sprintf("%d %ss", n, s)
	}
	if len(r.Servers) > 0 {
		fmt.Fprintln(b)
	}
	fmt.Fprintf(b, "%s, %s, %s\n", count(Error), count(Warning), count(Note))
	return b.Flush()
}

// printable takes control bytes out of a configuration's text, so that it cannot speak to a terminal.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 {
			return '?'
		}
		return r
	}, s)
}
