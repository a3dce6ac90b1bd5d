package botauth

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"os"
	"testing"
	"time"
)

// The key of RFC 9421, appendix B.1.4, which the drafts' vectors use, too. A directory
// or a configuration that has it is refused.
const (
	testX = "JrQLj5P_89iXES9-vFgrIy29clF9CC_oPPsw3c5D0bs"
	testD = "n4Ni-HpISpVObnQMW0wOhCKROaIKqKtW_2ZYb2p9KcU"
)

func testKey(t testing.TB) (Key, ed25519.PrivateKey) {
	t.Helper()
	x, err := base64.RawURLEncoding.DecodeString(testX)
	if err != nil {
		t.Fatal(err)
	}
	d, err := base64.RawURLEncoding.DecodeString(testD)
	if err != nil {
		t.Fatal(err)
	}
	return Key{ID: thumbprint(testX), Public: x}, ed25519.NewKeyFromSeed(d)
}

// withKeys puts keys of a directory in force, as if they had been fetched.
func (v *Verifier) withKeys(origin string, keys ...Key) {
	v.apply(v.directories[origin], keys, time.Hour, nil)
}

const agentOrigin = "https://signature-agent.test"

func testVerifier(t testing.TB) *Verifier {
	v := New(Options{Fields: []string{"Accept", "Range", "User-Agent"}})
	v.Set([]Bot{{Name: "tester", Origin: agentOrigin}}, nil)
	k, _ := testKey(t)
	v.withKeys(agentOrigin, k)
	return v
}

// vector is one line of testdata/vectors.json: a request at a time, and what is said of
// it. Those that are good are the vector of draft-ietf-webbotauth-httpsig-protocol and
// spellings of it that sign the same.
type vector struct {
	Name, Want                           string
	Now                                  int64
	Method, Scheme, Host, Server, Target string
	Input, Signature, Agent              string
	Headers                              map[string]string
}

func vectors(t testing.TB) (vs []vector) {
	t.Helper()
	b, err := os.ReadFile("testdata/vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &vs); err != nil {
		t.Fatal(err)
	}
	return vs
}

func (e *vector) message() *Message {
	return &Message{
		Method: e.Method, Scheme: e.Scheme, Host: e.Host, Server: e.Server, Target: e.Target,
		SignatureInput: e.Input, Signature: e.Signature, SignatureAgent: e.Agent,
		Fields: []string{e.Headers["Accept"], e.Headers["Range"], e.Headers["User-Agent"]},
	}
}

func TestVectors(t *testing.T) {
	seen := map[string]bool{}
	for _, e := range vectors(t) {
		v := testVerifier(t) // each alone: nothing is remembered and nothing limited
		agent, err := v.Verify(time.Unix(e.Now, 0), e.message())
		got := Good
		if err != nil && !errors.As(err, &got) {
			t.Fatalf("%s: %v is no Result", e.Name, err)
		}
		if got.String() != e.Want || (agent == "tester") != (err == nil) {
			t.Errorf("%s: %s (agent %q), want %s", e.Name, got, agent, e.Want)
		}
		seen[e.Want] = true
		if e.Want != "unsigned" && v.results[got].Load() != 1 {
			t.Errorf("%s: not counted as %s", e.Name, got)
		}
	}
	for r := range Results {
		if r != Known && r != Limited && !seen[r.String()] {
			t.Errorf("no vector ends in %s", r)
		}
	}
}

