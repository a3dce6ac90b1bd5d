package e2e

import (
	"bufio"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"stile/cookie"
	"stile/key"
	"stile/nginx/nginxtest"
)

// easy makes puzzles that a test can afford.
const easy = "[challenge]\ntarget = \"100ms\"\n"

// Headers of visitors, as they send them.
var (
	firefox = []string{
		"User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0",
		"Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
		"Accept-Language: en-US,en;q=0.5",
		"Accept-Encoding: gzip, deflate",
		"Upgrade-Insecure-Requests: 1",
	}
	program = []string{"User-Agent: curl/8.14.1", "Accept: */*"}
)

// visitor is somebody with a browser, as far as can be told from the wire: it has an
// address, sends a browser's headers, keeps cookies, and solves challenges. It is
// used by one goroutine at a time.
type visitor struct {
	s      *site
	t      testing.TB
	port   int
	from   string   // its address, one of 127.0.0.0/8
	header []string // sent unless the request has one of that name
	jar    map[string]string
	kept   bool // its connection stays open between requests
	tls    bool
	conn   net.Conn
	r      *bufio.Reader
}

var visitors atomic.Uint32

// visitor arrives from a network that nobody has come from before.
func (s *site) visitor(header ...string) *visitor {
	if header == nil {
		header = firefox
	}
	return s.visitorFrom(address(), header...)
}

// address is one of 127.0.0.0/8 in a /24 of its own.
func address() string {
	n := visitors.Add(1)
	return fmt.Sprintf("127.%d.%d.7", 10+n/250, n%250)
}

func (s *site) visitorFrom(from string, header ...string) *visitor {
	v := &visitor{s: s, t: s.t, port: 80, from: from, header: header, jar: map[string]string{}}
	return v
}

// get asks for a raw target. Header lines take the place of the visitor's own of that name.
func (v *visitor) get(target string, header ...string) *nginxtest.Response {
	v.t.Helper()
	return v.ask("GET", target, "", header...)
}

// ask sends a request, keeps the cookies of the answer, and fails the test without one.
func (v *visitor) ask(method, target, body string, header ...string) *nginxtest.Response {
	v.t.Helper()
	r, err := v.try(method, target, body, header...)
	if err != nil {
		v.t.Fatalf("%s %.100s: %s", method, target, err)
	}
	return r
}

func (v *visitor) try(method, target, body string, header ...string) (*nginxtest.Response, error) {
	r, err := v.raw(nginxtest.Request(method, target, body, v.lines(header)...))
	if err != nil {
		return nil, err
	}
	for _, c := range (&http.Response{Header: r.Header}).Cookies() {
		if c.MaxAge < 0 || c.Value == "" {
			delete(v.jar, c.Name)
		} else {
			v.jar[c.Name] = c.Value
		}
	}
	return r, nil
}

// lines are the header lines of a request that has some of its own.
func (v *visitor) lines(own []string) []string {
	var lines []string
	has := func(name string) bool {
		return slices.ContainsFunc(own, func(h string) bool {
			k, _, _ := strings.Cut(h, ":")
			return strings.EqualFold(k, name)
		})
	}
	for _, h := range v.header {
		if name, _, _ := strings.Cut(h, ":"); !has(name) {
			lines = append(lines, h)
		}
	}
	if len(v.jar) > 0 && !has("Cookie") {
		var pairs []string
		for _, name := range slices.Sorted(maps.Keys(v.jar)) {
			pairs = append(pairs, name+"="+v.jar[name])
		}
		lines = append(lines, "Cookie: "+strings.Join(pairs, "; "))
	}
	return append(lines, own...)
}

// raw sends bytes and reads one answer. A kept connection that nginx has closed is opened again once.
func (v *visitor) raw(request string) (*nginxtest.Response, error) {
	method, _, _ := strings.Cut(request, " ")
	for reused := v.conn != nil; ; reused = false {
		if v.conn == nil {
			if err := v.dial(); err != nil {
				return nil, err
			}
		}
		r, err := v.exchange(method, request)
		if err != nil || !v.kept {
			v.hangUp()
		}
		if err == nil || !reused {
			return r, err
		}
	}
}

