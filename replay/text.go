package replay

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// WriteText writes the report as tables for a terminal. What clients sent is quoted.
func (r *Report) WriteText(w io.Writer) error {
	b := bufio.NewWriter(w)
	for _, s := range r.sections() {
		s.writeText(b)
	}
	return b.Flush()
}

// section is one part of the report: a table, or lines.
type section struct {
	title string
	intro string
	head  []column
	rows  [][]string
	lines []string
	after string
	kind  kind // which plots belong to it
}

type kind uint8

const (
	kindPlain kind = iota
	kindVerdicts
	kindRules
	kindChoices
	kindGates
)

type column struct {
	name  string
	right bool
}

func left(name string) column  { return column{name, false} }
func right(name string) column { return column{name, true} }

func (s *section) writeText(b *bufio.Writer) {
	if s.title != "" {
		fmt.Fprintf(b, "\n%s\n", s.title)
	}
	if s.intro != "" {
		wrap(b, "", s.intro)
	}
	for _, l := range s.lines {
		wrap(b, "- ", l)
	}
	if len(s.rows) == 0 {
		return
	}
	width := make([]int, len(s.head))
	for i, c := range s.head {
		width[i] = utf8.RuneCountInString(c.name)
		for _, row := range s.rows {
			width[i] = max(width[i], utf8.RuneCountInString(row[i]))
		}
	}
	line := func(cells func(i int) string) {
		var l strings.Builder
		for i, c := range s.head {
			cell := cells(i)
			pad := strings.Repeat(" ", width[i]-utf8.RuneCountInString(cell))
			if c.right {
				l.WriteString(pad + cell + "  ")
			} else {
				l.WriteString(cell + pad + "  ")
			}
		}
		fmt.Fprintf(b, "  %s\n", strings.TrimRight(l.String(), " "))
	}
	if s.titled() {
		line(func(i int) string { return s.head[i].name })
	}
	for _, row := range s.rows {
		line(func(i int) string { return row[i] })
	}
	if s.after != "" {
		wrap(b, "", s.after)
	}
}

// titled tells whether a table's columns have names.
func (s *section) titled() bool {
	return slices.ContainsFunc(s.head, func(c column) bool { return c.name != "" })
}

// wrap writes a text in lines of at most 100 bytes.
func wrap(b *bufio.Writer, mark, text string) {
	indent := "  " + strings.Repeat(" ", len(mark))
	at := "  " + mark
	for _, word := range strings.Fields(text) {
		if len(at)+len(word) > 100 && strings.TrimSpace(at) != "" && strings.TrimSpace(at) != "-" {
			fmt.Fprintln(b, strings.TrimRight(at, " "))
			at = indent
		}
		at += word + " "
	}
	fmt.Fprintln(b, strings.TrimRight(at, " "))
}

// sections are the report in order.
func (r *Report) sections() []section {
	out := []section{r.summary(), r.verdictSection(), {title: "What the log cannot tell", lines: r.Assumed}, r.ruleSection()}
	if len(r.Limits) > 0 {
		out = append(out, r.limitSection())
	}
	if len(r.Choices) > 0 {
		out = append(out, r.choiceSection())
	}
	if len(r.Top) > 0 {
		out = append(out, r.topSection())
	}
	out = append(out, r.routeSection())
	if len(r.Gates) > 0 {
		out = append(out, r.gateSection())
	}
	if s := r.skippedSection(); len(s.lines) > 0 {
		out = append(out, s)
	}
	return out
}

func (r *Report) summary() section {
	s := section{head: []column{left(""), left("")}}
	s.rows = [][]string{
		{"requests", count(r.Requests)},
		{"from", stamp(r.First)},
		{"to", fmt.Sprintf("%s (%s)", stamp(r.Last), r.Last.Sub(r.First).Round(time.Second))},
		{"callers", "about " + count(int64(r.Callers)) + " (IPv4 addresses, IPv6 /64, users)"},
		{"log", fmt.Sprintf("%s of lines, format: %s", size(r.Bytes), strings.Join(r.Formats, "; "))},
		{"policy", strings.Join(r.Policy, ", ")},
	}
	return s
}

