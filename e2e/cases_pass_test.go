package e2e

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"math/big"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"stile/config"
	"stile/nginx/nginxtest"
	"stile/server"
)

// C064: ten pages opened at once are ten challenges; each can be solved, in any order and at the same time, and all
// of them arrive at their own pages.
func TestC064ManyTabsAtOnce(t *testing.T) {
	t.Parallel()
	s := open(t, houseRules, "")
	from := address()
	type tab struct {
		v      *visitor
		target string
		p      puzzle
	}
	var tabs []tab
	for i := range 4 {
		v := s.visitorFrom(from)
		v.header = firefox
		target := fmt.Sprintf("/heavy/tab/%d", i)
		tabs = append(tabs, tab{v, target, v.puzzle(v.get(target))})
		for range 10 { // its pictures
			if r := v.get(target+".png", "Accept: image/avif,*/*"); r.Status != 503 || !isText(r) || len(v.jar) > 0 {
				t.Errorf("a picture: %d %v %v", r.Status, r.Header, v.jar)
			}
		}
	}
	slices.Reverse(tabs)
	var all sync.WaitGroup
	for _, tab := range tabs {
		all.Go(func() {
			if r := tab.v.post(tab.p); r.Status != 200 {
				t.Errorf("%s: %d %s", tab.target, r.Status, r.Body)
			}
			if r := tab.v.get(tab.target); r.Status != 200 || r.Body != "app GET "+tab.target {
				t.Errorf("%s: %d %s", tab.target, r.Status, r.Body)
			}
		})
	}
	all.Wait()
	// In a browser they share a jar: whichever came last, all tabs are in.
	for _, tab := range tabs {
		v := s.visitorFrom(from, firefox...)
		v.jar["stile"] = tabs[0].v.jar["stile"]
		s.app.Reset()
		s.expect(tab.target, v.get(tab.target), 200, 1)
	}
}

// C066: of several cookies of our name any valid one counts, wherever it stands, and the work is bounded.
func TestC066SeveralCookiesOfOurName(t *testing.T) {
	t.Parallel()
	s := open(t, houseRules, "")
	valid, expired := s.daemon.makePass(2, time.Hour), s.daemon.makePass(2, -time.Minute)
	f := func(what, cookies string, status int) {
		t.Helper()
		s.expect(what, s.visitor().get("/heavy/x", "Cookie: "+cookies), status, (503-status)/303)
	}
	f("one", "stile="+valid, 200)
	f("after an expired one", "stile="+expired+"; stile="+valid, 200)
	f("before an expired one", "stile="+valid+"; stile="+expired, 200)
	f("after an empty one", "stile=; stile="+valid, 200)
	f("after one without a value", "stile; stile="+valid, 200)
	f("in quotation marks", `stile="`+valid+`"`, 200)
	f("among others", "a=b; stile_x=1; xstile=2; stile="+valid+"; z=\"; \"", 200)
	f("without blanks", "a=b;stile="+valid+";c=d", 200)
	f("after seven bad ones", strings.Repeat("stile=bad; ", 7)+"stile="+valid, 200)
	f("fifty copies", strings.Repeat("stile="+valid+"; ", 50), 200)
	f("after fifty bad ones", strings.Repeat("stile=bad; ", 50)+"stile="+valid, 503)
	f("expired", "stile="+expired, 503)
	f("empty", "stile=", 503)
	f("none", "a=b", 503)
	f("another name", "Stile="+valid+"; stile2="+valid, 503)
	f("in the value of another", "a=stile="+valid, 503)
	if r := s.visitor().get("/heavy/x", "Cookie: stile="+expired, "Cookie: stile="+valid); r.Status != 200 {
		t.Errorf("two Cookie headers: %d", r.Status)
	}
}

