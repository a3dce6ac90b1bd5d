package main

import (
	"bytes"
	"fmt"
	"slices"
	"time"
)

// The picture: what is in flight around the moment when the large page is asked for, in
// the order of arrival and in none.
const (
	plotWidth, plotHeight = 760, 470
	plotLeft, plotRight   = 56, 744
	panelHeight           = 150
	plotFrom, plotTo      = -2.0, 8.0 // seconds
	plotTop               = 30.0      // MB
	plotBudget            = budget / 1e6
)

const plotStyle = `
    text { fill: #25272b } .small { font-size: 13px; fill: #4c535c } .head { font-weight: 600 }
    .axis { stroke: #5b6470; stroke-width: 1 } .grid { stroke: #d9dde2; stroke-width: 1 }
    .few { fill: #9db4cf } .large { fill: #d2762a }
    .budget { stroke: #25272b; stroke-width: 1.5; stroke-dasharray: 5 4 } .asks { stroke: #d2762a; stroke-width: 2 }
    @media (prefers-color-scheme: dark) {
      text { fill: #e4e5e3 } .small { fill: #b5bac1 } .axis { stroke: #98a1ac } .grid { stroke: #353a41 }
      .few { fill: #4b6785 } .large { fill: #e08a42 }
      .budget { stroke: #e4e5e3 } .asks { stroke: #e08a42 }
    }
`

func drawStarvation(ordered, unordered *stream) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="system-ui, sans-serif" font-size="15" role="img" aria-label="A large page beside a stream of small ones, served in the order of arrival and in none">
  <style>%s  </style>
`, plotWidth, plotHeight, plotStyle)
	first, second := ordered.large[len(ordered.large)-1], unordered.large[0]
	drawPanel(&b, 40, ordered, first, "In the order of arrival (stile)",
		fmt.Sprintf("asked for at 0, begun after %.1f s, when what came before it is done", first.begun.Sub(first.asked).Seconds()))
	drawPanel(&b, 250, unordered, second, "In no order: who fits goes",
		fmt.Sprintf("asked for at 0, begun after %.0f s, when the small ones stop coming", second.begun.Sub(second.asked).Seconds()))
	fmt.Fprintf(&b, `  <text class="small" x="%d" y="%d" text-anchor="middle">seconds since the page of %s MB was asked for</text>
  <rect class="few" x="%d" y="%d" width="12" height="12"/><text class="small" x="%d" y="%d">small pages</text>
  <rect class="large" x="%d" y="%d" width="12" height="12"/><text class="small" x="%d" y="%d">the page of %[3]s MB</text>
</svg>
`, (plotLeft+plotRight)/2, 440, large, plotLeft, 452, plotLeft+18, 463, plotLeft+120, 452, plotLeft+138, 463)
	return b.Bytes()
}

func plotX(seconds float64) float64 {
	return plotLeft + (min(max(seconds, plotFrom), plotTo)-plotFrom)/(plotTo-plotFrom)*(plotRight-plotLeft)
}

func drawPanel(b *bytes.Buffer, top int, s *stream, p page, title, what string) {
	bottom := float64(top + panelHeight)
	y := func(mb float64) float64 { return bottom - mb/plotTop*panelHeight }
	fmt.Fprintf(b, "  <text class=\"head\" x=\"%d\" y=\"%d\">%s</text>\n", plotLeft, top-14, title)
	fmt.Fprintf(b, "  <text class=\"small\" x=\"%d\" y=\"%d\" text-anchor=\"end\">%s</text>\n", plotRight, top-14, what)
	for mb := 0; mb <= plotTop; mb += 10 {
		fmt.Fprintf(b, "  <path class=\"grid\" d=\"M%d %.1fH%d\"/><text class=\"small\" x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%d MB</text>\n", plotLeft, y(float64(mb)), plotRight, plotLeft-6, y(float64(mb))+4, mb)
	}
	drawArea(b, "few", s.small, p.asked, y)
	drawArea(b, "large", s.large, p.asked, y)
	fmt.Fprintf(b, "  <path class=\"budget\" d=\"M%d %.1fH%d\"/><text class=\"small\" x=\"%d\" y=\"%.1f\" text-anchor=\"end\">the budget</text>\n", plotLeft, y(plotBudget), plotRight, plotRight-4, y(plotBudget)-5)
	fmt.Fprintf(b, "  <path class=\"asks\" d=\"M%.1f %.1fV%d\"/>\n", plotX(0), bottom, top)
	fmt.Fprintf(b, "  <path class=\"axis\" d=\"M%d %.1fH%d\"/>\n", plotLeft, bottom, plotRight)
	for sec := int(plotFrom); sec <= int(plotTo); sec++ {
		fmt.Fprintf(b, "  <path class=\"axis\" d=\"M%.1f %.1fv4\"/><text class=\"small\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%d</text>\n", plotX(float64(sec)), bottom, plotX(float64(sec)), bottom+18, sec)
	}
}

// drawArea draws how many bytes of files these pages have in flight over time.
func drawArea(b *bytes.Buffer, class string, pages []page, zero time.Time, y func(mb float64) float64) {
	type change struct {
		at float64
		mb float64
	}
	var changes []change
	for _, p := range pages {
		from, to := p.begun.Sub(zero).Seconds(), p.end.Sub(zero).Seconds()
		if p.end.IsZero() {
			to = plotTo
		}
		if to < plotFrom || from > plotTo {
			continue
		}
		mb := float64(bytesOf(p.size)) / 1e6
		changes = append(changes, change{from, mb}, change{to, -mb})
	}
	if len(changes) == 0 {
		return
	}
	slices.SortFunc(changes, func(a, b change) int {
		switch {
		case a.at < b.at:
			return -1
		case a.at > b.at:
			return 1
		}
		return 0
	})
	fmt.Fprintf(b, "  <path class=\"%s\" d=\"M%.1f %.1f", class, plotX(changes[0].at), y(0))
	sum := 0.0
	for _, c := range changes {
		sum += c.mb
		fmt.Fprintf(b, "H%.1fV%.1f", plotX(c.at), y(max(sum, 0)))
	}
	fmt.Fprintf(b, "V%.1fz\"/>\n", y(0))
}
