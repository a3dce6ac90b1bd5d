package replay

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"

	"stile/replay/replaytest"
)

func html(t *testing.T, r *Report) string {
	t.Helper()
	var b bytes.Buffer
	if err := r.WriteHTML(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// evils are what a client may put into a path or an agent.
var evils = []string{
	`<script>alert(1)</script>`, `"><img/src=x/onerror=alert(1)>`, `'onmouseover='alert(1)`, `</table></style><script>alert(1)</script>`, `{{.Title}}`,
	`</title><svg/onload=alert(1)>`, "\x1b[2J\x1b]0;owned\x07", "\u202emoc.live", `&lt;b&gt;`, `javascript:alert(1)`, "\xff\xfe", `--><script>`, `]]>`,
}

func evilLog() (lines []string) {
	for i, evil := range evils {
		for n := range 5 { // above the limit, so that it is shown
			target := "/" + strings.ReplaceAll(evil, " ", "") + fmt.Sprint("/", n)
			lines = append(lines, fmt.Sprintf(`192.0.2.%d - %s [30/Nov/2026:06:30:00 +0000] "GET %s HTTP/1.1" 200 1000 "%s" "%s"`, i+1, map[bool]string{true: nginxEscape(evil), false: "-"}[n == 4 && !strings.Contains(evil, "[")], nginxEscape(target), nginxEscape(evil), nginxEscape(evil)))
		}
	}
	for _, evil := range evils[:2] {
		lines = append(lines, "not a line "+evil)
	}
	return lines
}

// TestHostileLogs: nothing that a client sends becomes markup, or acts on a terminal.
func TestHostileLogs(t *testing.T) {
	r := run(t, smallPolicy, Options{Logs: []string{write(t, "evil.log", evilLog()...)}})
	if r.Requests < 50 || len(r.Top) < 10 || len(r.Skipped.Examples) != 2 {
		t.Fatalf("%d requests, %d callers, %q: the test shows nothing", r.Requests, len(r.Top), r.Skipped.Examples)
	}
	for _, c := range text(t, r) {
		if c < ' ' && c != '\n' || c == 0x7f || c == '\u202e' || c == '\ufffd' {
			t.Errorf("the table has the control character %q", c)
		}
	}
	got := html(t, r)
	tags := regexp.MustCompile(`<[a-zA-Z!/][^>]*>`).FindAllString(got, -1)
	allowed := regexp.MustCompile(`^<(!DOCTYPE html|/?(html|head|meta|title|style|body|main|section|h1|h2|p|ul|li|b|br|span|div|figure|figcaption|table|thead|tbody|tr|th|td|svg|path|rect|footer|code))\b`)
	attribute := regexp.MustCompile(`\s([a-zA-Z-]+)=`)
	for _, tag := range tags {
		if !allowed.MatchString(tag) {
			t.Errorf("a tag that is none of ours: %s", tag)
		}
		for _, a := range attribute.FindAllStringSubmatch(tag, -1) {
			if strings.HasPrefix(strings.ToLower(a[1]), "on") || a[1] == "href" || a[1] == "src" || a[1] == "style" {
				t.Errorf("an attribute that is none of ours: %s", tag)
			}
		}
	}
	if !strings.Contains(got, "&lt;script&gt;alert(1)&lt;/script&gt;") {
		t.Error("what was sent is not shown")
	}
}

// TestReportStandsAlone: no address of anything elsewhere, no script, well-formed.
func TestReportStandsAlone(t *testing.T) {
	r := run(t, "", Options{Logs: []string{madeFile(t, replaytest.Log{Lines: 5000, Addresses: 300, Seed: 2, Timed: true})}})
	got := html(t, r)
	for _, no := range []string{"src=", "href=", "url(", "@import", "<script", "<link", "NaN", "Inf", "ZgotmplZ"} {
		if strings.Contains(got, no) {
			t.Errorf("it has %s", no)
		}
	}
	if strings.Count(got, "<svg viewBox") < 5 {
		t.Errorf("%d drawings", strings.Count(got, "<svg viewBox"))
	}
	// Well-formed, as XML is, but for the elements that are never closed.
	d := xml.NewDecoder(strings.NewReader(regexp.MustCompile(`<(meta|br)([^>]*)>`).ReplaceAllString(got, "<$1$2/>")))
	d.Entity = xml.HTMLEntity
	for {
		if _, err := d.Token(); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

// TestPlotsOfLittle: one request, and requests years apart.
func TestPlotsOfLittle(t *testing.T) {
	one := `192.0.2.1 - - [30/Nov/2026:06:30:00 +0000] "GET / HTTP/1.1" 200 1000 "-" "x"`
	for _, lines := range [][]string{{one}, {one, strings.Replace(one, "2026", "2041", 1)}, {strings.Replace(one, "2026", "1990", 1), one, strings.Replace(one, "2026", "2190", 1)}} {
		r := run(t, "", Options{Logs: []string{write(t, "a.log", lines...)}})
		if got := html(t, r); r.Requests != int64(len(lines)) || strings.Contains(got, "NaN") || len(r.series.bins) > maxBins {
			t.Errorf("%d requests, %d bins", r.Requests, len(r.series.bins))
		}
	}
}

func TestSeries(t *testing.T) {
	s := newSeries()
	const hour = int64(3600e9)
	start := int64(1_796_020_200e9)
	for i := range int64(10_000) {
		s.at(start+i*hour/10).allowed++
	}
	total := int64(0)
	for i := range s.bins {
		total += s.bins[i].allowed
	}
	if total != 10_000 || s.step != 6*hour || len(s.bins) > maxBins {
		t.Errorf("%d in %d bins of %d h", total, len(s.bins), s.step/hour)
	}
	if s.at(start-hour).allowed++; s.bins[0].allowed < 2 {
		t.Error("what is older than the first is not in the first")
	}
}