func (r *Report) verdictSection() section {
	v := &r.Verdicts
	row := func(name string, a, b int64) []string {
		return []string{name, count(a), percent(a, r.Requests), count(b), percent(b, r.Requests)}
	}
	s := section{title: "Verdicts", kind: kindVerdicts, head: []column{left(""), right("nobody solves"), right(""), right("all solve"), right("")}}
	s.rows = [][]string{
		row("allowed", v[0].Allowed, v[1].Allowed),
		row("asked for a proof", v[0].Asked, v[1].Asked),
		row("refused", v[0].Refused, v[1].Refused),
	}
	if len(r.Gates) > 0 {
		s.rows = append(s.rows, row("of the allowed, refused at a gate", r.AtGates[0], r.AtGates[1]))
	}
	if v[1].Asked > 0 {
		s.intro = "If all solve, each proof is counted once, and the request that it was asked for is allowed or refused as well."
	}
	return s
}

func (r *Report) ruleSection() section {
	s := section{title: "By rule", kind: kindRules, head: []column{left("rule"), right("requests"), right("callers"), right("allowed"), right("asked"), right("refused"), right("callers stopped"), left("first"), left("by"), right("if all solve: proofs"), right("refused")}}
	for i := range r.Rules {
		c := &r.Rules[i]
		name := c.Name
		if c.Observes {
			name += fmt.Sprintf(" (observes: would stop %s)", count(c.Would))
		}
		s.rows = append(s.rows, []string{name, count(c.Requests), count(int64(c.Callers)), count(c.Verdicts[0].Allowed), count(c.Verdicts[0].Asked), count(c.Verdicts[0].Refused),
			count(int64(c.Stopped)), stamp(c.First), c.Reasons, count(c.Verdicts[1].Asked), count(c.Verdicts[1].Refused)})
	}
	if len(r.Unused) > 0 {
		s.after = "Nothing fell under " + strings.Join(r.Unused, ", ") + "."
	}
	return s
}

func (r *Report) limitSection() section {
	s := section{title: "Limits that were reached, if nobody solves", head: []column{left("meter"), left("by"), left("limit"), right("requests"), right("callers"), left("first")}}
	for _, c := range r.Limits {
		limit := fmt.Sprintf("%s × 8 (/24), × 4 (/56), × 16 (/48) in %s", count(c.Stranger), window(c.Window))
		if c.Limit > 0 {
			limit = fmt.Sprintf("%s in %s", count(c.Limit), window(c.Window))
		}
		s.rows = append(s.rows, []string{c.Meter, c.Of, limit, count(c.Requests), count(int64(c.Callers)), stamp(c.First)})
	}
	return s
}

func (r *Report) choiceSection() section {
	s := section{title: "Choosing limits: what was asked of each meter, whatever its limits", kind: kindChoices,
		intro: "First what half, 90 %, 99 % of the callers did not exceed in their busiest window, and the most of one. Then the least limits for a stranger that would have asked one caller in a hundred, and nobody: by its own, or by what the network around it (/24, /56, /48) may use, which is a multiple. Last what all strangers asked for together: a limit for them below that would have asked some.",
		head:  []column{left("meter"), right("window"), right("callers"), right("50 %"), right("90 %"), right("99 %"), right("most"), right("asks 1 %"), right("asks nobody"), right("stranger is"), right("all, in a window"), left("at"), right("strangers is"), right("all, a minute")}}
	for i := range r.Choices {
		c := &r.Choices[i]
		name := c.Meter
		if c.PerSegments {
			name += " (per segment)"
		}
		s.rows = append(s.rows, []string{name, window(c.Window), count(c.Callers), count(c.P50), count(c.P90), count(c.P99), count(c.Most), count(c.OnePercent), count(c.Nobody), limit(c.Stranger),
			count(c.All), stamp(c.AllAt), limit(c.Strangers), count(c.Minute)})
	}
	return s
}

func (r *Report) topSection() section {
	s := section{title: "Callers that were asked or refused most, if nobody solves", head: []column{left("caller"), right("requests"), right("asked"), right("refused"), left("first"), left("why"), left("rule"), left("first for"), left("agent")}}
	for _, c := range r.Top {
		s.rows = append(s.rows, []string{visible(c.Who, 60), count(c.Requests), count(c.Asked), count(c.Refused), stamp(c.First), c.Why, c.Rule, visible(c.Target, 48), visible(c.Agent, 40)})
	}
	return s
}

func (r *Report) routeSection() section {
	s := section{title: "By the first segment of the path", head: []column{left("path"), right("requests"), right("asked"), right("refused"), right("bytes")}}
	timed := !r.NoTimes
	if timed {
		s.head = append(s.head, right("time"), right("mean"))
	}
	for _, c := range r.Routes {
		row := []string{visible(c.Path, 48), count(c.Requests), count(c.Asked), count(c.Refused), size(c.Bytes)}
		if timed {
			row = append(row, duration(c.Seconds), duration(c.Mean))
		}
		s.rows = append(s.rows, row)
	}
	return s
}