// TestDraftDictionary is the draft's vector with Signature-Agent as a dictionary. It
// holds for a hundred years, which nobody here takes.
func TestDraftDictionary(t *testing.T) {
	m := &Message{
		Method: "GET", Scheme: "https", Host: "example.com", Server: "example.com", Target: "/path/to/resource",
		SignatureInput: `sig2=("@authority" "signature-agent";key="agent2");created=1735689600;keyid="poqkLGiymh_W0uP6PZFw-dvez3QJT5SolqXBCW38r0U";alg="ed25519";expires=4889289600;nonce="n9p433xm+NJ3ph3upfBIGmsuwHw387YV7Q/F+6BSpGCVjYCqQw6rznNA8PVVLySrAWsv0hQtFioQb6E1YsauiA==";tag="web-bot-auth"`,
		Signature:      `sig2=:RdNFx5Bj6au3YgAMQL/RzmUlZE8QZLIaXGRpw985hWnwPfMxT228NMk6ehRS1PSl4e8PhbNZACSanGdhEwYCCg==:`,
		SignatureAgent: `agent2="https://signature-agent.test"`,
	}
	v := testVerifier(t)
	if _, err := v.Verify(time.Unix(1735689700, 0), m); err != Times {
		t.Errorf("a signature for a hundred years: %v, want %v", err, Times)
	}
	c := new(scratch)
	k := v.keys.Load()
	var sig [64]byte
	for what, why := range map[string]Result{
		"input": c.choose(m.SignatureInput, k.by), "agent": c.agents(m.SignatureAgent), "signature": signature(m.Signature, "sig2", sig[:]),
	} {
		if why != Good {
			t.Fatalf("%s: %v", what, why)
		}
	}
	if why := v.makeBase(c, m); why != Good {
		t.Fatal(why)
	}
	if by, why := c.owner(k.by[c.chosen.keyid], m); why != Good || by.bot.Name != "tester" {
		t.Errorf("owner: %v", why)
	}
	pub, _ := testKey(t)
	if !ed25519.Verify(pub.Public, c.base, sig[:]) {
		t.Errorf("it does not fit\n%s", c.base)
	}
}

// TestRFC9421 is appendix B.2.6: no Web Bot Auth, but the same signature base.
func TestRFC9421(t *testing.T) {
	v := New(Options{Fields: []string{"Date", "Content-Type", "Content-Length"}})
	m := &Message{
		Method: "POST", Scheme: "https", Host: "example.com", Target: "/foo?param=Value&Pet=dog",
		SignatureInput: `sig-b26=("date" "@method" "@path" "@authority" "content-type" "content-length");created=1618884473;keyid="test-key-ed25519"`,
		Signature:      `sig-b26=:wqcAqbmYJ2ji2glfAMaRy4gruYYnx2nEFN2HN6jrnDnQCK1u02Gb04v9EDgwUPiu4A0w6vuQv5lIp5WPpBKRCw==:`,
		Fields:         []string{"Tue, 20 Apr 2021 02:07:55 GMT", "application/json", "18"},
	}
	c := new(scratch)
	s := scanner{s: m.SignatureInput}
	if s.key() != "sig-b26" || !s.take('=') || c.member(&s, "sig-b26") != Good || !s.end() {
		t.Fatal("Signature-Input is not read")
	}
	c.chosen = c.input
	if why := v.makeBase(c, m); why != Good {
		t.Fatal(why)
	}
	want := `"date": Tue, 20 Apr 2021 02:07:55 GMT
"@method": POST
"@path": /foo
"@authority": example.com
"content-type": application/json
"content-length": 18
"@signature-params": ("date" "@method" "@path" "@authority" "content-type" "content-length");created=1618884473;keyid="test-key-ed25519"`
	if string(c.base) != want {
		t.Errorf("the base is\n%s\nwant\n%s", c.base, want)
	}
	var sig [64]byte
	k, _ := testKey(t)
	if why := signature(m.Signature, "sig-b26", sig[:]); why != Good || !ed25519.Verify(k.Public, c.base, sig[:]) {
		t.Error("it does not fit")
	}
}

// TestDerived: RFC 9421, section 2.2, each by its example there.
func TestDerived(t *testing.T) {
	f := func(target, name, want string) {
		t.Helper()
		m := &Message{Method: "POST", Scheme: "https", Host: "www.example.com", Target: target}
		if got, why := derived(nil, &component{name: name}, m); string(got) != want || why != Good {
			t.Errorf("%s of %s: %q, %v, want %q", name, target, got, why, want)
		}
	}
	f("/path?param=value", "@method", "POST")
	f("/path?param=value", "@target-uri", "https://www.example.com/path?param=value")
	f("/path?param=value", "@authority", "www.example.com")
	f("/path?param=value", "@scheme", "https")
	f("/path?param=value", "@request-target", "/path?param=value")
	f("/path?param=value", "@path", "/path")
	f("/path?param=value&foo=bar&baz=bat%2Dman", "@query", "?param=value&foo=bar&baz=bat%2Dman")
	f("/path", "@query", "?")
	f("/path?", "@query", "?")
	f("/a//%2e/b?x?y", "@path", "/a//%2e/b")
	f("/a//%2e/b?x?y", "@query", "?x?y")
}
