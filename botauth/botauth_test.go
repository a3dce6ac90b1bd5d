package botauth

import (
	"crypto/ed25519"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"time"

	"stile/network"
)

// signer is an agent.
type signer struct {
	key     Key
	private ed25519.PrivateKey
}

func newSigner(t testing.TB, seed byte) signer {
	t.Helper()
	private := ed25519.NewKeyFromSeed([]byte(strings.Repeat(string(rune(seed)), 32)))
	x := base64.RawURLEncoding.EncodeToString(private.Public().(ed25519.PublicKey))
	k, err := ParseKey([]byte(fmt.Sprintf(`{"kty":"OKP","crv":"Ed25519","x":%q}`, x)))
	if err != nil {
		t.Fatal(err)
	}
	return signer{k, private}
}

func (s signer) jwk() string {
	return fmt.Sprintf(`{"kty":"OKP","crv":"Ed25519","use":"sig","x":%q}`, base64.RawURLEncoding.EncodeToString(s.key.Public))
}

var noon = time.Unix(1_800_000_000, 0)

// sign signs a request as agents do: components as they are written in Signature-Input,
// and the values that they have, which the agent knows without asking us.
func (s signer) sign(m *Message, components []string, values []string, params string) {
	if params == "" {
		params = fmt.Sprintf(`;created=%d;expires=%d;keyid="%s";tag="web-bot-auth"`, noon.Unix(), noon.Unix()+60, s.key.ID)
	}
	list := "(" + strings.Join(components, " ") + ")" + params
	var b strings.Builder
	for i, c := range components {
		b.WriteString(c + ": " + values[i] + "\n")
	}
	b.WriteString(`"@signature-params": ` + list)
	sig := ed25519.Sign(s.private, []byte(b.String()))
	m.SignatureInput = "sig1=" + list
	m.Signature = "sig1=:" + base64.StdEncoding.EncodeToString(sig) + ":"
}

func request(from string) *Message {
	m := &Message{Method: "GET", Scheme: "https", Host: "example.com", Server: "example.com", Target: "/a?b=c", Fields: []string{"text/html", "", "Robot/1.0"}}
	m.From = network.Network(len(from)) // any
	for i := range len(from) {
		m.From = m.From*31 + network.Network(from[i])
	}
	return m
}

func verifierOf(t testing.TB, hosts []string, bots ...Bot) *Verifier {
	t.Helper()
	v := New(Options{Fields: []string{"Accept", "Range", "User-Agent"}})
	v.Set(bots, hosts)
	return v
}

func want(t *testing.T, v *Verifier, m *Message, agent string, why Result) {
	t.Helper()
	got, err := v.Verify(noon, m)
	if why > Known {
		if err != why {
			t.Errorf("%v, want %v", err, why)
		}
		return
	}
	if err != nil || got != agent {
		t.Errorf("%q, %v, want %q", got, err, agent)
	}
}

// TestComponents: everything that nginx tells can be covered.
func TestComponents(t *testing.T) {
	s := newSigner(t, 'a')
	v := verifierOf(t, nil, Bot{Name: "robot", Keys: []Key{s.key}})
	f := func(why Result, pairs ...string) {
		t.Helper()
		var components, values []string
		for i := 0; i < len(pairs); i += 2 {
			components, values = append(components, pairs[i]), append(values, pairs[i+1])
		}
		m := request("a")
		m.SignatureAgent = ` g="https://robot.test";type=directory;x,   h="https://proxy.test"`
		components, values = append(components, `"signature-agent";key="g"`), append(values, `"https://robot.test";type=directory;x`)
		s.sign(m, components, values, "")
		want(t, v, m, "robot", why)
	}
	f(Good, `"@authority"`, "example.com")
	f(Good, `"@target-uri"`, "https://example.com/a?b=c")
	f(Good, `"@method"`, "GET", `"@authority"`, "example.com", `"@scheme"`, "https", `"@path"`, "/a", `"@query"`, "?b=c", `"@request-target"`, "/a?b=c")
	f(Good, `"@authority"`, "example.com", `"accept"`, "text/html", `"user-agent"`, "Robot/1.0")
	f(Good, `"@authority"`, "example.com", `"signature-agent"`, `g="https://robot.test";type=directory;x,   h="https://proxy.test"`)
	f(Good, `"@authority"`, "example.com", `"signature-agent";key="h"`, `"https://proxy.test"`)
	f(Missing, `"@method"`, "GET", `"@path"`, "/a")
	f(Missing, `"@authority"`, "example.com", `"range"`, "bytes=0-")
	f(Wrong, `"@authority"`, "example.org")
	f(Wrong, `"@authority"`, "example.com:443")
	f(Wrong, `"@authority"`, "example.com", `"@method"`, "POST")
	f(Wrong, `"@authority"`, "example.com", `"@path"`, "/b")
	f(Wrong, `"@authority"`, "example.com", `"@query"`, "?b=d")
	f(Wrong, `"@target-uri"`, "http://example.com/a?b=c")
	f(Wrong, `"@authority"`, "example.com", `"user-agent"`, "Robot/1.1")
}