// C154: a pass of another version, of another key, or a damaged one is no pass: no error, and nothing deletes it.
func TestC154StrangePassIsNoPass(t *testing.T) {
	t.Parallel()
	s := open(t, houseRules, "")
	valid := s.daemon.makePass(2, time.Hour)
	raw, err := base64.RawURLEncoding.DecodeString(valid)
	if err != nil {
		t.Fatal(err)
	}
	change := func(i int, b byte) string {
		c := slices.Clone(raw)
		c[i] ^= b
		return base64.RawURLEncoding.EncodeToString(c)
	}
	other := open(t, houseRules, "")
	for what, value := range map[string]string{
		"the next version": change(0, 3), "an old version": change(0, 1), "another key": change(1, 1), "a higher level": change(2, 1), "a later end": change(3, 0x40),
		"another id": change(10, 1), "another network": change(20, 1), "another signature": change(48, 1), "cut": valid[:60], "longer": valid + "A",
		"another spelling": valid[:65] + string(valid[65]^1), "padded": valid + "==", "of another site": other.daemon.makePass(2, time.Hour), "a JWT": "eyJhbGciOiJFZERTQSJ9.e30.x",
	} {
		v := s.visitor()
		v.jar["stile"] = value
		r := v.get("/heavy/x")
		s.expect(what, r, 503, 0)
		if got := r.Header.Get("Set-Cookie"); got != "" || v.jar["stile"] != value {
			t.Errorf("%s: deleted by %q", what, got)
		}
		if r := v.get("/metered/x"); r.Status != 200 {
			t.Errorf("%s, elsewhere: %d", what, r.Status)
		}
		s.app.Reset()
	}
	v := s.visitor()
	v.jar["stile"] = valid
	s.expect("and back again", v.get("/heavy/x"), 200, 1)
}

// C068: twenty challenges leave one small cookie, with one id, beside whatever the site has set itself.
func TestC068JarStaysSmall(t *testing.T) {
	t.Parallel()
	s := open(t, houseRules, "")
	v := s.visitor()
	v.jar["app"] = strings.Repeat("x", 7500)
	v.enter("/heavy/x")
	id := v.pass().ID
	for i := range 20 {
		if page := v.get("/.stile/prove"); i%10 == 9 {
			v.prove(page)
		}
		if p := v.pass(); p.ID != id || len(v.jar) != 2 || len(v.jar["stile"]) > 120 {
			t.Fatalf("the jar after another challenge: %d cookies, pass %v of %d bytes", len(v.jar), p.ID, len(v.jar["stile"]))
		}
	}
	s.app.Reset()
	s.expect("at the end", v.get("/heavy/x"), 200, 1)
}

// C072: over http the cookie has no Secure, over https it has, and both work.
func TestC072SecureOverHTTPSOnly(t *testing.T) {
	t.Parallel()
	certificate, private := selfSigned(t)
	s := build(t, houseRules, nginxtest.Options{
		Site: `
server {
    listen 80;
    listen 83 ssl;
    ssl_certificate /run/stile/cert.pem;
    ssl_certificate_key /run/stile/key.pem;
    include snippets/stile.conf;
    location / { proxy_pass http://127.0.0.1:8080; }
}
`,
		Files: map[string]string{"cert.pem": certificate, "key.pem": private},
	})
	s.daemon.start()
	attributes := func(r *nginxtest.Response) string {
		t.Helper()
		got := r.Header.Values("Set-Cookie")
		if len(got) != 1 {
			t.Fatalf("Set-Cookie: %q", got)
		}
		return regexp.MustCompile(`^stile=[A-Za-z0-9_-]{66}; Path=/; Max-Age=86[34][0-9]{2};`).ReplaceAllString(got[0], "stile=…;")
	}
	const plain = "stile=…; HttpOnly; SameSite=Lax"
	v := s.visitor()
	if got := attributes(v.post(v.puzzle(v.get("/heavy/x")))); got != plain {
		t.Errorf("over http: %s", got)
	}
	s.expect("over http", v.get("/heavy/x"), 200, 1)
	w := s.visitor()
	w.port, w.tls = 83, true
	if got := attributes(w.post(w.puzzle(w.get("/heavy/x")))); got != plain+"; Secure" {
		t.Errorf("over https: %s", got)
	}
	s.expect("over https", w.get("/heavy/x"), 200, 1)
}

