//go:build !race

package page

import "testing"

func TestNothingIsAllocated(t *testing.T) {
	dst := make([]byte, 0, 32<<10)
	c := testChallenge(english)
	framed := testChallenge(english)
	framed.Framed = true
	failed := &Refused{Reason: Failed, Target: "/packages/halogen?search=a%26b&page=2"}
	r := &Refused{Reason: Busy, RetrySeconds: 17, Support: "1f3e5d7c"}
	for name, f := range map[string]func(){
		"AppendChallenge": func() { dst = plain.AppendChallenge(dst[:0], c) },
		"framed":          func() { dst = plain.AppendChallenge(dst[:0], framed) },
		"wait refused":    func() { dst = plain.AppendRefused(dst[:0], failed) },
		"AppendRefused":   func() { dst = plain.AppendRefused(dst[:0], r) },
		"AppendPlain":     func() { dst = AppendPlain(dst[:0], true, ProofRequired, 17) },
		"PickLanguage":    func() { c.Lang = PickLanguage("xx-YY, zh-Hant-HK;q=0.9, pt-BR;q=0.8, de-AT;q=0.7") },
	} {
		if n := testing.AllocsPerRun(100, f); n != 0 {
			t.Errorf("%s allocates %v times", name, n)
		}
	}
}

func BenchmarkAppendChallenge(b *testing.B) {
	b.ReportAllocs()
	dst := make([]byte, 0, 32<<10)
	c := testChallenge(byTag["hi"])
	for b.Loop() {
		dst = plain.AppendChallenge(dst[:0], c)
	}
}

func BenchmarkAppendChallengeFresh(b *testing.B) {
	b.ReportAllocs()
	c := testChallenge(english)
	for b.Loop() {
		plain.AppendChallenge(nil, c)
	}
}

func BenchmarkPickLanguage(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		PickLanguage("de-AT,de;q=0.9,en-US;q=0.8,en;q=0.7")
	}
}