// TestHosts: a signature counts for this site's names only.
func TestHosts(t *testing.T) {
	f := func(want bool, host, server string, hosts ...string) {
		t.Helper()
		if got := ours(host, server, hosts); got != want {
			t.Errorf("%q at server %q with %q: %v", host, server, hosts, got)
		}
	}
	f(true, "example.com", "example.com")
	f(true, "www.example.com", "example.com")
	f(true, "example.com", "www.example.com")
	f(true, "a.example.com", "*.example.com")
	f(true, "a.b.example.com", "*.example.com")
	f(true, "a.example.com", ".example.com")
	f(true, "example.com", "_", "example.org", "example.com")
	f(true, "a.example.com", "", "*.example.com")
	f(false, "example.com", "_")
	f(false, "example.com", "")
	f(false, "", "")
	f(false, "www.", "")
	f(false, "_", "localhost")
	f(false, "example.com", "*.example.com")
	f(false, "badexample.com", "*.example.com")
	f(false, "example.com", "*")
	f(false, "example.com", ".")
	f(false, "example.com", "*.")
	f(false, "example.com", `~^(.+)\.com$`)
	f(false, "example.com.evil.test", "example.com")
}

// TestOwners: a key that two agents have is that one's whom the request names; and an
// agent whose directory has another's key gains nothing by it.
func TestOwners(t *testing.T) {
	a, b := newSigner(t, 'a'), newSigner(t, 'b')
	v := verifierOf(t, nil, Bot{Name: "first", Origin: "https://first.test"}, Bot{Name: "second", Origin: "https://second.test"})
	v.withKeys("https://first.test", a.key, b.key)
	v.withKeys("https://second.test", b.key)
	f := func(s signer, says, agent string, why Result) {
		t.Helper()
		m := request("a")
		components, values := []string{`"@authority"`}, []string{"example.com"}
		if says != "" {
			m.SignatureAgent = `sig1="` + says + `"`
			components, values = append(components, `"signature-agent";key="sig1"`), append(values, `"`+says+`"`)
		}
		s.sign(m, components, values, "")
		want(t, v, m, agent, why)
	}
	f(a, "https://first.test", "first", Good)
	f(b, "https://second.test", "second", Good)
	f(b, "https://SECOND.test/", "second", Good)
	f(b, "https://first.test", "first", Good)
	f(a, "https://second.test", "", OtherAgent)
	f(a, "https://third.test", "", OtherAgent)
	f(a, "", "first", Good)
	f(b, "", "first", Good)
	f(newSigner(t, 'c'), "https://first.test", "", UnknownKey)
}

// TestKeyTimes: a key counts while it holds.
func TestKeyTimes(t *testing.T) {
	f := func(before, after int64, why Result) {
		t.Helper()
		s := newSigner(t, 'a')
		s.key.NotBefore, s.key.NotAfter = before, after
		m := request("a")
		s.sign(m, []string{`"@authority"`}, []string{"example.com"}, "")
		want(t, verifierOf(t, nil, Bot{Name: "robot", Keys: []Key{s.key}}), m, "robot", why)
	}
	now := noon.Unix()
	f(0, 0, Good)
	f(now-1, now+1, Good)
	f(now+60, 0, Good) // by a clock that is a minute ahead
	f(now+61, 0, Expired)
	f(0, now, Expired)
}

// TestRecent: the same signature is checked once, until it expires or the keys change.
func TestRecent(t *testing.T) {
	s := newSigner(t, 'a')
	v := verifierOf(t, nil, Bot{Name: "robot", Origin: "https://robot.test"})
	v.withKeys("https://robot.test", s.key)
	m := request("a")
	s.sign(m, []string{`"@authority"`}, []string{"example.com"}, "")
	counted := func(r Result, n uint64) {
		t.Helper()
		if got := v.results[r].Load(); got != n {
			t.Errorf("%s: %d, want %d", r, got, n)
		}
	}
	want(t, v, m, "robot", Good)
	want(t, v, m, "robot", Good)
	other := request("elsewhere")
	other.SignatureInput, other.Signature, other.Target = m.SignatureInput, m.Signature, "/else"
	want(t, v, other, "robot", Good) // it does not cover the path
	counted(Good, 1)
	counted(Known, 2)
	if n, most := v.Recent(noon); n != 1 || most < 1000 {
		t.Errorf("%d of %d are remembered, want 1", n, most)
	}
	if n, _ := v.Recent(noon.Add(2 * time.Minute)); n != 0 {
		t.Errorf("%d are remembered that have expired", n)
	}
	if _, err := v.Verify(noon.Add(2*time.Minute), m); err != Expired {
		t.Errorf("after it has expired: %v", err)
	}
	v.withKeys("https://robot.test", newSigner(t, 'b').key)
	want(t, v, m, "", UnknownKey)
	v.withKeys("https://robot.test", s.key)
	want(t, v, m, "robot", Good)
	counted(Good, 2)
	v.Set(nil, nil)
	want(t, v, m, "", UnknownKey)
}

