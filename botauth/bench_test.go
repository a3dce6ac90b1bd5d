package botauth

import (
	"strings"
	"testing"
)

func benchmark(t testing.TB) (v *Verifier, good, wrong, unsigned, unknown *Message) {
	s := newSigner(t, 'a')
	v = verifierOf(t, nil, Bot{Name: "robot", Origin: "https://robot.test"})
	v.withKeys("https://robot.test", s.key)
	signed := func(authority string) *Message {
		m := request("a")
		m.SignatureAgent = `sig1="https://robot.test"`
		s.sign(m, []string{`"@authority"`, `"signature-agent";key="sig1"`}, []string{authority, `"https://robot.test"`}, "")
		return m
	}
	unknown = signed("example.com")
	unknown.SignatureInput = strings.Replace(unknown.SignatureInput, `keyid="`, `keyid="x`, 1)
	return v, signed("example.com"), signed("example.org"), request("a"), unknown
}

// BenchmarkUnsigned is what every request pays, where a rule asks.
func BenchmarkUnsigned(b *testing.B) {
	v, _, _, m, _ := benchmark(b)
	for b.Loop() {
		v.Verify(noon, m)
	}
}

// BenchmarkUnknown is a flood of signatures of nobody.
func BenchmarkUnknown(b *testing.B) {
	v, _, _, _, m := benchmark(b)
	for b.Loop() {
		v.Verify(noon, m)
	}
}

// BenchmarkKnown is an agent that signs for a site.
func BenchmarkKnown(b *testing.B) {
	v, m, _, _, _ := benchmark(b)
	for b.Loop() {
		v.Verify(noon, m)
	}
}

// BenchmarkGood is an agent that signs each request.
func BenchmarkGood(b *testing.B) {
	v, m, _, _, _ := benchmark(b)
	for b.Loop() {
		v.recent.sets = [recentSets][recentWays]remembered{}
		v.Verify(noon, m)
	}
}

// BenchmarkLimited is a flood of wrong signatures under a name that is known.
func BenchmarkLimited(b *testing.B) {
	v, _, m, _, _ := benchmark(b)
	for b.Loop() {
		v.Verify(noon, m)
	}
}

// BenchmarkWrong is one of those that are looked at.
func BenchmarkWrong(b *testing.B) {
	v, _, m, _, _ := benchmark(b)
	for b.Loop() {
		v.limit.find(m.From, noon.Unix()).wrong, v.limit.all = 0, 0
		v.Verify(noon, m)
	}
}
