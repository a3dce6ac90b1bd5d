package pow

import "testing"

// go test ./pow -run '^$' -bench 'Append|Redeem|Forged'

func BenchmarkAppend(b *testing.B) {
	i := testIssuer(b)
	c := testChallenge(testNow)
	dst := make([]byte, 0, TokenLen)
	b.ReportAllocs()
	for b.Loop() {
		i.Append(dst, &c)
	}
}

// Redeem is all of a proof but the HTTP: token, solution and their check.
func BenchmarkRedeem(b *testing.B) {
	i := testIssuer(b)
	c := testChallenge(testNow)
	token := i.Append(nil, &c)
	var seed [32]byte
	if err := i.Parse(token, testNow, &c, &seed); err != nil {
		b.Fatal(err)
	}
	text := encoding.AppendEncode(nil, solve(&seed, c.Bits, 32))
	buf := make([]byte, 0, MaxSolution)
	b.ReportAllocs()
	for b.Loop() {
		var c Challenge
		var seed [32]byte
		if err := i.Parse(token, testNow, &c, &seed); err != nil {
			b.Fatal(err)
		}
		solution, err := AppendSolution(buf, text)
		if err != nil {
			b.Fatal(err)
		}
		if err := Verify(&c, &seed, 32, solution); err != nil {
			b.Fatal(err)
		}
	}
}

// Forged is what a junk token costs that has the right shape.
func BenchmarkForged(b *testing.B) {
	i := testIssuer(b)
	c := testChallenge(testNow)
	token := []byte(flip(b, string(i.Append(nil, &c)), rawLen-1))
	var seed [32]byte
	b.ReportAllocs()
	for b.Loop() {
		if i.Parse(token, testNow, &c, &seed) != ErrForged {
			b.Fatal("accepted")
		}
	}
}