// flood sends n wrong signatures, each another, from a network, and says how many of them
// were looked at.
func flood(t *testing.T, v *Verifier, s signer, from string, n int, at time.Time) (looked int) {
	t.Helper()
	m := request(from)
	s.sign(m, []string{`"@authority"`}, []string{"example.org"}, fmt.Sprintf(`;created=%d;expires=%d;keyid="%s";tag="web-bot-auth"`, at.Unix(), at.Unix()+60, s.key.ID))
	for i := range n {
		m.SignatureInput = strings.Replace(m.SignatureInput, "tag=", fmt.Sprintf("x%d;tag=", i), 1)
		switch _, err := v.Verify(at, m); err {
		case Wrong:
			looked++
		case Limited:
		default:
			t.Fatal(err)
		}
		m.SignatureInput = strings.Replace(m.SignatureInput, fmt.Sprintf("x%d;tag=", i), "tag=", 1)
	}
	return looked
}

// TestFlood: wrong signatures cost a bounded time, and do not shut an agent out that was
// here before.
func TestFlood(t *testing.T) {
	s := newSigner(t, 'a')
	v := verifierOf(t, nil, Bot{Name: "robot", Keys: []Key{s.key}})
	signed := func(from, path string) *Message {
		m := request(from)
		m.Target = path
		s.sign(m, []string{`"@authority"`, `"@path"`}, []string{"example.com", path}, "")
		return m
	}
	want(t, v, signed("robot's", "/1"), "robot", Good)
	if n := flood(t, v, s, "a", 100, noon); n != wrongPerNetwork {
		t.Errorf("%d wrong signatures of one network were looked at, want %d", n, wrongPerNetwork)
	}
	all := wrongPerNetwork
	for i := range 1000 {
		all += flood(t, v, s, fmt.Sprint("network ", i), 3, noon)
	}
	if all != wrongPerSecond {
		t.Errorf("%d wrong signatures were looked at in a second, want %d", all, wrongPerSecond)
	}
	want(t, v, signed("robot's", "/2"), "robot", Good)
	want(t, v, signed("robot's new network", "/3"), "", Limited)
	want(t, v, signed("robot's new network", "/1"), "robot", Good) // known
	later := func(from, path string) error {
		_, err := v.Verify(noon.Add(time.Second), signed(from, path))
		return err
	}
	if err := later("robot's new network", "/3"); err != nil {
		t.Errorf("a second later: %v", err)
	}
	if n := flood(t, v, s, "a", 1, noon.Add(time.Second)); n != 0 {
		t.Error("a network that is over its limit has another try a second later")
	}
	if n := flood(t, v, s, "a", 1, noon.Add(time.Minute)); n != 1 {
		t.Error("a network has no try a minute later")
	}
	// Good ones are not counted.
	for i := range 3 * wrongPerNetwork {
		want(t, v, signed("robot's", fmt.Sprint("/more/", i)), "robot", Good)
	}
	for i := range 2 * wrongPerSecond {
		want(t, v, signed(fmt.Sprint("robot's ", i), fmt.Sprint("/most/", i)), "robot", Good)
	}
	// A network that an agent shares with somebody has its own limit still.
	if n := flood(t, v, s, "robot's", 100, noon.Add(2*time.Minute)); n != wrongPerNetwork {
		t.Errorf("%d wrong signatures of an agent's network were looked at", n)
	}
}

// TestLimitTable: a spray of networks does not push out one that is trusted.
func TestLimitTable(t *testing.T) {
	l := &limit{seed: 42}
	l.try(7, 100)
	l.good(7, 100)
	for i := range 10 * limitSets * limitWays {
		l.second = 0 // no limit for all here
		l.try(network.Network(1000+i), 101)
	}
	if e := l.find(7, 102); e.trusted != 100+trustedFor {
		t.Error("a network that has sent a good signature is forgotten for others that have not")
	}
}
