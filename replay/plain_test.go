package replay

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"stile/crawler"
	"stile/decide/path"
	"stile/replay/replaytest"
)

// plainly is Run without what makes it fast: one request after the other, nothing
// remembered of targets, nothing looked at beforehand, one goroutine.
func plainly(t *testing.T, o Options) *Report {
	t.Helper()
	f, err := newFeed(o.Logs, o.Format, o.Config.Pass.Cookie, o.Stdin)
	if err != nil {
		t.Fatal(err)
	}
	s, err := newSimulation(o.Config, f)
	if err != nil {
		t.Fatal(err)
	}
	next := f.next
	if f.timed() {
		next = (&order{feed: f, whole: !f.has[fieldMsec]}).next
	}
	for {
		r := request{}
		if err := next(&r.record); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		var read path.Readings
		if err := read.Parse(r.target); err != nil || strings.HasPrefix(read.Path, "/.stile/") {
			f.skip.Own++
			continue
		}
		r.path, r.query, r.alt = strings.Clone(read.Path), read.Query, slices.Clone(read.Alt)
		if o.Config.UsesCrawler() {
			r.claim = s.look.Crawler(r.agent, r.addr, r.at)
		}
		s.find.fill(&s.find.req, &r)
		r.found = s.strict.Find(&s.find.req)
		r.route = s.find.routes.of(r.path)
		s.request(&r)
	}
	return s.report(time.FixedZone("", f.offset))
}

// strange targets: what is not read as it is written, and what differs only in what rules
// look at beside the path.
var strange = []string{
	"/search?q=a", "/search?q=b", "/search", "/search?", "/search??", "/search?q=a#b", "//search?q=a", "/a/../search?q=a", "/%73earch?q=a", "/search%3Fq=a", "/search;x=y?q=a",
	"/search%2F..%2Frobots.txt", "/a%252fb", "/a\\b", "http://www.example.org/search?q=a", "https://www.example.org", "*", "/..", "/%", "/%00", "/.stile/x", "/robots.txt", "/robots.txt?q=a",
	"/" + strings.Repeat("a", 3000), "/" + strings.Repeat("a/", 300) + "?q", "/a/b", "/a/b/", "/" + strings.Repeat("b", 70) + "/c", "/" + strings.Repeat("b", 71) + "/c", "/project/x.git/info/refs?service=git-upload-pack", "/a%20b", "/ä",
}

// strangeLog repeats few of everything, so that each pair of requests that differ in one
// thing occurs.
func strangeLog(n int) (lines []string) {
	rng := rand.New(rand.NewPCG(5, 5))
	pick := func(from ...string) string { return from[rng.IntN(len(from))] }
	for i := range n {
		target := strange[rng.IntN(len(strange))]
		if rng.IntN(9) == 0 {
			target = fmt.Sprintf("/route%d/x", rng.IntN(4000))
		}
		lines = append(lines, fmt.Sprintf(`%s %s [%s] "%s %s HTTP/1.1" %s %d %s "%s" "%s" "%s" "%s" %.3f`,
			pick("192.0.2.1", "192.0.2.2", "8.8.8.8", "2001:db8::1", "2001:db8::2", "2001:db8:0:1::1"), pick("-", "-", "-", "anna"),
			time.Date(2026, 11, 30, 6, 30, i/20, 0, time.UTC).Format("02/Jan/2006:15:04:05 -0700"), pick("GET", "GET", "GET", "HEAD", "POST"), nginxEscape(target), pick("200", "200", "401"), rng.IntN(9000),
			pick("www.example.org", "git.example.org"), pick("-", "https://www.example.org/"), pick("browser/1", "Mozilla/5.0 (compatible; GPTBot/1.2; +https://openai.com/gptbot)", "git/2.40", `q\x22uote`),
			pick("-", "text/html", "application/json"), pick("-", "document", "script"), rng.Float64()))
	}
	return lines
}

