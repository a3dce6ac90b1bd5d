package pow

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"strings"
	"testing"

	"stile/key"
)

// firstNonce searches one part, by the definition.
func firstNonce(seed *[32]byte, bits uint8, part, start uint32) uint32 {
	for n := start; ; n++ {
		sum := sha256.Sum256(binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(seed[:], part), n))
		if uint64(binary.BigEndian.Uint32(sum[:])) < 1<<(32-bits) {
			return n
		}
	}
}

func solve(seed *[32]byte, bits uint8, parts int) []byte {
	var solution []byte
	for i := range parts {
		solution = binary.BigEndian.AppendUint32(solution, firstNonce(seed, bits, uint32(i), 0))
	}
	return solution
}

func seedOf(text string) [32]byte { return sha256.Sum256([]byte(text)) }

func testIssuer(t testing.TB) *Issuer {
	t.Helper()
	r, err := key.NewRing(key.Key{ID: 1, Secret: seedOf("secret")})
	if err != nil {
		t.Fatal(err)
	}
	return NewIssuer(r)
}

const testNow = 1_800_000_000

func TestToken(t *testing.T) {
	i := testIssuer(t)
	want := testChallenge(testNow)
	a, b := i.Append([]byte("x"), &want), i.Append([]byte("x"), &want)
	if len(a) != 1+TokenLen || TokenLen >= 200 {
		t.Errorf("a token has %d characters, want %d, below 200", len(a)-1, TokenLen)
	}
	if string(a) == string(b) {
		t.Error("two tokens of one challenge are the same")
	}
	var c Challenge
	var seed, other [32]byte
	if err := i.Parse(a[1:], testNow, &c, &seed); err != nil {
		t.Fatal(err)
	}
	want.Key = 1
	if c != want {
		t.Errorf("got %+v, want %+v", c, want)
	}
	if err := i.Parse(b[1:], testNow, &c, &other); err != nil {
		t.Fatal(err)
	}
	if seed == other || Distinct(&seed) == Distinct(&other) {
		t.Error("two tokens have one seed")
	}
	raw, _ := base64.RawURLEncoding.DecodeString(string(a[1:]))
	if strings.Contains(string(raw), string(binary.BigEndian.AppendUint64(nil, uint64(want.Network)))) {
		t.Error("the network can be read in the token")
	}
}

// Every token has one spelling: whatever single character is changed, it is refused.
func TestOneSpelling(t *testing.T) {
	i := testIssuer(t)
	c := testChallenge(testNow)
	token := i.Append(nil, &c)
	var got Challenge
	var seed [32]byte
	for at := range token {
		was := token[at]
		for b := range 256 {
			if token[at] = byte(b); byte(b) == was {
				continue
			}
			if err := i.Parse(token, testNow, &got, &seed); err == nil {
				t.Fatalf("character %d may be %q instead of %q", at, token[at], was)
			}
		}
		token[at] = was
	}
}

func TestLifetime(t *testing.T) {
	i := testIssuer(t)
	f := func(issued, now uint32, want error) {
		t.Helper()
		c := testChallenge(issued)
		var seed [32]byte
		if err := i.Parse(i.Append(nil, &c), now, &c, &seed); !errors.Is(err, want) {
			t.Errorf("issued %d, read %+d s later: %v, want %v", issued, int64(now)-int64(issued), err, want)
		}
	}
	f(testNow, testNow, nil)
	f(testNow, testNow+300, nil)
	f(testNow, testNow+305, nil)
	f(testNow, testNow+306, ErrExpired)
	f(testNow, testNow-5, nil) // a replica that is behind
	f(testNow, testNow-6, ErrExpired)
	f(0, 1<<32-1, ErrExpired) // no wrapping round
	f(1<<32-1, 0, ErrExpired)
	f(1<<32-1, 1<<32-1, nil)
	f(0, 0, nil)
	// The clock is put back by an hour: what is in flight is refused as expired, for
	// which the page gets a new challenge, and that one is good.
	f(testNow, testNow-3600, ErrExpired)
	f(testNow-3600, testNow-3600+2, nil)
}

func TestRotation(t *testing.T) {
	ring := func(keys ...key.Key) *Issuer {
		r, err := key.NewRing(keys...)
		if err != nil {
			t.Fatal(err)
		}
		return NewIssuer(r)
	}
	old, young := key.Key{ID: 1, Secret: seedOf("old")}, key.Key{ID: 2, Secret: seedOf("new")}
	c := testChallenge(testNow)
	token := ring(old).Append(nil, &c)
	var got Challenge
	var seed [32]byte
	if err := ring(young, old).Parse(token, testNow, &got, &seed); err != nil || got.Key != 1 || got.Network != c.Network {
		t.Errorf("after a rotation: %v, key %d", err, got.Key)
	}
	if err := ring(young).Parse(token, testNow, &got, &seed); !errors.Is(err, ErrForged) {
		t.Errorf("after the old key is gone: %v", err)
	}
}