func (r *Report) gateSection() section {
	s := section{title: "Gates", kind: kindGates, head: []column{left("gate"), left("if"), right("budget"), right("requests"), right("asked"), right("admitted"), right("waited"), right("half of these up to"), right("99 % up to"), right("longest wait"), right("longest queue"), right("most in flight"), right("refused"), left("why"), left("first")}}
	said := map[string]bool{}
	for _, g := range r.Gates {
		s.rows = append(s.rows, []string{g.Name, g.If(), g.Budget, count(g.Requests), count(g.Asked), count(g.Admitted), count(g.Waited), brief(g.WaitP50), brief(g.WaitP99), brief(g.WaitMost),
			fmt.Sprintf("%d of %d", g.MostQueue, g.Places), g.MostInFlight, count(g.RefusedCount), g.Refused, stamp(g.FirstRefused)})
		for _, n := range g.Notes {
			if note := fmt.Sprintf("%s, if %s: %s.", g.Name, g.If(), n); !said[note] {
				said[note] = true
				s.lines = append(s.lines, note)
			}
		}
	}
	return s
}

// If is the reckoning that a row belongs to.
func (g *GateRow) If() string {
	if g.AllSolve {
		return "all solve"
	}
	return "nobody solves"
}

func (r *Report) skippedSection() section {
	k := &r.Skipped
	s := section{title: "Lines that are not among the requests, and clocks"}
	say := func(n int64, format string, a ...any) {
		if n > 0 {
			s.lines = append(s.lines, count(n)+" "+fmt.Sprintf(format, a...))
		}
	}
	if k.Unfit > 0 {
		s.lines = append(s.lines, "Lines that do not have the format's shape, or no address or time: "+count(k.Unfit)+". The first of them:")
	}
	for _, e := range k.Examples {
		s.lines = append(s.lines, visible(e, 240))
	}
	say(k.Own, "requests that stile is not asked about: nginx could not read them, or they were for stile's own pages.")
	say(k.Outside, "requests are outside the time asked for.")
	say(k.Late, "requests lasted longer than the %s that are put in order, and were judged later than they came.", time.Duration(reorderTime))
	say(k.Back, "lines are older than one before them, by up to %s; they were judged at the later time.", k.MostBack.Round(time.Second))
	return s
}

// count is a number with its thousands apart.
func count(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

func percent(n, of int64) string {
	if of == 0 {
		return ""
	}
	return fmt.Sprintf("%.1f %%", 100*float64(n)/float64(of))
}

func limit(n uint32) string {
	if n == 0 {
		return "none"
	}
	return count(int64(n))
}

// stamp is a time of the log, in its zone; "" for none.
func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.Format("2006-01-02 15:04:05")
}

func window(d time.Duration) string {
	switch {
	case d%(24*time.Hour) == 0:
		return fmt.Sprintf("%dd", d/(24*time.Hour))
	case d%time.Hour == 0:
		return fmt.Sprintf("%dh", d/time.Hour)
	case d%time.Minute == 0:
		return fmt.Sprintf("%dm", d/time.Minute)
	}
	return d.String()
}

// brief is a duration in about three digits; "" for none.
func brief(d time.Duration) string {
	switch {
	case d == 0:
		return ""
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	}
	return d.Round(100 * time.Millisecond).String()
}

// duration is seconds in about three digits; "" if they are not known.
func duration(seconds float64) string {
	switch {
	case seconds < 0:
		return ""
	case seconds < 10:
		return fmt.Sprintf("%.3f s", seconds)
	case seconds < 1000:
		return fmt.Sprintf("%.0f s", seconds)
	}
	return fmt.Sprintf("%.1f h", seconds/3600)
}

func size(n int64) string {
	x, unit := float64(n), 0
	for x >= 1000 && unit < 5 {
		x, unit = x/1000, unit+1
	}
	if unit == 0 {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%.3g %cB", x, " kMGTP"[unit])
}

// visible is a client's text with everything escaped that a terminal could act on, cut
// after most bytes.
func visible(s string, most int) string {
	cut := len(s) > most
	if cut {
		s = strings.ToValidUTF8(s[:most], "")
	}
	q := strconv.Quote(s)
	q = strings.ReplaceAll(q[1:len(q)-1], `\"`, `"`)
	if cut {
		q += "…"
	}
	return q
}
