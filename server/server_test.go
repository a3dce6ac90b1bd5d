package server

import (
	"bufio"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"crypto/sha256"

	"github.com/valyala/fasthttp"

	"stile/config"
	"stile/decide"
	"stile/decide/mint"
)

const htmlAccept = "Accept: text/html,application/xhtml+xml"

// world is a daemon whose clock a test steps by hand.
type world struct {
	t   testing.TB
	s   *Server
	now time.Time
	n   int
}

func newWorld(t testing.TB, toml string) *world {
	t.Helper()
	dir := t.TempDir()
	cfg, err := config.Parse("test.toml", []byte(toml+fmt.Sprintf("\n[key]\nfile = %q\n", filepath.Join(dir, "key"))))
	if err != nil {
		t.Fatal(err)
	}
	cfg.State.Dir = dir
	w := &world{t: t, now: time.Unix(1_800_000_000, 0)}
	w.s, err = New(cfg, Options{Version: "test", Now: func() time.Time { return w.now }})
	if err != nil {
		t.Fatal(err)
	}
	w.s.ledger = mint.New(mint.Options{Keys: 1024, Base: 6}) // puzzles that take no time
	return w
}

// raw sends one request as nginx would, and returns the answer.
func (w *world) raw(request string) *fasthttp.Response {
	w.t.Helper()
	var ctx fasthttp.RequestCtx
	if err := ctx.Request.Read(bufio.NewReaderSize(strings.NewReader(request), readBuffer)); err != nil {
		w.t.Fatal(err)
	}
	w.s.handle(&ctx)
	out := new(fasthttp.Response)
	ctx.Response.CopyTo(out)
	return out
}

// asks is what nginx says about a request "METHOD TARGET" from an address.
func (w *world) about(request, addr string, header ...string) string {
	method, target, _ := strings.Cut(request, " ")
	w.n++
	return fmt.Sprintf("X-Original-URI: %s\r\nX-Original-Method: %s\r\nX-Real-IP: %s\r\nX-Request-ID: %032x\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Host: site.example\r\n%s\r\n\r\n",
		target, method, addr, w.n, strings.Join(append([]string{"User-Agent: test"}, header...), "\r\n"))
}

func (w *world) check(request, addr string, header ...string) *fasthttp.Response {
	w.t.Helper()
	return w.raw("GET /check HTTP/1.1\r\nHost: stile\r\n" + w.about(request, addr, header...))
}

// visit is what a client sees of a request: the check, and the page where there is one.
func (w *world) visit(request, addr string, header ...string) *fasthttp.Response {
	w.t.Helper()
	r := w.check(request, addr, header...)
	path := map[int]string{401: "/challenge", 429: "/refused"}[r.StatusCode()]
	if path == "" {
		return r
	}
	return w.raw("GET " + path + " HTTP/1.1\r\nHost: stile\r\nX-Stile-Verdict: " + string(r.Header.Peek("X-Stile-Verdict")) + "\r\n" + w.about(request, addr, header...))
}

// pageData is what the page tells its script.
type pageData struct {
	Token string `json:"token"`
	Bits  int    `json:"bits"`
	Parts int    `json:"parts"`
}

var reData = regexp.MustCompile(`<script type="application/json" id="data">(.*?)</script>`)

func (w *world) data(page *fasthttp.Response) (d pageData) {
	w.t.Helper()
	m := reData.FindSubmatch(page.Body())
	if m == nil {
		w.t.Fatalf("no challenge in %d %s", page.StatusCode(), page.Body())
	}
	if err := json.Unmarshal(m[1], &d); err != nil {
		w.t.Fatal(err)
	}
	return d
}

// solve is what the browser does.
func solve(d pageData, parts int) string {
	raw, _ := base64.RawURLEncoding.DecodeString(d.Token)
	seed := raw[len(raw)-32:]
	var out, block []byte
	for i := range parts {
		for n := uint32(0); ; n++ {
			block = append(block[:0], seed...)
			block = binary.BigEndian.AppendUint32(block, uint32(i))
			block = binary.BigEndian.AppendUint32(block, n)
			if sum := sha256.Sum256(block); binary.BigEndian.Uint32(sum[:])>>(32-d.Bits) == 0 {
				out = binary.BigEndian.AppendUint32(out, n)
				break
			}
		}
	}
	return base64.RawURLEncoding.EncodeToString(out)
}