func TestAppendRefusesNonsense(t *testing.T) {
	i := testIssuer(t)
	for name, change := range map[string]func(c *Challenge){
		"zero":               func(c *Challenge) { *c = Challenge{} },
		"algorithm to come":  func(c *Challenge) { c.Algorithm = 2 },
		"algorithm 255":      func(c *Challenge) { c.Algorithm = 255 },
		"no bits: free pass": func(c *Challenge) { c.Bits = 0 },
		"bits":               func(c *Challenge) { c.Bits = MaxBits + 1 },
		"no parts":           func(c *Challenge) { c.Parts = 0 },
		"parts":              func(c *Challenge) { c.Parts = MaxParts + 1 },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: issued", name)
				}
			}()
			c := testChallenge(testNow)
			change(&c)
			i.Append(nil, &c)
		}()
	}
}

// What a browser could try that the vectors do not have.
func TestVerifyRefuses(t *testing.T) {
	seed := seedOf("refuses")
	c := testChallenge(testNow)
	good := solve(&seed, c.Bits, 32)
	f := func(name string, c Challenge, parts int, want error) {
		t.Helper()
		if err := Verify(&c, &seed, parts, good); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", name, err, want)
		}
	}
	f("good", c, 32, nil)
	f("no parts asked for: those of the challenge", c, 0, nil)
	f("a negative number of parts", c, -1, nil)
	f("more parts than there can be", c, MaxParts+1, ErrCount)
	wait := c
	wait.Kind = Wait
	f("a wait's token", wait, 32, ErrWrong)
	f("the zero challenge", Challenge{}, 0, ErrWrong)
	none := c
	none.Algorithm = 2
	f("no such algorithm", none, 32, ErrWrong)
	harder := c
	harder.Bits = 24
	f("at a higher price", harder, 32, ErrWrong)
	for part := range 32 { // every part is looked at
		good[4*part+3] ^= 1
		f("a wrong part", c, 32, ErrWrong)
		good[4*part+3] ^= 1
	}
	f("good again", c, 32, nil)
}

func FuzzParse(f *testing.F) {
	v := readVectors(f)
	issuer := v.issuer(f)
	for _, x := range v.Tokens {
		f.Add([]byte(x.Token), x.Now)
	}
	f.Fuzz(func(t *testing.T, token []byte, now uint32) {
		var c Challenge
		var seed [32]byte
		if err := issuer.Parse(token, now, &c, &seed); err == nil && !c.wellFormed() {
			t.Errorf("accepted: %+v", c)
		}
		// Behind the signature: any body, signed.
		var raw [rawLen]byte
		copy(raw[:bodyLen], token)
		raw[1] = issuer.mac.SignID()
		issuer.mac.Sign(raw[:bodyLen], (*[32]byte)(raw[bodyLen:]))
		text := encoding.AppendEncode(nil, raw[:])
		if issuer.Parse(text, now, &c, &seed) != nil {
			return
		}
		_, salt, _ := issuer.mac.Open(raw[1], (*[16]byte)(raw[21:37]))
		if again := issuer.append(nil, &c, salt); string(again) != string(text) {
			t.Errorf("%+v is read from %s and written as %s", c, text, again)
		}
	})
}

func FuzzVerify(f *testing.F) {
	for _, x := range readVectors(f).Solutions {
		seed := unhex32(f, x.Seed)
		f.Add(uint8(SHA256), uint8(Work), x.Bits, x.Asked, x.Parts, seed[:], []byte(x.Solution))
	}
	f.Fuzz(func(t *testing.T, algorithm, kind, bits uint8, asked uint16, parts int, seedBytes, text []byte) {
		solution, err := AppendSolution(nil, text)
		if err != nil {
			solution = text
		} else if again := encoding.AppendEncode(nil, solution); string(again) != string(text) {
			t.Fatalf("%q and %q are one solution", text, again)
		}
		var seed [32]byte
		copy(seed[:], seedBytes)
		c := Challenge{Algorithm: Algorithm(algorithm), Kind: Kind(kind), Bits: bits, Parts: asked}
		if Verify(&c, &seed, parts, solution) != nil {
			return
		}
		// Accepted: then it is what the definition says, part by part.
		if c.Algorithm != SHA256 || c.Kind != Work || bits < MinBits || asked < 1 {
			t.Fatalf("accepted: %+v", c)
		}
		for i := range max(parts, int(asked)) {
			n := binary.BigEndian.Uint32(solution[4*i:])
			if firstNonce(&seed, bits, uint32(i), n) != n {
				t.Fatalf("part %d is wrong and was accepted", i)
			}
		}
	})
}
