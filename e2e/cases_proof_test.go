package e2e

import (
	"encoding/base64"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
)

// C080: a solution that is handed in twice, by another jar, from another network, or many times at once, makes one
// pass: the same id, one meter, counted once.
func TestC080SolutionIsWorthOnePass(t *testing.T) {
	t.Parallel()
	s := open(t, houseRules, "")
	a, b := s.visitor(), s.visitor()
	p := a.puzzle(a.get("/heavy/x"))
	solution := p.solve(0, p.Parts)
	redeem := func(v *visitor) {
		t.Helper()
		if r := v.ask("POST", "/.stile/proof", proofText(p.Token, solution), v.fetchHeaders()...); r.Status != 200 {
			t.Errorf("%d %s", r.Status, r.Body)
		}
	}
	redeem(a)
	redeem(b)
	var all sync.WaitGroup
	for range 8 {
		v := s.visitor()
		all.Go(func() { redeem(v) })
	}
	all.Wait()
	if a.pass() != b.pass() {
		t.Errorf("two passes: %+v, %+v", a.pass(), b.pass())
	}
	if n := s.daemon.metric("stile_passes_minted_total", ""); n != 1 {
		t.Errorf("%v passes were counted, want 1", n)
	}
	a.use("/metered/x", 3)
	b.use("/metered/x", 3)
	s.expect("both have used what one may", a.get("/metered/x"), 429, 0)
	s.expect("both have used what one may", b.get("/metered/x"), 429, 0)
	s.expect("a stranger from there", s.visitorFrom(b.from, firefox...).get("/metered/x"), 200, 1)
}