func (w *world) post(token, solution, addr string, header ...string) *fasthttp.Response {
	body := fmt.Sprintf(`{"token":%q,"solution":%q}`, token, solution)
	return w.postBody(body, addr, append([]string{"Content-Type: application/json"}, header...)...)
}

func (w *world) postBody(body, addr string, header ...string) *fasthttp.Response {
	w.t.Helper()
	return w.raw(fmt.Sprintf("POST /.stile/proof HTTP/1.1\r\nHost: stile\r\nX-Real-IP: %s\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Host: site.example\r\nContent-Length: %d\r\n%s\r\n\r\n%s",
		addr, len(body), strings.Join(header, "\r\n"), body))
}

// pass visits, solves and returns the Cookie header line.
func (w *world) pass(request, addr string) string {
	w.t.Helper()
	d := w.data(w.visit(request, addr, htmlAccept))
	r := w.post(d.Token, solve(d, d.Parts), addr)
	if r.StatusCode() != 200 {
		w.t.Fatalf("%d %s", r.StatusCode(), r.Body())
	}
	return "Cookie: " + cookieOf(r)
}

func cookieOf(r *fasthttp.Response) string {
	v, _, _ := strings.Cut(string(r.Header.Peek("Set-Cookie")), ";")
	return v
}

const gateTOML = `include = []
[[meter]]
name = "m"
window = "1m"
stranger = 2
pass = 4
[[rule]]
name = "closed"
path = "/closed/**"
do = "challenge"
[[rule]]
name = "hard"
path = "/hard/**"
do = "challenge"
level = 3
[[rule]]
name = "bad"
path = "/bad"
do = "deny"
[[rule]]
name = "machines"
path = "/api/**"
do = "meter"
meter = ["m"]
proof = "never"
[[rule]]
name = "rest"
path = "/**"
do = "meter"
meter = ["m"]
`

func TestVisitorGetsIn(t *testing.T) {
	w := newWorld(t, gateTOML)
	page := w.visit("GET /closed/x?a=1", "192.0.2.1", htmlAccept)
	if page.StatusCode() != 503 || string(page.Header.Peek("Cache-Control")) != "no-store, no-cache" || len(page.Header.Peek("Retry-After")) == 0 {
		t.Errorf("the page: %d %s", page.StatusCode(), page.Header.String())
	}
	d := w.data(page)
	if d.Parts != baseParts {
		t.Errorf("%d parts", d.Parts)
	}
	good := solve(d, d.Parts)
	r := w.post(d.Token, good, "192.0.2.1", "Origin: https://site.example")
	if r.StatusCode() != 200 {
		t.Fatalf("%d %s", r.StatusCode(), r.Body())
	}
	set := string(r.Header.Peek("Set-Cookie"))
	for _, want := range []string{"stile=", "Path=/", "Max-Age=86400", "HttpOnly", "SameSite=Lax", "Secure"} {
		if !strings.Contains(set, want) {
			t.Errorf("Set-Cookie: %s: no %s", set, want)
		}
	}
	cookie := "Cookie: " + cookieOf(r)
	if r := w.check("GET /closed/x?a=1", "192.0.2.1", cookie); r.StatusCode() != 200 {
		t.Errorf("with the pass: %d", r.StatusCode())
	}
	if r := w.check("GET /closed/x", "198.51.100.7", cookie); r.StatusCode() != 200 {
		t.Errorf("with the pass, from another network: %d", r.StatusCode())
	}
	// C080: redeemed again by anybody it is the same pass, the same meter.
	again := w.post(d.Token, good, "198.51.100.7")
	a, b := w.parsePass(cookieOf(r)), w.parsePass(cookieOf(again))
	if a != b {
		t.Errorf("redeemed again it is another pass: %v, %v", a, b)
	}
}

// parsePass is the part of a pass that its meter goes by.
func (w *world) parsePass(cookie string) string {
	f := new(facts)
	f.read([]byte("X-Real-IP: 192.0.2.1\r\nCookie: " + cookie + "\r\n"))
	f.identify(w.s.state.Load(), uint32(w.now.Unix()))
	if !f.hasPass {
		w.t.Fatalf("no pass in %q", cookie)
	}
	return fmt.Sprintf("%x level %d until %d", f.pass.ID, f.pass.Level, f.pass.Expires)
}

