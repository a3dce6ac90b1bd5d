//go:build !race

package pow

import "testing"

func TestAllocations(t *testing.T) {
	i := testIssuer(t)
	c := testChallenge(testNow)
	dst := make([]byte, 0, TokenLen)
	f := func(what string, run func()) {
		t.Helper()
		if n := testing.AllocsPerRun(100, run); n != 0 {
			t.Errorf("%s allocates %v times", what, n)
		}
	}
	f("Append", func() {
		c := testChallenge(testNow)
		i.Append(dst, &c)
	})
	token := i.Append(nil, &c)
	f("Parse", func() {
		var c Challenge
		var seed [32]byte
		if i.Parse(token, testNow, &c, &seed) != nil {
			t.Fatal("a good token is refused")
		}
	})
	var seed [32]byte
	if err := i.Parse(token, testNow, &c, &seed); err != nil {
		t.Fatal(err)
	}
	text := encoding.AppendEncode(nil, solve(&seed, c.Bits, 32))
	var buf [4 * MaxParts]byte
	f("Verify", func() {
		c, seed := c, seed
		solution, err := AppendSolution(buf[:0], text)
		if err != nil || Verify(&c, &seed, 32, solution) != nil {
			t.Fatal("a good solution is refused")
		}
	})
}
