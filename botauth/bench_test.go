package botauth

import (
	"strings"
	"testing"
)

// messages are those of a visitor without a signature, of an agent that is known, of one who
// signs for another site under its name, and of nobody that is known.
func messages(t testing.TB) (v *Verifier, unsigned, good, wrong, unknown *Message) {
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
	return v, request("a"), signed("example.com"), signed("example.org"), unknown
}

func BenchmarkVerify(b *testing.B) {
	v, unsigned, good, wrong, unknown := messages(b)
	for _, c := range []struct {
		name   string
		m      *Message
		before func()
	}{
		{"unsigned", unsigned, nil}, // what every request pays, where a rule asks
		{"unknown", unknown, nil},   // a flood of signatures of nobody
		{"known", good, nil},        // an agent that signs for a site
		{"good", good, func() { v.recent.sets = [recentSets][recentWays]remembered{} }}, // one that signs each request
		{"limited", wrong, nil}, // a flood of wrong signatures under a name that is known
		{"wrong", wrong, func() { v.limit.find(wrong.From, noon.Unix()).wrong, v.limit.all = 0, 0 }}, // one of those that are looked at
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if c.before != nil {
					c.before()
				}
				v.Verify(noon, c.m)
			}
		})
	}
}