// C082: what is no proof.
func TestProofRefused(t *testing.T) {
	w := newWorld(t, gateTOML)
	d := w.data(w.visit("GET /closed/x", "192.0.2.1", htmlAccept))
	other := w.data(w.visit("GET /closed/x", "192.0.2.1", htmlAccept))
	good := solve(d, d.Parts)
	f := func(name string, r *fasthttp.Response, status int, want string) {
		t.Helper()
		if r.StatusCode() != status || !strings.Contains(string(r.Body()), want) {
			t.Errorf("%s: %d %s, want %d %s", name, r.StatusCode(), r.Body(), status, want)
		}
		if len(r.Header.Peek("Set-Cookie")) > 0 {
			t.Errorf("%s: sets a cookie", name)
		}
	}
	zeros := base64.RawURLEncoding.EncodeToString(make([]byte, 4*d.Parts))
	f("another challenge's solution", w.post(other.Token, good, "192.0.2.1"), 403, "wrong")
	f("zeros", w.post(d.Token, zeros, "192.0.2.1"), 403, "wrong")
	f("too few parts", w.post(d.Token, good[:48], "192.0.2.1"), 403, "wrong")
	f("nothing", w.post(d.Token, "", "192.0.2.1"), 400, "malformed")
	f("odd length", w.post(d.Token, good[:42], "192.0.2.1"), 400, "malformed")
	f("a changed token", w.post(d.Token[:60]+map[bool]string{true: "B", false: "A"}[d.Token[60] == 'A']+d.Token[61:], good, "192.0.2.1"), 400, "malformed")
	f("an unknown field", w.postBody(fmt.Sprintf(`{"token":%q,"solution":%q,"bits":1}`, d.Token, good), "192.0.2.1", "Content-Type: application/json"), 400, "malformed")
	f("two objects", w.postBody(fmt.Sprintf(`{"token":%q,"solution":%q}{}`, d.Token, good), "192.0.2.1", "Content-Type: application/json"), 400, "malformed")
	f("a form", w.postBody("token="+d.Token, "192.0.2.1", "Content-Type: application/x-www-form-urlencoded"), 400, "malformed")
	f("JSON sent as text, as another site may", w.postBody(fmt.Sprintf(`{"token":%q,"solution":%q}`, d.Token, good), "192.0.2.1", "Content-Type: text/plain"), 400, "malformed")
	f("another site's", w.post(d.Token, good, "192.0.2.1", "Origin: https://evil.example"), 403, "origin")
	f("a sandbox's", w.post(d.Token, good, "192.0.2.1", "Origin: null"), 403, "origin")
	f("another site's, says the browser", w.post(d.Token, good, "192.0.2.1", "Sec-Fetch-Site: cross-site"), 403, "origin")
	w.now = w.now.Add(6 * time.Minute)
	f("an old one", w.post(d.Token, good, "192.0.2.1"), 410, "expired")
}

// Ten thousand challenges fetched at the base price do not come cheaper when they are
// solved later: the price is looked at again.
func TestPriceIsLookedAtAgain(t *testing.T) {
	w := newWorld(t, gateTOML)
	var fetched []pageData
	for range 40 {
		fetched = append(fetched, w.data(w.visit("GET /closed/x", "192.0.2.1", htmlAccept)))
	}
	paid, asked := 0, 0
	for _, d := range fetched {
		if d.Bits != fetched[0].Bits {
			t.Fatal("fetching alone raises the price")
		}
		r := w.post(d.Token, solve(d, d.Parts), "192.0.2.1")
		for r.StatusCode() == 402 {
			var want struct{ Parts int }
			if err := json.Unmarshal(r.Body(), &want); err != nil || want.Parts <= d.Parts {
				t.Fatalf("%s", r.Body())
			}
			asked++
			d.Parts = want.Parts
			r = w.post(d.Token, solve(d, d.Parts), "192.0.2.1")
		}
		if r.StatusCode() != 200 {
			t.Fatalf("%d %s", r.StatusCode(), r.Body())
		}
		paid += d.Parts
	}
	// 16 at the base price, 16 at twice, 8 at four times.
	if want := 32 * (16 + 2*16 + 4*8); paid != want || asked != 24 {
		t.Errorf("%d parts for 40 passes and %d asked for more, want %d and 24", paid, asked, want)
	}
	// A neighbour far away pays the base price; so does this network some hours later.
	if d := w.data(w.visit("GET /closed/x", "203.0.113.9", htmlAccept)); d.Bits != fetched[0].Bits {
		t.Error("another network's price has risen")
	}
	if d := w.data(w.visit("GET /closed/x", "192.0.2.1", htmlAccept)); d.Bits != fetched[0].Bits+2 {
		t.Errorf("the next one is issued at %d bits, want %d", d.Bits, fetched[0].Bits+2)
	}
	w.now = w.now.Add(6 * time.Hour)
	if d := w.data(w.visit("GET /closed/x", "192.0.2.1", htmlAccept)); d.Bits != fetched[0].Bits {
		t.Error("the price does not fall again")
	}
}