// C074: a client whose clock is hours off keeps its pass, since the cookie says how long, not until when.
func TestC074ClocksOfClients(t *testing.T) {
	t.Parallel()
	faketime, curl := need(t, "faketime"), need(t, "curl")
	s := open(t, houseRules, "")
	for _, offset := range []string{"+3h", "-3h"} {
		v := s.visitor()
		p := v.puzzle(v.get("/heavy/x"))
		jar := filepath.Join(t.TempDir(), "jar")
		run := func(args ...string) string {
			t.Helper()
			args = append([]string{"-f", offset, curl, "-sS", "-o", "/dev/null", "-w", "%{http_code}", "-b", jar, "-c", jar, "-A", "Mozilla/5.0"}, args...)
			out, err := exec.Command(faketime, args...).CombinedOutput()
			if err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			return string(out)
		}
		if got := run("-H", "Content-Type: application/json", "-d", proofText(p.Token, p.solve(0, p.Parts)), "http://"+s.Addr(80)+"/.stile/proof"); got != "200" {
			t.Errorf("%s: the proof: %s", offset, got)
		}
		for range 2 {
			if got := run("http://" + s.Addr(80) + "/heavy/x"); got != "200" {
				t.Errorf("%s: the page: %s", offset, got)
			}
		}
	}
}

// C074, C075: the daemon's clock steps back between issue and use, or another replica's is behind: what one has
// issued the other takes at once.
func TestC075ClocksOfDaemons(t *testing.T) {
	t.Parallel()
	now := &clock{t: time.Now()}
	a := build(t, houseRules, nginxtest.Options{})
	a.inside(now.now)
	f := func(what string, step time.Duration) {
		t.Helper()
		v := a.visitor()
		p := v.puzzle(v.get("/heavy/x"))
		now.step(step)
		if r := v.post(p); r.Status != 200 {
			t.Errorf("%s: %d %s", what, r.Status, r.Body)
		}
		now.step(step)
		a.expect(what, v.get("/heavy/x"), 200, 1)
		now.step(-2 * step)
	}
	f("2 s back", -2*time.Second)
	f("2 s ahead", 2*time.Second)
	f("a minute ahead", time.Minute)

	// Too late is too late: the visitor gets a new one, not a loop of errors.
	v := a.visitor()
	p := v.puzzle(v.get("/heavy/x"))
	now.step(6 * time.Minute)
	if r := v.post(p); r.Status != http.StatusGone || r.Body != `{"error":"expired"}` {
		t.Errorf("six minutes later: %d %s", r.Status, r.Body)
	}
	v.enter("/heavy/x")
	now.step(25 * time.Hour)
	a.app.Reset()
	a.expect("a day later", v.get("/heavy/x"), 503, 0)

	late := &clock{t: now.now().Add(-2 * time.Second)}
	b := build(t, houseRules, nginxtest.Options{})
	b.daemon.shareKey(a.daemon)
	b.inside(late.now)
	v = a.visitor()
	page := v.get("/heavy/x")
	w := b.visitorFrom(v.from, firefox...)
	if r := w.post(w.puzzle(page)); r.Status != 200 {
		t.Errorf("a challenge of A solved at B: %d %s", r.Status, r.Body)
	}
	v.jar["stile"] = w.jar["stile"]
	a.app.Reset()
	a.expect("B's pass at A", v.get("/heavy/x"), 200, 1)
	v = a.visitor()
	v.enter("/heavy/x")
	w = b.visitorFrom(v.from, firefox...)
	w.jar["stile"] = v.jar["stile"]
	b.expect("A's pass at B", w.get("/heavy/x"), 200, 1)
}