// C082: what is no solution earns nothing, whatever it looks like and whatever it claims about the price.
func TestC082WrongSolutionsEarnNothing(t *testing.T) {
	t.Parallel()
	s := open(t, houseRules, "")
	v := s.visitor()
	p := v.puzzle(v.get("/heavy/x"))
	other := v.puzzle(v.get("/heavy/x"))
	good := p.solve(0, p.Parts)
	encode := base64.RawURLEncoding.EncodeToString
	raw, _ := base64.RawURLEncoding.DecodeString(p.Token)
	token := func(i int, b byte) string {
		c := slices.Clone(raw)
		c[i] = b
		return encode(c)
	}
	wrong := func(i int) []byte {
		c := slices.Clone(good)
		c[4*i+3]++ // the next nonce holds once in 2^bits
		c[4*i+2]++
		return c
	}
	swapped := append(slices.Clone(good[4:8]), append(slices.Clone(good[:4]), good[8:]...)...)
	// The same puzzle as if it were easier: solved for 4 bits.
	easier := p
	easier.Bits = 4
	cheap := easier.solve(0, p.Parts)
	waiting := v.waitLink(v.get("/heavy/x"))
	waitToken, _, _ := strings.Cut(strings.TrimPrefix(waiting, "/.stile/wait?t="), "&")

	f := func(what, body string, status int, header ...string) {
		t.Helper()
		w := s.visitorFrom(v.from, firefox...)
		r := w.ask("POST", "/.stile/proof", body, append(header, v.fetchHeaders()[len(header):]...)...)
		if r.Status != status || r.Header.Get("Set-Cookie") != "" || !strings.HasPrefix(r.Header.Get("Cache-Control"), "no-store") || !strings.HasPrefix(r.Body, `{"error":"`) {
			t.Errorf("%s: %d %v %.100q, want %d", what, r.Status, r.Header, r.Body, status)
		}
	}
	proof := func(what, token string, solution []byte, status int) {
		t.Helper()
		f(what, proofText(token, solution), status)
	}
	proof("the first part wrong", p.Token, wrong(0), 403)
	proof("the last part wrong", p.Token, wrong(p.Parts-1), 403)
	proof("two parts swapped", p.Token, swapped, 403)
	proof("zeros", p.Token, make([]byte, len(good)), 403)
	proof("ones", p.Token, []byte(strings.Repeat("\xff", len(good))), 403)
	proof("the solution of another", other.Token, good, 403)
	proof("solved for less", p.Token, cheap, 403)
	proof("fewer bits in the token", token(8, 4), cheap, 400)
	proof("no bits in the token", token(8, 0), good, 400)
	proof("one part in the token", token(7, 1), good[:4], 400)
	proof("another algorithm", token(2, 2), good, 400)
	proof("the next version", token(0, 2), good, 410)
	proof("another key", token(1, 99), good, 400)
	proof("a higher level", token(5, 3), good, 400)
	proof("another signature", token(98, raw[98]^1), good, 400)
	proof("a wait as work", waitToken, good, 400)
	proof("no parts", p.Token, nil, 400)
	proof("one part", p.Token, good[:4], 403)
	proof("half a part too few", p.Token, good[:len(good)-2], 400)
	proof("half a part too many", p.Token, append(slices.Clone(good), 1, 2), 400)
	proof("parts beyond counting", p.Token, make([]byte, 4*1025), 400)
	proof("no token", "", good, 400)
	f("a claim of less work", fmt.Sprintf(`{"token":%q,"solution":%q,"bits":1,"parts":1}`, p.Token, encode(cheap)), 400)
	f("negative nonces", fmt.Sprintf(`{"token":%q,"solution":[-1,-2]}`, p.Token), 400)
	f("huge nonces", fmt.Sprintf(`{"token":%q,"solution":[1e400]}`, p.Token), 400)
	f("padded", fmt.Sprintf(`{"token":%q,"solution":"%s="}`, p.Token, encode(good)), 400)
	f("with line breaks", fmt.Sprintf(`{"token":%q,"solution":"%s\n"}`, p.Token, encode(good)), 400)
	f("another alphabet", fmt.Sprintf(`{"token":%q,"solution":"+/%s"}`, p.Token, encode(good)[2:]), 400)
	f("twice", proofText(p.Token, good)+proofText(p.Token, good), 400)
	f("a list", "["+proofText(p.Token, good)+"]", 400)
	f("null", "null", 400)
	f("deep", strings.Repeat("[", 5000), 400)
	f("nothing", "", 400)
	f("a form", "token="+p.Token+"&solution="+encode(good), 400)
	f("as text, which other sites may send", proofText(p.Token, good), 400, "Content-Type: text/plain")
	f("from another site", proofText(p.Token, good), 403, "Origin: https://evil.example", "Content-Type: application/json")
	f("from a sandbox", proofText(p.Token, good), 403, "Origin: null", "Content-Type: application/json")
	if r := v.get("/.stile/proof"); r.Status != 405 {
		t.Errorf("a GET: %d", r.Status)
	}
	if r := v.ask("POST", "/.stile/proof", strings.Repeat("x", 100<<10), v.fetchHeaders()...); r.Status != 413 {
		t.Errorf("100 KB: %d", r.Status)
	}
	s.hits("none of it", 0)
	if n := s.daemon.metric("stile_passes_minted_total", ""); n != 0 {
		t.Errorf("%v passes were counted", n)
	}
	if r := v.ask("POST", "/.stile/proof", proofText(p.Token, good), v.fetchHeaders()...); r.Status != 200 {
		t.Errorf("the right one, after all that: %d %s", r.Status, r.Body)
	}
	if n := s.daemon.metric("stile_panics_total", ""); n != 0 {
		t.Errorf("%v panics", n)
	}
}

// C098: who is over every limit can still fetch what it takes to get in, and get in.
func TestC098WayInIsNeverShut(t *testing.T) {
	t.Parallel()
	s := open(t, "include = []\n"+easy+`
[[meter]]
name = "one"
window = "1h"
stranger = 1
pass = 100
[[rule]]
name = "all"
path = "/**"
do = "meter"
meter = "one"
`, "")
	v := s.visitor()
	v.kept = true
	for range 50 {
		v.get("/page")
	}
	for range 50 {
		if r := v.get("/.stile/stile.js"); r.Status != 200 || r.Body == "" {
			t.Fatalf("the script: %d", r.Status)
		}
	}
	for range 5 {
		if r := v.get("/.stile/prove"); r.Status != 200 {
			t.Fatalf("/.stile/prove: %d", r.Status)
		}
		if r := v.get("/.stile/pass"); r.Status != 403 {
			t.Fatalf("/.stile/pass: %d", r.Status)
		}
	}
	s.app.Reset()
	r := v.get("/page")
	s.expect("over the limit", r, 503, 0)
	v.prove(r)
	s.expect("let in", v.get("/page"), 200, 1)
}