// A step-up gives no new meter: the pass keeps its id.
func TestUpgradeKeepsTheID(t *testing.T) {
	w := newWorld(t, gateTOML)
	cookie := w.pass("GET /closed/x", "192.0.2.1")
	page := w.visit("GET /hard/x", "198.51.100.1", htmlAccept, cookie)
	d := w.data(page)
	r := w.post(d.Token, solve(d, d.Parts), "198.51.100.1")
	if r.StatusCode() != 200 {
		t.Fatalf("%d %s", r.StatusCode(), r.Body())
	}
	up := "Cookie: " + cookieOf(r)
	before, after := w.parsePass(cookie[8:]), w.parsePass(up[8:])
	if before[:20] != after[:20] || !strings.Contains(after, "level 3") {
		t.Errorf("before %s, after %s", before, after)
	}
	if r := w.check("GET /hard/x", "198.51.100.1", up); r.StatusCode() != 200 {
		t.Errorf("with the higher pass: %d", r.StatusCode())
	}
	if r := w.check("GET /closed/x", "198.51.100.1", up); r.StatusCode() != 200 {
		t.Errorf("a higher level does not satisfy a lower demand: %d", r.StatusCode())
	}
	if r := w.check("GET /hard/x", "198.51.100.1", cookie); r.StatusCode() != 401 {
		t.Errorf("the lower pass is enough: %d", r.StatusCode())
	}
	// Whoever runs out of the raised budget is refused, not asked again.
	for i := range 6 {
		r := w.check("GET /page", "198.51.100.1", up)
		if want := map[bool]int{true: 200, false: 429}[i < 4]; r.StatusCode() != want {
			t.Errorf("request %d with a pass: %d, want %d", i+1, r.StatusCode(), want)
		}
	}
}

func TestBindNetwork(t *testing.T) {
	w := newWorld(t, gateTOML+"[pass]\nbind = \"network\"\n")
	cookie := w.pass("GET /closed/x", "192.0.2.1")
	if w.check("GET /closed/x", "192.0.2.1", cookie).StatusCode() != 200 || w.check("GET /closed/x", "192.0.2.2", cookie).StatusCode() != 401 {
		t.Error("the pass counts elsewhere, or not where it was proven")
	}
}

