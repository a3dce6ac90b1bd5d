package replay

import (
	"fmt"
	"html/template"
	"math"
	"math/bits"
	"strings"
	"time"
)

// figure is one plot. What is drawn stretches with the page; the labels, which must not, are
// text around it. Only numbers go into the drawings.
type figure struct {
	Title, Note string
	Keys        []key
	SVG         template.HTML
	Top         string // the value at the upper edge
	Axis        []tick
}

type key struct {
	SVG  template.HTML
	Name string
}

const (
	plotWidth  = 1000
	plotHeight = 200
)

// colours, where there is no style sheet.
var colours = map[string]string{"ok": "#9db4cf", "ask": "#d99a1e", "no": "#b8433a"}

func newKey(class, name string) key {
	return key{template.HTML(fmt.Sprintf(`<svg viewBox="0 0 1 1" aria-hidden="true"><rect width="1" height="1" class="%s" fill="%s"/></svg>`, class, colours[class])), name}
}

func svg(body, label string) template.HTML {
	return template.HTML(fmt.Sprintf(`<svg viewBox="0 0 %d %d" preserveAspectRatio="none" role="img" aria-label="%s">%s</svg>`, plotWidth, plotHeight, template.HTMLEscapeString(label), body))
}

// area draws steps between low and high, one for each bin.
func area(b *strings.Builder, class string, n int, low, high func(i int) float64, most float64) {
	y := func(v float64) float64 { return plotHeight * (1 - v/most) }
	x := func(i int) float64 { return plotWidth * float64(i) / float64(n) }
	drawn := false
	var up, down strings.Builder
	for i := range n {
		drawn = drawn || high(i) > low(i)
		fmt.Fprintf(&up, "V%.1fH%.1f", y(high(i)), x(i+1))
		k := n - 1 - i
		fmt.Fprintf(&down, "V%.1fH%.1f", y(low(k)), x(k))
	}
	if drawn {
		fmt.Fprintf(b, `<path class="%s" fill="%s" d="M0 %.1f%s%sz"/>`, class, colours[class], y(low(0)), up.String(), down.String())
	}
}

func (r *Report) verdictPlot() figure {
	s := r.series
	f := figure{Title: "Requests", Note: "in each " + every(s.step) + ", if nobody solves", Keys: []key{newKey("ok", "allowed"), newKey("ask", "asked for a proof"), newKey("no", "refused")}}
	most := 1.0
	for i := range s.bins {
		most = max(most, float64(s.bins[i].allowed+s.bins[i].asked+s.bins[i].refused))
	}
	bins := s.bins
	var b strings.Builder
	grid(&b)
	zero := func(int) float64 { return 0 }
	allowed := func(i int) float64 { return float64(bins[i].allowed) }
	asked := func(i int) float64 { return allowed(i) + float64(bins[i].asked) }
	refused := func(i int) float64 { return asked(i) + float64(bins[i].refused) }
	area(&b, "ok", len(bins), zero, allowed, most)
	area(&b, "ask", len(bins), allowed, asked, most)
	area(&b, "no", len(bins), asked, refused, most)
	f.SVG, f.Top = svg(b.String(), "requests over time, by verdict"), count(int64(most))
	f.Axis = times(s.start, s.start+int64(len(bins))*s.step, r.First.Location())
	return f
}

func grid(b *strings.Builder) {
	for i := range 4 {
		fmt.Fprintf(b, `<path class="grid" stroke="#dcdcd7" d="M0 %dH%d"/>`, i*plotHeight/4, plotWidth)
	}
}

// ruleBar is a rule's share of all requests, by verdict.
func (r *Report) ruleBar(c *RuleRow) template.HTML {
	most := int64(1)
	for i := range r.Rules {
		most = max(most, r.Rules[i].Requests)
	}
	var b strings.Builder
	x := 0.0
	for i, class := range []string{"ok", "ask", "no"} {
		n := [3]int64{c.Verdicts[0].Allowed, c.Verdicts[0].Asked, c.Verdicts[0].Refused}[i]
		if n > 0 {
			w := max(100*float64(n)/float64(most), 0.4)
			fmt.Fprintf(&b, `<rect x="%.2f" width="%.2f" height="8" class="%s" fill="%s"/>`, x, w, class, colours[class])
			x += w
		}
	}
	return template.HTML(`<svg class="bar" width="160" height="13" viewBox="0 0 102 8" preserveAspectRatio="none" aria-hidden="true">` + b.String() + `</svg>`)
}