// C099: neither the proof nor the pass is in an address, a log, or what the application is told of where one came from.
func TestC099ProofIsInNoLog(t *testing.T) {
	t.Parallel()
	s := open(t, houseRules, "")
	v := s.visitor()
	page := v.get("/heavy/x?a=b")
	p := v.puzzle(page)
	link := v.waitLink(page)
	solution := p.solve(0, p.Parts)
	if r := v.get(link); r.Status != 429 {
		t.Errorf("a wait at once: %d", r.Status)
	}
	if r := v.ask("POST", "/.stile/proof", proofText(p.Token, solution), append(v.fetchHeaders(), "Referer: http://site.example/heavy/x?a=b")...); r.Status != 200 {
		t.Fatalf("%d %s", r.Status, r.Body)
	}
	s.expect("the page", v.get("/heavy/x?a=b", "Referer: http://site.example/heavy/x?a=b"), 200, 1)
	s.expect("another", v.get("/robots.txt"), 200, 1)
	s.AccessLines(3)
	_, waitToken, _ := strings.Cut(link, "t=")
	for where, text := range map[string]string{"the access log": s.Access(), "the error log": s.Errors(), "the daemon's log": s.daemon.output(), "the metrics": s.daemon.metrics()} {
		for what, secret := range map[string]string{
			"token": p.Token[100:], "solution": base64.RawURLEncoding.EncodeToString(solution)[:20], "pass": v.jar["stile"], "wait's token": waitToken[100:130],
		} {
			if strings.Contains(text, secret) {
				t.Errorf("the %s is in %s", what, where)
			}
		}
	}
	if n := strings.Count(s.Access(), "\n"); n != 3 {
		t.Errorf("%d lines in the access log, want one for each page:\n%s", n, s.Access())
	}
	key, err := os.ReadFile(s.daemon.dir + "/key")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Split(strings.TrimSpace(string(key)), "\n") {
		if _, secret, ok := strings.Cut(line, " "); ok && line[0] != '#' && strings.Contains(s.daemon.output(), secret) {
			t.Error("the key is in the log")
		}
	}
}

// A network has so many passes a day and no more; whoever is refused there is told for how long, and nobody elsewhere is.
func TestCeilingOfPasses(t *testing.T) {
	t.Parallel()
	s := open(t, strings.Replace(houseRules, easy, "[pass]\nper_network_day = 2\n"+easy, 1), "")
	from := address()
	for i, want := range []int{200, 200, 429} {
		v := s.visitorFrom(from, firefox...)
		r := v.post(v.puzzle(v.get("/heavy/x")))
		if r.Status != want {
			t.Errorf("solution %d: %d %s, want %d", i+1, r.Status, r.Body, want)
		}
		if want == 429 {
			if n := seconds(t, "the ceiling", r); n < 80_000 {
				t.Errorf("the ceiling ends in %d s, want a day", n)
			}
			s.expect("the page for it", v.get("/heavy/x"), 503, 0)
		}
	}
	s.visitor().enter("/heavy/x")
}

// The target that an operator sets is about what solving takes: each doubling of it is one more bit.
func TestTargetSetsTheDifficulty(t *testing.T) {
	t.Parallel()
	f := func(target string, bits uint8) {
		t.Helper()
		s := open(t, "include = []\n[challenge]\ntarget = \""+target+"\"\n[[rule]]\nname = \"all\"\npath = \"/**\"\ndo = \"challenge\"\n", "")
		v := s.visitor()
		if p := v.puzzle(v.get("/")); p.Bits != bits || p.Parts != 32 {
			t.Errorf("target %s: %d parts of %d bits, want 32 of %d", target, p.Parts, p.Bits, bits)
		}
	}
	f("100ms", 16)
	f("1s", 19)
	f("2s", 20)
	f("10s", 22)
}

// Rotating the key logs nobody out; a key that has gone does, without an error.
func TestKeyRotation(t *testing.T) {
	t.Parallel()
	s := open(t, houseRules, "")
	v := s.member()
	for i := range 3 {
		if out, err := exec.Command(built, "key", "rotate", "-c", s.daemon.file()).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		s.daemon.signal(1)
		s.daemon.waitLog("msg=reloaded", i+1)
		s.app.Reset()
		want, hits := 200, 1
		if i == 2 { // two old keys are kept
			want, hits = 503, 0
		}
		s.expect(fmt.Sprintf("after rotation %d", i+1), v.get("/heavy/x"), want, hits)
	}
	v.enter("/heavy/x")
}