func TestWait(t *testing.T) {
	w := newWorld(t, gateTOML)
	link := func(target, addr string) string {
		page := w.visit("GET "+target, addr, htmlAccept)
		m := regexp.MustCompile(`href="(/\.stile/wait\?[^"]+)"`).FindSubmatch(page.Body())
		if m == nil {
			t.Fatalf("no link in %s", page.Body())
		}
		return strings.ReplaceAll(string(m[1]), "&amp;", "&")
	}
	follow := func(link, addr string) *fasthttp.Response {
		return w.raw("GET " + link + " HTTP/1.1\r\nHost: stile\r\nX-Real-IP: " + addr + "\r\nX-Forwarded-Proto: http\r\n\r\n")
	}
	l := link("/closed/x?a=b&c=%20d", "192.0.2.1")
	if r := follow(l, "192.0.2.1"); r.StatusCode() != 429 || len(r.Header.Peek("Retry-After")) == 0 {
		t.Errorf("at once: %d", r.StatusCode())
	}
	w.now = w.now.Add(11 * time.Second)
	if r := follow(l, "192.0.2.2"); r.StatusCode() != 403 {
		t.Errorf("from another network: %d", r.StatusCode())
	}
	r := follow(l, "192.0.2.1")
	if r.StatusCode() != 303 || string(r.Header.Peek("Location")) != "/closed/x?a=b&c=%20d" {
		t.Fatalf("%d %s", r.StatusCode(), r.Header.Peek("Location"))
	}
	if strings.Contains(string(r.Header.Peek("Set-Cookie")), "Secure") {
		t.Error("a Secure cookie over plain http")
	}
	cookie := "Cookie: " + cookieOf(r)
	if w.check("GET /closed/x", "192.0.2.1", cookie).StatusCode() != 200 || w.check("GET /hard/x", "192.0.2.1", cookie).StatusCode() != 401 {
		t.Error("a waited pass is of the lowest level")
	}
	// The same link again, after a connection that was lost: the same pass.
	if again := follow(l, "192.0.2.1"); again.StatusCode() != 303 || w.parsePass(cookieOf(again)) != w.parsePass(cookieOf(r)) {
		t.Errorf("the same link again: %d", again.StatusCode())
	}
	// But another challenge of the same network has to wait again.
	if r := follow(link("/closed/other", "192.0.2.1"), "192.0.2.1"); r.StatusCode() != 429 {
		t.Errorf("a second wait at once: %d", r.StatusCode())
	}
	// C062: who comes back at once without a cookie is told, and not refreshed again.
	if page := w.visit("GET /closed/x?a=b&c=%20d", "192.0.2.1", htmlAccept); strings.Contains(string(page.Body()), "http-equiv") {
		t.Error("a browser without cookies is sent round again")
	}
	for _, bad := range []string{l + "x", l[:60], strings.Replace(l, "&u=", "&u=L2V2aWw", 1), "/.stile/wait", "/.stile/wait?u=x&t=y"} {
		if r := follow(bad, "192.0.2.1"); r.StatusCode() != 400 || len(r.Header.Peek("Set-Cookie")) > 0 {
			t.Errorf("%s: %d", bad, r.StatusCode())
		}
	}
}

// C095
func TestLocation(t *testing.T) {
	f := func(target, want string) {
		t.Helper()
		if got := string(location([]byte(target))); got != want {
			t.Errorf("%q leads to %q, want %q", target, got, want)
		}
	}
	f("/a?b=c&d=%2F", "/a?b=c&d=%2F")
	f("/", "/")
	f("", "/")
	f("//evil.example/", "/")
	f(`/\evil.example/`, "/")
	f("https://evil.example/", "/")
	f("javascript:alert(1)", "/")
	f("data:x", "/")
	f("/a\r\nX: y", "/")
	f("/\t/evil.example", "/")
	f("/ü", "/%C3%BC")
}

func TestOnlyThreeStatuses(t *testing.T) {
	w := newWorld(t, gateTOML)
	for _, request := range []string{"GET /", "GET /bad", "GET /closed/x", "POST /closed/x", "GET /api/x", "BREW /x", "GET /%", "GET /%00", "GET *", "GET"} {
		for range 4 {
			r := w.check(request, "192.0.2.1")
			if c := r.StatusCode(); c != 200 && c != 401 && c != 429 {
				t.Errorf("%s: %d", request, c)
			}
			if len(r.Body()) != 0 || len(r.Header.Peek("X-Stile-Verdict")) == 0 || string(r.Header.Peek("Cache-Control")) != "no-store" ||
				len(r.Header.Peek("Set-Cookie")) > 0 || len(r.Header.Peek("WWW-Authenticate")) > 0 {
				t.Errorf("%s: %s %q", request, r.Header.String(), r.Body())
			}
		}
	}
}

// Whatever is wrong with us is a refusal, never a 5xx: nginx would open.
func TestPanicIsARefusal(t *testing.T) {
	w := newWorld(t, gateTOML)
	w.s.engine = nil
	r := w.check("GET /", "192.0.2.1")
	if r.StatusCode() != 429 || !strings.HasPrefix(string(r.Header.Peek("X-Stile-Verdict")), "refuse;reason=panic") {
		t.Errorf("%d %s", r.StatusCode(), r.Header.Peek("X-Stile-Verdict"))
	}
	if w.s.stats.panics.Get() != 1 {
		t.Error("not counted")
	}
}