// step of the axis of requests: 1, 2, 3, 4, 6, 8, 12, 16, … for a few ask a thousand times
// as much as most.
func stepOf(v int64) int {
	if v < 2 {
		return 0
	}
	k := bits.Len64(uint64(v)) - 1
	return 2*k - 1 + b2i(v >= 3<<(k-1))
}

// begin is the least value of a step.
func begin(step int) int64 {
	if step == 0 {
		return 1
	}
	k := (step + 1) / 2
	if step%2 == 0 {
		return 3 << (k - 1)
	}
	return 1 << k
}

// plot is how many callers asked how much in their busiest window. The height too is by
// powers: one caller is seen beside ten thousand.
func (c *ChoiceRow) plot() figure {
	edge := int64(c.Stranger) + 1 // the first request above the limit
	steps := stepOf(max(c.Most, edge)) + 1
	counts := make([]float64, steps)
	for i, n := range c.peaks.counts {
		if n > 0 {
			counts[min(stepOf(top(i)), steps-1)] += float64(n)
		}
	}
	most := 1.0
	for _, n := range counts {
		most = max(most, n)
	}
	var b strings.Builder
	w := float64(plotWidth) / float64(steps)
	for i, n := range counts {
		if n > 0 {
			h := plotHeight * (0.04 + 0.96*math.Log(n+1)/math.Log(most+1))
			class := "ok"
			if c.Stranger > 0 && begin(i) >= edge {
				class = "ask"
			}
			fmt.Fprintf(&b, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" class="%s" fill="%s"/>`, float64(i)*w+1, plotHeight-h, w-2, h, class, colours[class])
		}
	}
	note := "no limit for a stranger"
	if c.Stranger > 0 {
		at := stepOf(edge)
		x := (float64(at) + float64(edge-begin(at))/float64(begin(at+1)-begin(at))) * w
		fmt.Fprintf(&b, `<path class="limit" stroke="#25272b" stroke-dasharray="5 4" d="M%.1f 0V%d"/>`, x, plotHeight)
		note = fmt.Sprintf("limit %s (dashed)", count(int64(c.Stranger)))
	}
	f := figure{Title: c.Meter, Note: fmt.Sprintf("in %s: callers by requests in their busiest window; %s", window(c.Window), note), Top: count(int64(most)) + " callers"}
	f.SVG = svg(b.String(), "callers by how much they asked for")
	for i := range 5 {
		f.Axis = append(f.Axis, tick{count(begin(steps * i / 4)), i == 1 || i == 3})
	}
	return f
}

// plots are what a gate had in flight, and in its queue.
func (g *GateRow) plots(zone *time.Location) []figure {
	s := g.series
	if len(s.bins) == 0 {
		return nil
	}
	draw := func(title, note, class string, value func(i int) float64, limit float64, show func(v float64) string) figure {
		most := max(limit, 1)
		for i := range s.bins {
			most = max(most, value(i))
		}
		var b strings.Builder
		grid(&b)
		area(&b, class, len(s.bins), func(int) float64 { return 0 }, value, most)
		if limit > 0 {
			y := plotHeight * (1 - limit/most)
			fmt.Fprintf(&b, `<path class="limit" stroke="#25272b" stroke-dasharray="5 4" d="M0 %.1fH%d"/>`, max(y, 1), plotWidth)
		}
		return figure{Title: title, Note: note, SVG: svg(b.String(), note), Top: show(most), Axis: times(s.start, s.start+int64(len(s.bins))*s.step, zone)}
	}
	name := fmt.Sprintf("%s, if %s", g.Name, g.If())
	return []figure{
		draw(name, "in flight, the most in each "+every(s.step)+"; the budget is dashed", "ok", func(i int) float64 { return float64(s.bins[i].inFlight) }, float64(g.budget), func(v float64) string { return g.amount(int64(v)) }),
		draw(name, "waiting, the most in each "+every(s.step), "ask", func(i int) float64 { return float64(s.bins[i].queue) }, 0, func(v float64) string { return count(int64(v)) }),
	}
}
