package replay

import (
	"bytes"
	"compress/gzip"
	"flag"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"stile/crawler"
	"stile/decide"
	"stile/replay/replaytest"
)

var update = flag.Bool("update", false, "write the tables of testdata anew")

// write makes a log of lines.
func write(t *testing.T, name string, lines ...string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// line is a line of combined; seconds after half past six.
func line(addr string, seconds int, request string) string {
	at := time.Date(2026, 11, 30, 6, 30, 0, 0, time.UTC).Add(time.Duration(seconds) * time.Second)
	return fmt.Sprintf(`%s - - [%s] "%s" 200 1000 "-" "test/1"`, addr, at.Format("02/Jan/2006:15:04:05 -0700"), nginxEscape(request))
}

func run(t *testing.T, toml string, o Options) *Report {
	t.Helper()
	o.Config = defaults(t, toml)
	r, err := Run(o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func text(t *testing.T, r *Report) string {
	t.Helper()
	var b bytes.Buffer
	if err := r.WriteText(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// smallPolicy has limits that small logs reach.
const smallPolicy = `
include = []
[[meter]]
name = "pages"
window = "1m"
stranger = 3
pass = 5
user = 5
strangers = 12
[[meter]]
name = "api"
window = "1h"
stranger = 2
pass = 20
user = 20
[[gate]]
name = "slow"
budget = 2
queue = 4
wait = "5s"
[[rule]]
name = "robots"
path = "/robots.txt"
do = "allow"
[[rule]]
name = "hidden"
path = "/private/**"
do = "deny"
[[rule]]
name = "the API"
path = "/api/**"
do = "meter"
meter = ["api"]
proof = "never"
[[rule]]
name = "search"
path = "/search"
do = "meter"
meter = ["pages"]
gate = "slow"
[[rule]]
name = "pages"
path = "/**"
do = "meter"
meter = ["pages"]
`

// smallLog is a reader, a scraper, a swarm, and others.
func smallLog() (lines []string) {
	for i := range 20 {
		lines = append(lines, line("192.0.2.1", i, fmt.Sprintf("GET /page/%d HTTP/1.1", i)))
		if i%5 == 0 {
			lines = append(lines, line("2001:db8::5", i, "GET /robots.txt HTTP/1.1"), line("2001:db8:0:0:1::6", i, "GET /api/x HTTP/1.1"), line("203.0.113.9", i, "POST /page HTTP/1.1"))
		}
	}
	for i := range 30 {
		lines = append(lines, line(fmt.Sprintf("198.51.%d.7", i), 70+i/3, "GET /page/swarm HTTP/1.1"))
	}
	return append(lines, line("203.0.113.9", 85, "GET /private/x HTTP/1.1"), line("203.0.113.9", 86, "GET /.stile/proof.js HTTP/1.1"), line("203.0.113.9", 86, "\x16\x03\x01"), "half a li")
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s: run with -update and look at the difference; got:\n%s", file, got)
	}
}

func TestTables(t *testing.T) {
	file := write(t, "access.log", smallLog()...)
	got := text(t, run(t, smallPolicy, Options{Logs: []string{file}}))
	golden(t, "small.txt", strings.ReplaceAll(got, file, "access.log"))
}

// TestGateTables: three searches of 4 s at once where two may be, then two more: one waits,
// is in time, and one is not.
func TestGateTables(t *testing.T) {
	var lines []string
	// at and took are of the request: the log has its end.
	add := func(at, took float64, addr string) {
		lines = append(lines, fmt.Sprintf(`%s %.3f "GET /search HTTP/1.1" 200 %.3f %.3f www.example.org`, addr, 1796020200+at+took, took, took))
	}
	add(0, 4, "192.0.2.1")
	add(0.1, 4, "192.0.2.2")
	add(0.2, 4, "192.0.2.3")  // waits until 4
	add(0.3, 10, "192.0.2.4") // waits until 4.1
	add(0.4, 1, "192.0.2.5")  // the strangers' half of the queue is full
	add(4.5, 3, "192.0.2.6")  // waits until 8
	add(20, 1, "192.0.2.7")
	file := write(t, "access.log", lines...)
	r := run(t, smallPolicy, Options{Logs: []string{file}, Format: `$remote_addr $msec "$request" $status $request_time $upstream_response_time $host`})
	if len(r.Gates) != 2 {
		t.Fatalf("%d gates", len(r.Gates))
	}
	g := r.Gates[0]
	if g.Requests != 7 || g.Waited != 3 || g.RefusedCount != 1 || g.MostQueue != 2 || g.WaitMost.Round(100*time.Millisecond) != 3800*time.Millisecond {
		t.Errorf("%+v", g)
	}
	golden(t, "gate.txt", text(t, r))
}

// TestAgreement: the verdicts are those of the engine that the daemon has, asked the same.
func TestAgreement(t *testing.T) {
	name := madeFile(t, replaytest.Log{Lines: 60_000, Addresses: 3000, Seed: 3})
	const toml = "[[meter]]\nname = \"pages\"\nwindow = \"1m\"\nstranger = 3\npass = 60\nuser = 60\nstrangers = 500\n[[meter]]\nname = \"assets\"\nwindow = \"1m\"\nstranger = 4\npass = 60\nuser = 60\n"
	r := run(t, toml, Options{Logs: []string{name}})

	e, err := decide.New(defaults(t, toml))
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var want Verdicts
	asked := map[string]int64{}
	for _, l := range strings.Split(strings.TrimSpace(string(f)), "\n") {
		// Read in another way than replay does.
		parts := strings.Split(l, `"`)
		addr, _, _ := strings.Cut(parts[0], " ")
		when := parts[0][strings.Index(parts[0], "[")+1 : strings.Index(parts[0], "]")]
		at, err := time.Parse("02/Jan/2006:15:04:05 -0700", when)
		if err != nil {
			t.Fatal(err)
		}
		words := strings.Fields(parts[1])
		q, err := decide.NewRequest(words[0], words[1], addr, map[string]string{"User-Agent": parts[5]})
		if err != nil {
			t.Fatal(err)
		}
		switch v := e.Decide(q, at.UnixNano()); v.Action {
		case decide.Allow:
			want.Allowed++
		case decide.Challenge:
			want.Asked++
			asked[e.Policy().RuleName(v)]++
		default:
			want.Refused++
		}
	}
	if r.Verdicts[0] != want || want.Asked < 1000 {
		t.Errorf("replay %+v, the engine %+v", r.Verdicts[0], want)
	}
	for _, row := range r.Rules {
		if row.Verdicts[0].Asked != asked[row.Name] {
			t.Errorf("%s: replay %d asked, the engine %d", row.Name, row.Verdicts[0].Asked, asked[row.Name])
		}
	}
	if n := r.Verdicts[1].Allowed + r.Verdicts[1].Refused; n != r.Requests {
		t.Errorf("if all solve: %d verdicts, %d requests", n, r.Requests)
	}
}

// TestSuggestedLimits: with the limit that "nobody" names nobody is asked, and with one less
// somebody is.
func TestSuggestedLimits(t *testing.T) {
	name := madeFile(t, replaytest.Log{Lines: 30_000, Addresses: 500, Seed: 5})
	policy := func(limit int64) string {
		return fmt.Sprintf("include = []\n[[meter]]\nname = \"m\"\nwindow = \"1m\"\nstranger = %d\npass = 100000\nuser = 100000\n[[rule]]\nname = \"all\"\npath = \"/**\"\ndo = \"meter\"\nmeter = [\"m\"]\n", limit)
	}
	r := run(t, policy(1), Options{Logs: []string{name}})
	least := r.Choices[0].Nobody
	if got := run(t, policy(least), Options{Logs: []string{name}}); got.Verdicts[0].Asked != 0 {
		t.Errorf("with %d, %d are asked", least, got.Verdicts[0].Asked)
	}
	if got := run(t, policy(least-1), Options{Logs: []string{name}}); got.Verdicts[0].Asked == 0 {
		t.Errorf("with %d, nobody is asked", least-1)
	}
	// And with that of "asks 1 %" at most one caller in a hundred.
	got := run(t, policy(r.Choices[0].OnePercent), Options{Logs: []string{name}})
	if stopped := got.Rules[0].Stopped; stopped*100 > got.Callers {
		t.Errorf("with %d, %d of %d callers are asked", r.Choices[0].OnePercent, stopped, got.Callers)
	}
}

func TestSeveralLogs(t *testing.T) {
	older := write(t, "access.log.1", line("192.0.2.1", 0, "GET /a HTTP/1.1"), line("192.0.2.1", 100, "GET /b HTTP/1.1"))
	newer := write(t, "access.log", line("192.0.2.1", 200, "GET /c HTTP/1.1"), line("192.0.2.1", 201, "GET /d HTTP/1.1"))
	other := write(t, "other.log", line("192.0.2.2", 50, "GET /e HTTP/1.1"), line("192.0.2.2", 200, "GET /f HTTP/1.1"), line("192.0.2.2", 300, "GET /g HTTP/1.1"))
	empty := write(t, "empty.log")
	f, err := newFeed([]string{newer, other, empty, older}, "", "stile", nil)
	if err != nil {
		t.Fatal(err)
	}
	got := ""
	for {
		var r record
		if err := f.next(&r); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		got += r.target[1:]
	}
	if got != "aebcfdg" && got != "aebfcdg" {
		t.Errorf("order: %s", got)
	}
	r := run(t, "", Options{Logs: []string{newer, other, older}})
	if r.Requests != 7 || r.Skipped.Back != 0 {
		t.Errorf("%d requests, %+v", r.Requests, r.Skipped)
	}
}

func TestTimes(t *testing.T) {
	file := write(t, "access.log", line("192.0.2.1", 0, "GET /a HTTP/1.1"), line("192.0.2.1", 60, "GET /b HTTP/1.1"), line("192.0.2.1", 58, "GET /c HTTP/1.1"), line("192.0.2.1", 120, "GET /d HTTP/1.1"))
	f := func(since, until string, want int64) {
		t.Helper()
		if r := run(t, "", Options{Logs: []string{file}, Since: since, Until: until}); r.Requests != want || r.Skipped.Outside != 4-want {
			t.Errorf("%s to %s: %d requests, want %d", since, until, r.Requests, want)
		}
	}
	f("", "", 4)
	f("2026-11-30", "", 4)
	f("2026-11-30 06:31", "", 2)
	f("2026-11-30T07:30:58+01:00", "2026-11-30T06:31:00Z", 2)
	f("", "2026-11-30T06:30:57", 1)
	r := run(t, "", Options{Logs: []string{file}})
	if r.Skipped.Back != 1 || r.Skipped.MostBack != 2*time.Second {
		t.Errorf("%+v", r.Skipped)
	}
	if _, err := Run(Options{Config: defaults(t, ""), Logs: []string{file}, Since: "yesterday"}); err == nil || !strings.Contains(err.Error(), "want one such as") {
		t.Error(err)
	}
}

// TestProgress: it goes on while all that is read is before the time asked for.
func TestProgress(t *testing.T) {
	var lines []string
	for i := range 100_000 {
		lines = append(lines, line("192.0.2.1", i/1000, "GET /a HTTP/1.1"))
	}
	told, most := 0, int64(0)
	file := write(t, "access.log", lines...)
	r := run(t, smallPolicy, Options{Logs: []string{file}, Since: "2026-11-30 06:31:39", Progress: func(read int64) {
		if read > most {
			told, most = told+1, read
		}
	}})
	if r.Requests != 1000 || told < 10 {
		t.Errorf("%d requests, and progress was told %d times", r.Requests, told)
	}
}

// TestOrder: requests are judged when they came, though nginx logs them when they end.
func TestOrder(t *testing.T) {
	lines := []string{
		`192.0.2.2 1796020203.000 "GET /second HTTP/1.1" 200 1.000`,
		`192.0.2.3 1796020204.000 "GET /third HTTP/1.1" 200 1.500`,
		`192.0.2.1 1796020210.000 "GET /first HTTP/1.1" 200 9.500`,
		`192.0.2.4 1796020500.000 "GET /fifth HTTP/1.1" 200 1.000`,
		`192.0.2.5 1796020501.000 "GET /fourth HTTP/1.1" 200 2.500`,
	}
	f, err := newFeed([]string{write(t, "a.log", lines...)}, `$remote_addr $msec "$request" $status $request_time`, "stile", nil)
	if err != nil {
		t.Fatal(err)
	}
	o, got := order{feed: f}, ""
	for {
		var r record
		if err := o.next(&r); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		got += r.target + " "
	}
	if got != "/first /second /third /fourth /fifth " {
		t.Error(got)
	}
}

// TestWholeSeconds: requests of one second do not all come at once.
func TestWholeSeconds(t *testing.T) {
	var lines []string
	for range 4 {
		lines = append(lines, `192.0.2.1 [30/Nov/2026:06:30:00 +0000] "GET / HTTP/1.1" 200 0.000`)
	}
	f, err := newFeed([]string{write(t, "a.log", lines...)}, `$remote_addr [$time_local] "$request" $status $request_time`, "stile", nil)
	if err != nil {
		t.Fatal(err)
	}
	o := order{feed: f, whole: true}
	var got []int64
	for {
		var r record
		if o.next(&r) != nil {
			break
		}
		got = append(got, r.at%1e9/1e6)
	}
	if fmt.Sprint(got) != "[125 375 625 875]" {
		t.Error(got)
	}
}

func TestBadLogs(t *testing.T) {
	f := func(content, format, want string) {
		t.Helper()
		file := filepath.Join(t.TempDir(), "access.log")
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := Run(Options{Config: defaults(t, ""), Logs: []string{file}, Format: format})
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "access.log") && !strings.Contains(err.Error(), "log_format") {
			t.Errorf("%.40q: %v, want %q", content, err, want)
		}
	}
	good := strings.Repeat(line("192.0.2.1", 0, "GET / HTTP/1.1")+"\n", 3000)
	packed := pack(t, good)
	f("", "", "there is no line in")
	f("\n\n\r\n", "", "there is no line in")
	f("hello\nworld\n", "", "none of the formats")
	f("hello\nworld\n", "combined", "2 of the first 2 lines do not have the format that was tried (combined)")
	f("\x7fELF\x02\x01\x00\x00\n\x00\x00", "", "binary data")
	f(good, "json", "do not have the format that was tried (json)")
	f(good, "json", "give the log_format")
	f(good, `$remote_addr [$time_iso8601] "$request"`, "do not have the format that was tried (the given log_format)")
	f(packed[:len(packed)/2], "", "the compressed log is cut off")
	f(packed[:len(packed)-4], "", "the compressed log is cut off")
	f(packed[:15], "", "the compressed log is cut off")
	f("\x1f\x8b nonsense which is not gzip", "", "the compressed log is broken")
	f(packed[:len(packed)-6]+"\x00\x00\x00\x00\x00\x00", "", "the compressed log is broken")
	f("\x28\xb5\x2f\xfd....", "", "zstd -dc")
	f("BZh91AY", "", "bzip2 -dc")
	f(strings.Repeat("x", 3*maxLine)+"\n", "", "no line in")
	if _, err := Run(Options{Config: defaults(t, ""), Logs: []string{t.TempDir()}}); err == nil || !strings.Contains(err.Error(), "is a folder") {
		t.Error(err)
	}
	if _, err := Run(Options{Config: defaults(t, ""), Logs: []string{"/nonexistent/access.log"}}); err == nil {
		t.Error("no error")
	}
	f("{\"a\":1}\n{\"a\":2}\n", "", "no address of the client (such as remote_addr or ip), no time (such as time_iso8601 or ts), no request (such as request, request_uri or path)")
	f("{\"ip\":\"192.0.2.1\",\"path\":\"/\"}\n", "", "no time (such as time_iso8601 or ts):")
	f(strings.Replace(good, "GET / HTTP/1.1", "\\x16\\x03", -1), "", "none of the 3,000 requests in")
}

// TestNoRequests: a report about nothing is a mistake in what was asked for.
func TestNoRequests(t *testing.T) {
	file := write(t, "access.log", line("192.0.2.1", 0, "GET / HTTP/1.1"))
	_, err := Run(Options{Config: defaults(t, ""), Logs: []string{file}, Since: "2027-01-01"})
	if err == nil || !strings.Contains(err.Error(), "1 ended outside of the time that was asked for") {
		t.Error(err)
	}
}

// TestTwice: the requests of a log that is named twice would count twice.
func TestTwice(t *testing.T) {
	file := write(t, "access.log", line("192.0.2.1", 0, "GET / HTTP/1.1"))
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(file, link); err != nil {
		t.Fatal(err)
	}
	for _, logs := range [][]string{{file, file}, {file, link}, {"-", "-"}} {
		if _, err := Run(Options{Config: defaults(t, ""), Logs: logs, Stdin: strings.NewReader("x\n")}); err == nil || !strings.Contains(err.Error(), "the same log") {
			t.Errorf("%q: %v", logs, err)
		}
	}
	if _, err := Run(Options{Config: defaults(t, ""), Logs: []string{"-"}}); err == nil || !strings.Contains(err.Error(), "no line in standard input") {
		t.Error(err)
	}
}

func pack(t *testing.T, s string) string {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := io.WriteString(z, s); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestPacked: gzip is known by its content; several parts in one file, and stdin, too.
func TestPacked(t *testing.T) {
	half := pack(t, line("192.0.2.1", 0, "GET /a HTTP/1.1")+"\n")
	r := run(t, "", Options{Logs: []string{"-"}, Stdin: strings.NewReader(half + half)})
	if r.Requests != 2 {
		t.Errorf("%d requests", r.Requests)
	}
}

// TestLongLines: one that is too long for a line is counted, and what follows is read.
func TestLongLines(t *testing.T) {
	long := line("192.0.2.1", 0, "GET /"+strings.Repeat("x", 3*pieceSize)+" HTTP/1.1")
	fits := line("192.0.2.1", 1, "GET /"+strings.Repeat("y", maxLine-1000)+" HTTP/1.1")
	var lines []string
	for i := range 10 {
		lines = append(lines, line("192.0.2.1", i, "GET /a HTTP/1.1"), long, fits)
	}
	r := run(t, "", Options{Logs: []string{write(t, "a.log", lines...)}, Format: "combined"})
	if r.Requests != 20 || r.Skipped.Unfit != 10 {
		t.Errorf("%d requests, %+v", r.Requests, r.Skipped.Unfit)
	}
}

// TestMillionCallers: memory does not grow with them.
func TestMillionCallers(t *testing.T) {
	if testing.Short() {
		t.Skip("short")
	}
	peak := func(callers int) (most uint64, r *Report) {
		in, out := io.Pipe()
		go func() {
			var b bytes.Buffer
			for i := range callers {
				fmt.Fprintf(&b, "%d.%d.%d.%d %d \"GET /p/%d HTTP/1.1\"\n", 1+i>>22, i>>14&255, i>>6&255, i&63, 1796020200+i/50, i)
				if b.Len() > 60_000 || i == callers-1 {
					out.Write(b.Bytes())
					b.Reset()
				}
			}
			out.Close()
		}()
		n := 0
		r = run(t, smallPolicy, Options{Logs: []string{"-"}, Stdin: in, Format: `$remote_addr $msec "$request"`, Progress: func(int64) {
			if n++; n%100 == 0 {
				runtime.GC()
				var m runtime.MemStats
				runtime.ReadMemStats(&m)
				most = max(most, m.HeapAlloc)
			}
		}})
		return most, r
	}
	few, _ := peak(100_000)
	many, r := peak(1_000_000)
	t.Logf("most memory in use: %d MiB with 100,000 callers, %d MiB with 1,000,000", few>>20, many>>20)
	if many > few*5/4 {
		t.Errorf("it grows: %d MiB, %d MiB", few>>20, many>>20)
	}
	if r.Requests != 1_000_000 || r.Callers < 970_000 || r.Callers > 1_030_000 {
		t.Errorf("%d requests, about %d callers", r.Requests, r.Callers)
	}
}

// TestUsersAndPasses: who is known in the log has the limits of the known.
func TestUsersAndPasses(t *testing.T) {
	var lines []string
	for i := range 8 {
		lines = append(lines,
			fmt.Sprintf(`192.0.2.1 %d "GET /page HTTP/1.1" 200 "ann" "-"`, 1796020200+i),
			fmt.Sprintf(`192.0.2.2 %d "GET /page HTTP/1.1" 200 "-" "token"`, 1796020200+i),
			fmt.Sprintf(`192.0.2.3 %d "GET /page HTTP/1.1" 401 "eve" "-"`, 1796020200+i))
	}
	r := run(t, strings.Replace(smallPolicy, "strangers = 12", "strangers = 1000", 1), Options{Logs: []string{write(t, "a.log", lines...)}, Format: `$remote_addr $msec "$request" $status "$remote_user" "$cookie_stile"`})
	// Five of eight for each of the known, who are refused and not asked; three for eve, whom
	// nginx has not let in.
	if v := r.Verdicts[0]; v != (Verdicts{Allowed: 13, Asked: 5, Refused: 6}) {
		t.Errorf("%+v", v)
	}
	got := text(t, r)
	for _, want := range []string{"8 requests name a user in $remote_user", "8 requests came with the cookie of a pass", "user ann"} {
		if !strings.Contains(strings.Join(strings.Fields(got), " "), want) {
			t.Errorf("%q is not in %s", want, got)
		}
	}
}

// TestObservedRules: what a rule that only observes would have done is told.
func TestObservedRules(t *testing.T) {
	cfg := strings.Replace(smallPolicy, "[[rule]]\nname = \"hidden\"", "[[rule]]\nname = \"try\"\npath = \"/page/**\"\ndo = \"deny\"\nmode = \"observe\"\n[[rule]]\nname = \"hidden\"", 1)
	r := run(t, cfg, Options{Logs: []string{write(t, "a.log", smallLog()...)}})
	for _, row := range r.Rules {
		if row.Name == "try" && row.Observes && row.Would == 50 {
			return
		}
	}
	t.Errorf("%+v", r.Rules)
}

// TestHeaders: what the log has of headers reaches the rules; what it lacks is said.
func TestHeaders(t *testing.T) {
	const cfg = "include = []\n[[rule]]\nname = \"machines\"\npath = \"/**\"\nheader = { Accept = \"application/json\" }\ndo = \"deny\"\n[[rule]]\nname = \"ranges\"\npath = \"/**\"\nheader = { Range = \"~.\" }\ndo = \"allow\"\n"
	r := run(t, cfg, Options{
		Logs:   []string{write(t, "a.log", `192.0.2.1 1796020200 "GET / HTTP/1.1" "application/json"`, `192.0.2.1 1796020200 "GET / HTTP/1.1" "text/html"`)},
		Format: `$remote_addr $msec "$request" "$http_accept"`,
	})
	if r.Verdicts[0] != (Verdicts{Allowed: 1, Refused: 1}) {
		t.Errorf("%+v", r.Verdicts[0])
	}
	if got := strings.Join(r.Assumed, "\n"); !strings.Contains(got, "Range (ranges)") || strings.Contains(got, "Accept (") {
		t.Error(got)
	}
}

// TestCrawlers: who is a crawler is told by the lists, and that DNS was not asked is said.
func TestCrawlers(t *testing.T) {
	dir := t.TempDir()
	list := &crawler.List{Name: "openai", Date: time.Now().UTC().Format(time.DateOnly), Sources: []string{"x"}, Nets: []netip.Prefix{netip.MustParsePrefix("8.8.8.0/24")}}
	if err := crawler.WriteList(crawler.Dir(dir), list); err != nil {
		t.Fatal(err)
	}
	cfg := fmt.Sprintf("include = []\n[state]\ndir = %q\n", dir) + "[[rule]]\nname = \"spoofed\"\npath = \"/**\"\ncrawler = \"spoofed\"\ndo = \"deny\"\n[[rule]]\nname = \"genuine\"\npath = \"/**\"\ncrawler = \"verified\"\ndo = \"allow\"\n"
	agent := func(name string) string {
		return strings.Replace(line("192.0.2.1", 0, "GET / HTTP/1.1"), "test/1", name, 1)
	}
	const gptbot = "Mozilla/5.0 (compatible; GPTBot/1.2; +https://openai.com/gptbot)"
	r := run(t, cfg, Options{Logs: []string{write(t, "a.log", agent("x"), agent(gptbot), agent("Mozilla/5.0 (compatible; YandexBot/3.0; +http://yandex.com/bots)"))}})
	if r.Verdicts[0] != (Verdicts{Allowed: 2, Refused: 1}) || len(r.Rules) != 2 || r.Rules[1].Name != "spoofed" && r.Rules[0].Name != "spoofed" {
		t.Errorf("%+v %+v", r.Verdicts[0], r.Rules)
	}
	const want = "not by DNS: 2 requests name one, or come from one's addresses. 0 are verified, 1 are from elsewhere than the crawler that they name, and 1 cannot be verified but by DNS"
	if got := strings.Join(r.Assumed, "\n"); !strings.Contains(got, want) {
		t.Error(got)
	}
}