// TestFastIsPlain: the fast way and the plain way make the same report, byte for byte.
func TestFastIsPlain(t *testing.T) {
	dir := t.TempDir()
	list := &crawler.List{Name: "openai", Date: time.Now().UTC().Format(time.DateOnly), Sources: []string{"x"}, Nets: []netip.Prefix{netip.MustParsePrefix("8.8.8.0/24")}}
	if err := crawler.WriteList(crawler.Dir(dir), list); err != nil {
		t.Fatal(err)
	}
	const meters = "[[meter]]\nname = \"m\"\nwindow = \"1m\"\nstranger = 20\npass = 30\nuser = 30\nstrangers = 300\n[[meter]]\nname = \"by\"\nwindow = \"1m\"\nper = \"caller {1}\"\nstranger = 9\npass = 30\nuser = 30\n"
	rule := func(match string) string { return "[[rule]]\nname = \"denied\"\n" + match + "\ndo = \"deny\"\n" }
	const rest = "[[rule]]\nname = \"rest\"\npath = \"/**\"\ndo = \"meter\"\nmeter = [\"m\", \"by\"]\n"
	own := fmt.Sprintf("include = []\n[state]\ndir = %q\n", dir) + meters
	policies := map[string]string{
		"generic": "", "forge": "include = [\"preset:forge\"]\n",
		"method": own + rule(`method = "POST"`) + rest, "query": own + rule(`query = "q=a"`) + rest,
		"agent": own + rule(`agent = "git/"`) + rest, "host": own + rule(`host = "git.example.org"`) + rest,
		"header": own + rule(`header = { Accept = "application/json" }`) + rest, "referer": own + rule(`header = { Referer = "~example" }`) + rest,
		"network": own + rule(`network = "192.0.2.1/32"`) + rest, "crawler": own + rule(`crawler = "spoofed"`) + rest,
		"not": own + rule("path = \"/**\"\nnot = { agent = \"browser/\" }") + rest,
	}
	logs := map[string]Options{
		"strange": {Logs: []string{write(t, "strange.log", strangeLog(6000)...)}, Format: `$remote_addr $remote_user [$time_local] "$request" $status $body_bytes_sent $host "$http_referer" "$http_user_agent" "$http_accept" "$http_sec_fetch_dest" $request_time`},
		"made":    {Logs: []string{madeFile(t, replaytest.Log{Lines: 6000, Addresses: 300, Seed: 3})}},
		"several": {Logs: []string{write(t, "a.log", evilLog()...), madeFile(t, replaytest.Log{Lines: 2000, Addresses: 30, Seed: 4}), madeFile(t, replaytest.Log{Lines: 2000, Addresses: 30, Seed: 5, Timed: true})}},
	}
	for name, toml := range policies {
		for what, o := range logs {
			o.Config = defaults(t, toml)
			fast, err := Run(o)
			if err != nil {
				t.Fatal(err)
			}
			plain := plainly(t, o)
			for as, write := range map[string]func(*Report, io.Writer) error{"text": (*Report).WriteText, "html": (*Report).WriteHTML} {
				var a, b bytes.Buffer
				if err := write(fast, &a); err != nil {
					t.Fatal(err)
				}
				if err := write(plain, &b); err != nil {
					t.Fatal(err)
				}
				if a.String() != b.String() {
					t.Errorf("%s, policy %s: the %s differs:\n%s", what, name, as, firstDifference(a.String(), b.String()))
				}
			}
			if what == "strange" && fast.Requests < 5000 {
				t.Errorf("%d requests: the test shows little", fast.Requests)
			}
		}
	}
}

// firstDifference is the first two lines that differ.
func firstDifference(a, b string) string {
	x, y := strings.Split(a, "\n"), strings.Split(b, "\n")
	for i := range min(len(x), len(y)) {
		if x[i] != y[i] {
			return fmt.Sprintf("fast:  %.300s\nplain: %.300s", x[i], y[i])
		}
	}
	return fmt.Sprintf("%d and %d lines", len(x), len(y))
}

// TestMemoForgets: a target that comes to the place of another is found anew.
func TestMemoForgets(t *testing.T) {
	f := &feed{}
	s, err := newSimulation(defaults(t, ""), f)
	if err != nil {
		t.Fatal(err)
	}
	r := request{record: record{method: "GET", target: "/search?q=a"}}
	s.find.all([]request{r})
	r.key = s.find.memo.key(&r)
	if !s.find.known(&r) || r.path != "/search" || r.query != "q=a" {
		t.Fatalf("not remembered: %+v", r)
	}
	other := request{record: record{method: "GET", target: "/x"}}
	other.key = r.key + memoPlaces
	if s.find.known(&other) {
		t.Error("one is taken for another of the same place")
	}
	if !s.find.find(&other) || s.find.known(&r) || !s.find.known(&other) {
		t.Error("the place does not go to the later")
	}
	for range math.MaxUint16 + 10 { // more different verdicts than have a number
		s.find.memo.found = append(s.find.memo.found, r.found)
	}
	clear(s.find.memo.ids)
	if s.find.find(&r); s.find.known(&r) {
		t.Error("a verdict without a number is remembered")
	}
}