// clock is a clock that a test moves.
type clock struct {
	mu sync.Mutex
	t  time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.t
}

func (c *clock) step(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t = c.t.Add(d)
}

// inside runs the daemon in the test's own process, with a clock of the test's.
func (s *site) inside(now func() time.Time) {
	s.t.Helper()
	cfg, err := config.Load(s.daemon.file())
	if err != nil {
		s.t.Fatal(err)
	}
	d, err := server.New(cfg, server.Options{File: s.daemon.file(), Now: now})
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ready, done := make(chan struct{}), make(chan error, 1)
	go func() { done <- d.Run(ctx, nil, func() { close(ready) }) }()
	select {
	case <-ready:
	case err := <-done:
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			s.t.Error(err)
		}
	})
}

// shareKey gives a daemon that has not been started another one's key.
func (d *daemon) shareKey(other *daemon) {
	d.t.Helper()
	text, err := os.ReadFile(filepath.Join(other.dir, "key"))
	if err == nil {
		err = os.WriteFile(filepath.Join(d.dir, "key"), text, 0o600)
	}
	if err != nil {
		d.t.Fatal(err)
	}
}

// selfSigned makes a certificate for a test, and its key.
func selfSigned(t *testing.T) (certificate, private string) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"site.example"}, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, c, c, k.Public(), k)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	encode := func(kind string, b []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: b}))
	}
	return encode("CERTIFICATE", der), encode("PRIVATE KEY", secret)
}

// C076: a pass is not tied to the rule that asked for it, nor C077 to the headers with which it was earned. A higher
// level is asked for once, and the pass stays the same one.
func TestC076PassIsForTheSite(t *testing.T) {
	t.Parallel()
	s := open(t, houseRules+`
[[rule]]
name = "q"
path = "/q/**"
do = "challenge"
[[rule]]
name = "high"
path = "/high/**"
do = "challenge"
level = 3
`, "")
	v := s.visitor()
	v.enter("/heavy/p")
	id := v.pass().ID
	s.app.Reset()
	s.expect("another rule", v.get("/q/x"), 200, 1)
	s.expect("the first again", v.get("/heavy/p"), 200, 1)
	r := v.get("/high/x")
	s.expect("a higher level", r, 503, 0)
	v.prove(r)
	if p := v.pass(); p.ID != id || p.Level != 3 {
		t.Errorf("after the step: %+v, want level 3 and id %v", p, id)
	}
	for _, target := range []string{"/high/x", "/q/x", "/heavy/p", "/high/y"} {
		s.expect("after the step: "+target, v.get(target), 200, 1)
	}
	if low, high := s.visitor().puzzle(s.visitor().get("/q/x")), v.puzzle(v.get("/.stile/prove")); high.Bits != low.Bits+2 {
		t.Errorf("renewing a pass of level 3 costs %d bits, a pass of level 2 %d; want two more", high.Bits, low.Bits)
	}
	s.app.Reset()
	for _, header := range [][]string{
		{"User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:141.0) Gecko/20100101 Firefox/141.0"}, {"Accept-Language: fa"}, {"Accept-Language:"}, {"DNT: 1", "Sec-GPC: 1"},
		{"Accept: */*"}, {"User-Agent:"}, {"Accept-Encoding: br"}, {"Referer: https://search.example/"}, {"Sec-CH-UA: \"x\""},
	} {
		s.expect("with "+header[0], v.get("/heavy/x", header...), 200, 1)
	}
	// What was used before the step stays used.
	v.use("/metered/x", 6)
	s.expect("spent, at a higher level", v.get("/metered/x"), 429, 0)
	w := s.member()
	w.use("/metered/x", 6)
	s.expect("spent", w.get("/metered/x"), 429, 0)
	w.prove(w.get("/.stile/prove"))
	s.expect("spent, and another proof", w.get("/metered/x"), 429, 0)
}
