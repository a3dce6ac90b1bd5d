package replay

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"strings"
	"time"
)

//go:embed report.html
var reportHTML string

//go:embed report.css
var reportCSS string

var page = template.Must(template.New("report").Parse(reportHTML))

// The page's own policy: its style, and nothing from anywhere. A hostile path or agent that
// found a way past the escaping would still be text.
var pageCSP = func() string {
	sum := sha256.Sum256([]byte(reportCSS))
	return "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'; base-uri 'none'; form-action 'none'"
}()

type pageData struct {
	Title    string
	CSP      string
	CSS      template.CSS
	Big      []bigNumber
	Sections []pageSection
}

type bigNumber struct{ Name, Value string }

type pageSection struct {
	Title, Intro string
	Lines        []string
	After        string
	Figures      []figure
	Pairs        bool // two figures belong side by side
	Head         []pageColumn
	Rows         [][]cell
}

type pageColumn struct {
	Name  string
	Right bool
}

type cell struct {
	Text  string
	Head  bool
	Class string
	SVG   template.HTML
}

// WriteHTML writes the report as one page, with plots. It needs nothing from elsewhere, and
// runs nothing.
func (r *Report) WriteHTML(w io.Writer) error {
	v := &r.Verdicts
	d := pageData{
		Title: stamp(r.First) + " to " + stamp(r.Last), CSP: pageCSP, CSS: template.CSS(reportCSS),
		Big: []bigNumber{
			{"requests", count(r.Requests)},
			{"callers, about", count(int64(r.Callers))},
			{"asked, if nobody solves", orNone(percent(v[0].Asked, r.Requests))},
			{"refused, if nobody solves", orNone(percent(v[0].Refused, r.Requests))},
			{"proofs, if all solve", count(v[1].Asked)},
			{"refused, if all solve", orNone(percent(v[1].Refused, r.Requests))},
		},
	}
	for _, s := range r.sections() {
		d.Sections = append(d.Sections, r.pageSection(&s))
	}
	return page.Execute(w, &d)
}

// together keeps a number and its sign in one line.
func together(s string) string { return strings.ReplaceAll(s, " %", "\u00a0%") }

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

func (r *Report) pageSection(s *section) pageSection {
	p := pageSection{Title: s.title, Intro: s.intro, Lines: s.lines, After: s.after}
	if s.titled() {
		for _, c := range s.head {
			p.Head = append(p.Head, pageColumn{together(c.name), c.right})
		}
	}
	for _, row := range s.rows {
		var cells []cell
		for i, text := range row {
			c := cell{Text: together(text), Head: i == 0}
			switch {
			case s.head[i].right:
				c.Class = "r"
			case len(text) > 30 && i > 0:
				c.Class = "t"
			}
			cells = append(cells, c)
		}
		p.Rows = append(p.Rows, cells)
	}
	switch s.kind {
	case kindVerdicts:
		p.Figures = []figure{r.verdictPlot()}
	case kindRules:
		p.Head = append(p.Head[:2:2], append([]pageColumn{{"", false}}, p.Head[2:]...)...)
		for i := range p.Rows {
			p.Rows[i] = append(p.Rows[i][:2:2], append([]cell{{SVG: r.ruleBar(&r.Rules[i])}}, p.Rows[i][2:]...)...)
		}
	case kindChoices:
		for i := range r.Choices {
			p.Figures = append(p.Figures, r.Choices[i].plot())
		}
	case kindGates:
		p.Pairs = true
		for i := range r.Gates {
			p.Figures = append(p.Figures, r.Gates[i].plots(r.First.Location())...)
		}
	}
	return p
}

// tick is one label of an axis.
type tick struct {
	Text string
	Mid  bool // left out where there is little room
}

// times are the labels of an axis of time.
func times(from, to int64, zone *time.Location) []tick {
	layout := "15:04:05"
	switch d := time.Duration(to - from); {
	case d > 72*time.Hour:
		layout = "2006-01-02"
	case d > 12*time.Hour:
		layout = "01-02 15:04"
	case d > 20*time.Minute:
		layout = "15:04"
	}
	var out []tick
	for i := range int64(5) {
		t := from + (to-from)/4*i
		out = append(out, tick{time.Unix(0, t).In(zone).Format(layout), i == 1 || i == 3})
	}
	return out
}

func every(step int64) string {
	d := time.Duration(step)
	if d%(24*time.Hour) == 0 {
		return fmt.Sprintf("%d days", d/(24*time.Hour))
	}
	return window(d)
}