// C015: a broken configuration does not take the site down.
func TestMisconfigured(t *testing.T) {
	w := newWorld(t, gateTOML)
	for _, headers := range []string{"", "X-Original-URI: /closed/x\r\n", "X-Real-IP: 192.0.2.1\r\n", "X-Original-URI: /closed/x\r\nX-Real-IP: nonsense\r\n"} {
		r := w.raw("GET /check HTTP/1.1\r\nHost: stile\r\n" + headers + "\r\n")
		if r.StatusCode() != 200 {
			t.Errorf("%q: %d", headers, r.StatusCode())
		}
	}
	r := w.raw("GET /check HTTP/1.1\r\nHost: stile\r\nX-Original-URI: /closed/x\r\nX-Real-IP: 192.0.2.1\r\n\r\n")
	if r.StatusCode() != 401 { // C010: without a method it is taken for a GET
		t.Errorf("without a method: %d", r.StatusCode())
	}
	r = w.raw("GET /check HTTP/1.1\r\nHost: stile\r\nX-Original-URI: /closed/x\r\nX-Original-Method: GET\r\nX-Real-IP: unix:\r\n\r\n")
	if r.StatusCode() != 401 { // as over loopback: nginx says what it knows
		t.Errorf("a client of a unix socket: %d", r.StatusCode())
	}
	if n := w.s.stats.misconfig["X-Original-Method"].Get(); n != 1 {
		t.Errorf("counted %d times", n)
	}
}

// N17: nginx's own 401 and 403 arrive here without a verdict of ours.
func TestNotOurs(t *testing.T) {
	w := newWorld(t, gateTOML)
	for path, want := range map[string]int{"/challenge": 401, "/refused": 403} {
		for _, verdict := range []string{"", "allow", "allow;rule=x", "nonsense"} {
			r := w.raw("GET " + path + " HTTP/1.1\r\nHost: stile\r\nX-Stile-Verdict: " + verdict + "\r\n" + w.about("GET /", "192.0.2.1", htmlAccept))
			if r.StatusCode() != want || strings.Contains(string(r.Body()), "<html") {
				t.Errorf("%s with verdict %q: %d", path, verdict, r.StatusCode())
			}
		}
	}
}

// N15: only these raw targets are served.
func TestTargets(t *testing.T) {
	w := newWorld(t, gateTOML)
	for _, target := range []string{"/", "/check/", "/check?x", "//check", "/./check", "/.stile/../check", "/.stile/%2e%2e/check", "/.stile/./stile.js", "/.stile//stile.js",
		"/.stile/", "/.stile/check", "/.stile/challenge", "/metrics", "/healthz", "/.stile/metrics", "/debug/pprof/"} {
		r := w.raw("GET " + target + " HTTP/1.1\r\nHost: stile\r\nX-Real-IP: 192.0.2.1\r\n\r\n")
		if r.StatusCode() != 404 {
			t.Errorf("%s: %d", target, r.StatusCode())
		}
	}
}