func (v *visitor) dial() error {
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(v.from)}, Timeout: 30 * time.Second}
	c, err := d.Dial("tcp", v.s.Addr(v.port))
	if err != nil {
		return err
	}
	if v.tls {
		c = tls.Client(c, &tls.Config{InsecureSkipVerify: true}) // of a test's own certificate
	}
	v.conn, v.r = c, bufio.NewReader(c)
	return nil
}

func (v *visitor) hangUp() {
	if v.conn != nil {
		v.conn.Close()
		v.conn = nil
	}
}

func (v *visitor) exchange(method, request string) (*nginxtest.Response, error) {
	if err := v.conn.SetDeadline(time.Now().Add(60 * time.Second)); err != nil {
		return nil, err
	}
	_, writing := io.WriteString(v.conn, request) // nginx may answer before it has read all
	resp, err := http.ReadResponse(v.r, &http.Request{Method: method})
	for err == nil && resp.StatusCode == http.StatusContinue {
		resp, err = http.ReadResponse(v.r, &http.Request{Method: method})
	}
	if err != nil {
		if writing != nil {
			err = writing
		}
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	if resp.Close {
		defer v.hangUp()
	}
	return &nginxtest.Response{Status: resp.StatusCode, Header: resp.Header, Body: string(body)}, nil
}

// puzzle is a challenge as its page states it to the script.
type puzzle struct {
	Token string
	Bits  uint8
	Parts int
	Prove bool
}

var dataBlock = regexp.MustCompile(`<script type="application/json" id="data">(.*?)</script>`)

// readPuzzle finds the challenge in a page; ok is false if the page has none.
func readPuzzle(page string) (p puzzle, ok bool) {
	m := dataBlock.FindStringSubmatch(page)
	if m == nil || json.Unmarshal([]byte(m[1]), &p) != nil {
		return puzzle{}, false
	}
	return p, p.Token != ""
}

func (v *visitor) puzzle(page *nginxtest.Response) puzzle {
	v.t.Helper()
	p, ok := readPuzzle(page.Body)
	if !ok {
		v.t.Fatalf("no challenge in an answer %d: %.300q", page.Status, page.Body)
	}
	return p
}

// solve finds the nonces of some parts by trying, as the page's script does.
func (p puzzle) solve(from, to int) []byte {
	raw, err := base64.RawURLEncoding.DecodeString(p.Token)
	if err != nil || len(raw) < 32 {
		panic("BUG: not a token: " + p.Token)
	}
	var message [40]byte
	copy(message[:], raw[len(raw)-32:])
	var solution []byte
	for i := from; i < to; i++ {
		binary.BigEndian.PutUint32(message[32:], uint32(i))
		for nonce := uint32(0); ; nonce++ {
			binary.BigEndian.PutUint32(message[36:], nonce)
			sum := sha256.Sum256(message[:])
			if binary.BigEndian.Uint32(sum[:])>>(32-p.Bits) == 0 {
				solution = binary.BigEndian.AppendUint32(solution, nonce)
				break
			}
		}
	}
	return solution
}

func proofText(token string, solution []byte) string {
	return fmt.Sprintf(`{"token":%q,"solution":%q}`, token, base64.RawURLEncoding.EncodeToString(solution))
}

// fetchHeaders are what a browser adds to a fetch of the page's script.
func (v *visitor) fetchHeaders() []string {
	return []string{"Accept: */*", "Content-Type: application/json", "Origin: http://site.example", "Upgrade-Insecure-Requests:"}
}

// post hands a solution in, and gives the missing parts when the price has risen.
func (v *visitor) post(p puzzle) *nginxtest.Response {
	v.t.Helper()
	solution := p.solve(0, p.Parts)
	for {
		r := v.ask("POST", "/.stile/proof", proofText(p.Token, solution), v.fetchHeaders()...)
		var answer struct{ Parts int }
		if r.Status != http.StatusPaymentRequired || json.Unmarshal([]byte(r.Body), &answer) != nil || answer.Parts <= p.Parts {
			return r
		}
		solution = append(solution, p.solve(p.Parts, answer.Parts)...)
		p.Parts = answer.Parts
	}
}

// prove solves the challenge of a page and keeps the pass.
func (v *visitor) prove(page *nginxtest.Response) {
	v.t.Helper()
	p := v.puzzle(page)
	if r := v.post(p); r.Status != 200 || r.Body != `{"ok":true}` || v.jar["stile"] == "" {
		v.t.Fatalf("a right solution: %d %q, cookies %v", r.Status, r.Body, v.jar)
	}
	if r := v.get("/.stile/pass", "Accept: */*"); r.Status != 204 {
		v.t.Fatalf("/.stile/pass after a proof: %d", r.Status)
	}
}

// member is a visitor who has proven something before: the site's key makes the pass, and the test need not solve.
func (s *site) member(header ...string) *visitor {
	v := s.visitor(header...)
	v.jar["stile"] = s.daemon.makePass(2, time.Hour)
	return v
}

// enter opens a page, solves what it is asked, and opens it again.
func (v *visitor) enter(target string) *nginxtest.Response {
	v.t.Helper()
	if r := v.get(target); r.Status == 503 {
		v.prove(r)
	} else if r.Status != 200 {
		v.t.Fatalf("%s: %d %.200q", target, r.Status, r.Body)
	}
	r := v.get(target)
	if r.Status != 200 {
		v.t.Fatalf("%s with a pass: %d %.200q", target, r.Status, r.Body)
	}
	return r
}

// pass reads the visitor's pass by the site's key.
func (v *visitor) pass() cookie.Pass {
	v.t.Helper()
	return v.s.daemon.read(v.jar["stile"])
}

func (d *daemon) read(value string) (p cookie.Pass) {
	d.t.Helper()
	if err := d.passes().Parse([]byte(value), uint32(time.Now().Unix()), &p); err != nil {
		d.t.Fatalf("the pass %q: %s", value, err)
	}
	return p
}

// passes make and read passes by the site's key, for tests that need many or odd ones.
func (d *daemon) passes() *cookie.Passes {
	d.t.Helper()
	ring, err := key.Load(d.dir + "/key")
	if err != nil {
		d.t.Fatal(err)
	}
	return cookie.New(ring)
}

// makePass makes a pass of that level which ends so much later.
func (d *daemon) makePass(level uint8, left time.Duration) string {
	d.t.Helper()
	p := cookie.Pass{Level: level, Expires: uint32(time.Now().Add(left).Unix())}
	rand.Read(p.ID[:])
	return string(d.passes().Append(nil, &p))
}

// expect checks the status that a visitor sees, and whether the application was asked.
func (s *site) expect(what string, r *nginxtest.Response, status, hits int) {
	s.t.Helper()
	if r.Status != status {
		s.t.Errorf("%s: %d, want %d; %v %.200q", what, r.Status, status, r.Header, r.Body)
	}
	s.hits(what, hits)
}

// hits checks how often the application was asked since the last time.
func (s *site) hits(what string, want int) []nginxtest.Hit {
	s.t.Helper()
	hits := s.app.Hits()
	if len(hits) != want {
		s.t.Errorf("%s: the application was asked %d times, want %d: %s", what, len(hits), want, targetsOf(hits))
	}
	s.app.Reset()
	return hits
}

func targetsOf(hits []nginxtest.Hit) (s string) {
	for _, h := range hits[:min(len(hits), 10)] {
		s += fmt.Sprintf(" %s %.100q", h.Method, h.Target)
	}
	return s
}

// ours checks what every answer of stile's in place of a page has in common.
func (s *site) ours(what string, r *nginxtest.Response) {
	s.t.Helper()
	if got := r.Header.Values("Cache-Control"); len(got) != 1 || !strings.HasPrefix(got[0], "no-store") {
		s.t.Errorf("%s: Cache-Control %q", what, got)
	}
	for _, name := range []string{"X-Robots-Tag", "Set-Cookie", "Location", "X-Stile-Verdict", "X-Stile-Lease", "WWW-Authenticate"} {
		if got := r.Header.Values(name); len(got) > 0 {
			s.t.Errorf("%s: has %s: %q", what, name, got)
		}
	}
	if r.Status != 503 && r.Status != 429 && r.Status != 403 {
		s.t.Errorf("%s: status %d", what, r.Status)
	}
}

// isPage and isText tell what kind of answer somebody got.
func isPage(r *nginxtest.Response) bool {
	return strings.HasPrefix(r.Header.Get("Content-Type"), "text/html") && strings.Contains(r.Body, "<h1")
}

func isText(r *nginxtest.Response) bool {
	ct := r.Header.Get("Content-Type")
	return (strings.HasPrefix(ct, "text/plain") || ct == "application/json") && len(r.Body) < 300 && !strings.Contains(r.Body, "<")
}