func TestPlainAnswers(t *testing.T) {
	w := newWorld(t, gateTOML)
	f := func(request string, status int, media string, header ...string) {
		t.Helper()
		r := w.visit(request, "192.0.2.1", header...)
		if r.StatusCode() != status || !strings.HasPrefix(string(r.Header.ContentType()), media) {
			t.Errorf("%s %q: %d %s", request, header, r.StatusCode(), r.Header.ContentType())
		}
		if media != "text/html" && len(r.Body()) > 200 {
			t.Errorf("%s %q: %d bytes", request, header, len(r.Body()))
		}
	}
	f("GET /closed/x", 503, "text/html", htmlAccept)
	f("GET /closed/x", 503, "text/html", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document")
	f("GET /closed/x", 503, "text/plain")
	f("GET /closed/x", 503, "text/plain", "Accept: */*")
	f("GET /closed/x", 503, "application/json", "Accept: application/json")
	f("GET /closed/x", 503, "application/json", htmlAccept, "X-Requested-With: XMLHttpRequest")
	f("GET /closed/x", 503, "text/plain", htmlAccept, "Sec-Purpose: prefetch")
	f("GET /closed/x", 503, "text/plain", htmlAccept, "Range: bytes=5-")
	f("GET /closed/x", 503, "text/plain", "Sec-Fetch-Mode: no-cors", "Sec-Fetch-Dest: image")
	f("POST /closed/x", 429, "text/html", htmlAccept)
	f("POST /closed/x", 429, "application/json", "Accept: application/json")
	f("GET /bad", 403, "text/html", htmlAccept)
	f("GET /bad", 403, "text/plain")
	w.visit("GET /api/x", "192.0.2.1")
	w.visit("GET /api/x", "192.0.2.1")
	f("GET /api/x", 429, "text/plain")
}

// Each exit of the decision has its counter, and they add up to the requests.
func TestCountersAddUp(t *testing.T) {
	w := newWorld(t, gateTOML)
	n := 0
	for range 5 {
		for _, request := range []string{"GET /", "GET /bad", "GET /closed/x", "POST /closed/x", "GET /api/x", "GET /%00", "GET /x;y"} {
			for _, addr := range []string{"192.0.2.1", "2001:db8::1", "nonsense"} {
				w.check(request, addr)
				n++
			}
		}
	}
	sum := uint64(0)
	for a := range w.s.stats.checks {
		for r := range w.s.stats.checks[a] {
			sum += w.s.stats.checks[a][r].Get()
		}
	}
	if int(sum) != n {
		t.Errorf("%d requests, %d counted", n, sum)
	}
}

func TestObserveRefusesNobody(t *testing.T) {
	w := newWorld(t, "mode = \"observe\"\n"+gateTOML)
	for _, request := range []string{"GET /bad", "GET /closed/x", "POST /closed/x"} {
		r := w.check(request, "192.0.2.1")
		if r.StatusCode() != 200 || strings.HasPrefix(string(r.Header.Peek("X-Stile-Verdict")), "allow") {
			t.Errorf("%s: %d %s", request, r.StatusCode(), r.Header.Peek("X-Stile-Verdict"))
		}
	}
}

func TestAcceptsGzip(t *testing.T) {
	f := func(header string, want bool) {
		t.Helper()
		if acceptsGzip(header) != want {
			t.Errorf("%q: %v", header, !want)
		}
	}
	f("", false)
	f("gzip, deflate, br", true)
	f("identity", false)
	f("gzip;q=0", false)
	f("gzip; q=0.000", false)
	f("gzip;q=0.5", true)
	f("*", true)
	f("*;q=0", false)
	f("*, gzip;q=0", false)
	f("xgzip", false)
}

func FuzzFacts(f *testing.F) {
	f.Add([]byte("X-Original-URI: /a\r\nX-Real-IP: 192.0.2.1\r\nX-Request-ID: 00112233445566778899aabbccddeeff\r\nCookie: stile=x\r\n\r\n"))
	f.Add([]byte("a:b\n:\n::::\r\nx-real-ip:::1"))
	w := newWorld(f, "")
	f.Fuzz(func(t *testing.T, raw []byte) {
		fa := new(facts)
		v := w.s.judge(w.s.state.Load(), fa, raw, w.now)
		_ = decide.Navigation(&fa.req.Header)
		if text := string(v.AppendToken(nil, "")); text == "" {
			t.Error("no verdict")
		}
		_, _ = fa.sameOrigin()
	})
}

func FuzzProof(f *testing.F) {
	f.Add("application/json", []byte(`{"token":"x","solution":"AAAAAA"}`))
	f.Fuzz(func(t *testing.T, media string, body []byte) {
		_, solution, err := parseProof(media, body)
		if err == nil && (len(solution)%4 != 0 || len(solution) > 4*maxParts) {
			t.Errorf("%d bytes", len(solution))
		}
	})
}

func FuzzWait(f *testing.F) {
	f.Add([]byte("t=x&u=L2E"))
	f.Fuzz(func(t *testing.T, query []byte) {
		_, target, ok := parseWait(query)
		if ok {
			if l := location(target); l[0] != '/' || len(l) > 1 && (l[1] == '/' || l[1] == '\\') {
				t.Errorf("%q leads to %q", query, l)
			}
		}
	})
}

// A reload that breaks a policy's own tests keeps the old policy, like any broken file.
func TestReloadKeepsTheOldPolicy(t *testing.T) {
	w := newWorld(t, gateTOML)
	file := filepath.Join(t.TempDir(), "stile.toml")
	w.s.load = func() (*config.Config, error) { return config.Load(file) }
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text+fmt.Sprintf("\n[key]\nfile = %q\n", w.s.state.Load().cfg.Key.File)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	rule := "include = []\n[[rule]]\nname = \"new\"\npath = \"/new\"\ndo = \"deny\"\n"
	for name, text := range map[string]string{
		"nonsense":             "nonsense",
		"a broken expectation": rule + "[[expect]]\nrequest = \"GET /new\"\nverdict = \"allow\"\n",
	} {
		write(text)
		w.s.Reload()
		if c := w.check("GET /bad", "192.0.2.1").StatusCode(); c != 429 {
			t.Errorf("%s: the old policy is gone: %d", name, c)
		}
	}
	if n := w.s.stats.reloadErrors.Get(); n != 2 || w.s.stats.reloadOK.Load() != 0 {
		t.Errorf("%d errors counted", n)
	}
	write(rule + "[[expect]]\nrequest = \"GET /new\"\nverdict = \"deny\"\n")
	w.s.Reload()
	if c := w.check("GET /new", "192.0.2.1").StatusCode(); c != 429 || w.s.stats.reloadOK.Load() != 1 {
		t.Errorf("the new policy is not in force: %d", c)
	}
}

// Another site that shows our pages in a frame makes nobody's browser work, and puts no
// pass into it.
func TestOtherSitesEarnNothing(t *testing.T) {
	w := newWorld(t, gateTOML)
	frame := []string{htmlAccept, "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: iframe", "Sec-Fetch-Site: cross-site"}
	if page := w.visit("GET /closed/x", "192.0.2.1", frame...); strings.Contains(string(page.Body()), "token") || page.StatusCode() != 503 {
		t.Errorf("a challenge in a foreign frame: %d %s", page.StatusCode(), page.Body())
	}
	prove := w.raw("GET /.stile/prove HTTP/1.1\r\nHost: stile\r\nX-Real-IP: 192.0.2.1\r\n" + htmlAccept + "\r\n\r\n")
	if !strings.Contains(string(prove.Header.Peek("Content-Security-Policy")), "frame-ancestors 'self'") || !strings.Contains(string(prove.Body()), "token") {
		t.Errorf("prove: %s", prove.Header.String())
	}
	link := regexp.MustCompile(`href="(/\.stile/wait\?[^"]+)"`).FindSubmatch(w.visit("GET /closed/x", "192.0.2.1", htmlAccept).Body())[1]
	w.now = w.now.Add(11 * time.Second)
	follow := func(header string) *fasthttp.Response {
		return w.raw("GET " + strings.ReplaceAll(string(link), "&amp;", "&") + " HTTP/1.1\r\nHost: stile\r\nX-Real-IP: 192.0.2.1\r\n" + htmlAccept + "\r\n" + header + "\r\n\r\n")
	}
	if r := follow("Sec-Fetch-Site: cross-site"); r.StatusCode() != 403 || len(r.Header.Peek("Set-Cookie")) > 0 {
		t.Errorf("a wait's link on another site: %d", r.StatusCode())
	}
	better := w.pass("GET /closed/x", "198.51.100.1")
	if r := follow(better); r.StatusCode() != 303 || len(r.Header.Peek("Set-Cookie")) > 0 {
		t.Errorf("a wait replaces a better pass: %d %s", r.StatusCode(), r.Header.Peek("Set-Cookie"))
	}
}

// An address that waits all day has one budget for it, not one for each wait.
func TestWaitsOfADayAreOnePass(t *testing.T) {
	w := newWorld(t, gateTOML)
	ids := map[string]bool{}
	for i := range 5 {
		page := w.visit(fmt.Sprintf("GET /closed/%d", i), "192.0.2.1", htmlAccept)
		link := regexp.MustCompile(`href="(/\.stile/wait\?[^"]+)"`).FindSubmatch(page.Body())[1]
		w.now = w.now.Add(11 * time.Second)
		r := w.raw("GET " + strings.ReplaceAll(string(link), "&amp;", "&") + " HTTP/1.1\r\nHost: stile\r\nX-Real-IP: 192.0.2.1\r\n\r\n")
		if r.StatusCode() != 303 {
			t.Fatalf("wait %d: %d", i, r.StatusCode())
		}
		ids[w.parsePass(cookieOf(r))[:20]] = true
	}
	if len(ids) != 1 {
		t.Errorf("%d meters for the waits of one day", len(ids))
	}
}
