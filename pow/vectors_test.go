package pow

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"testing"

	"stile/key"
	"stile/network"
)

// testdata/vectors.json pins the token format, the derivation of its keys and the
// puzzle. Go (here) and the browser's code (browser/solver_test.mjs) both read it.
// A change in it is a change that challenges in flight do not survive.
var update = flag.Bool("update", false, "rewrite testdata/vectors.json")

const vectorsFile = "testdata/vectors.json"

type vectors struct {
	Keys   []vectorKey   `json:"keys"` // the first signs
	Tokens []vectorToken `json:"tokens"`
	// The first nonce of a part that holds.
	Puzzles   []vectorPuzzle   `json:"puzzles"`
	Solutions []vectorSolution `json:"solutions"`
}

type vectorKey struct {
	ID     byte   `json:"id"`
	Secret string `json:"secret"` // hex
}

type vectorToken struct {
	Name      string     `json:"name"`
	Challenge *Challenge `json:"challenge,omitempty"`
	Salt      uint64     `json:"salt,omitempty,string"`
	Token     string     `json:"token"`
	Now       uint32     `json:"now"`
	Seed      string     `json:"seed,omitempty"` // hex
	Error     string     `json:"error,omitempty"`
}

type vectorPuzzle struct {
	Seed  string `json:"seed"` // hex
	Bits  uint8  `json:"bits"`
	Part  uint32 `json:"part"`
	Nonce uint32 `json:"nonce"`
}

type vectorSolution struct {
	Name     string `json:"name"`
	Seed     string `json:"seed"` // hex
	Bits     uint8  `json:"bits"`
	Asked    uint16 `json:"asked"` // parts of the challenge
	Parts    int    `json:"parts"` // parts at redemption
	Solution string `json:"solution"`
	Error    string `json:"error,omitempty"`
}

func readVectors(t testing.TB) *vectors {
	t.Helper()
	text, err := os.ReadFile(vectorsFile)
	if err != nil {
		t.Fatal(err)
	}
	v := &vectors{}
	if err := json.Unmarshal(text, v); err != nil {
		t.Fatal(err)
	}
	return v
}

func (v *vectors) issuer(t testing.TB) *Issuer {
	t.Helper()
	var keys []key.Key
	for _, k := range v.Keys {
		secret, err := hex.DecodeString(k.Secret)
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, key.Key{ID: k.ID, Secret: [32]byte(secret)})
	}
	r, err := key.NewRing(keys...)
	if err != nil {
		t.Fatal(err)
	}
	return NewIssuer(r)
}

func unhex32(t testing.TB, text string) (out [32]byte) {
	t.Helper()
	b, err := hex.DecodeString(text)
	if err != nil || len(b) != len(out) {
		t.Fatalf("%q: want 64 hex digits", text)
	}
	return [32]byte(b)
}

// message is an error's text, and nothing for none: what vectors name.
func message(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestVectors(t *testing.T) {
	if *update {
		writeVectors(t)
	}
	v := readVectors(t)
	issuer := v.issuer(t)
	for _, x := range v.Tokens {
		var c Challenge
		var seed [32]byte
		err := issuer.Parse([]byte(x.Token), x.Now, &c, &seed)
		if message(err) != x.Error {
			t.Errorf("token %q: error %v, want %q", x.Name, err, x.Error)
			continue
		}
		if err != nil {
			continue
		}
		if c != *x.Challenge {
			t.Errorf("token %q: %+v, want %+v", x.Name, c, *x.Challenge)
		}
		if seed != unhex32(t, x.Seed) {
			t.Errorf("token %q: seed %x", x.Name, seed)
		}
		if c.Key == issuer.mac.SignID() {
			if again := string(issuer.append(nil, &c, x.Salt)); again != x.Token {
				t.Errorf("token %q is now issued as %s", x.Name, again)
			}
		}
	}
	for _, x := range v.Puzzles {
		seed := unhex32(t, x.Seed)
		if got := firstNonce(&seed, x.Bits, x.Part, 0); got != x.Nonce {
			t.Errorf("seed %s part %d: nonce %d, want %d", x.Seed, x.Part, got, x.Nonce)
		}
	}
	for _, x := range v.Solutions {
		seed := unhex32(t, x.Seed)
		c := Challenge{Algorithm: SHA256, Kind: Work, Bits: x.Bits, Parts: x.Asked}
		solution, err := AppendSolution(nil, []byte(x.Solution))
		if err == nil {
			err = Verify(&c, &seed, x.Parts, solution)
		}
		if message(err) != x.Error {
			t.Errorf("solution %q: error %v, want %q", x.Name, err, x.Error)
		}
	}
}

func writeVectors(t *testing.T) {
	v := &vectors{}
	for id := byte(1); id <= 2; id++ {
		secret := seedOf(fmt.Sprintf("key %d", id))
		v.Keys = append(v.Keys, vectorKey{ID: id, Secret: hex.EncodeToString(secret[:])})
	}
	issuer := v.issuer(t)
	const now = 1_800_000_000

	good := func(name string, c Challenge, salt uint64, i *Issuer) string {
		token := string(i.append(nil, &c, salt))
		c.Key = i.mac.SignID()
		raw, err := base64.RawURLEncoding.DecodeString(token)
		if err != nil {
			t.Fatal(err)
		}
		v.Tokens = append(v.Tokens, vectorToken{Name: name, Challenge: &c, Salt: salt, Token: token, Now: now, Seed: hex.EncodeToString(raw[bodyLen:])})
		return token
	}
	bad := func(name, token string, when uint32, err error) {
		v.Tokens = append(v.Tokens, vectorToken{Name: name, Token: token, Now: when, Error: err.Error()})
	}
	// signed makes a token of the right key out of any body, as a newer version might.
	signed := func(token string, change func(raw []byte)) string {
		raw, err := base64.RawURLEncoding.DecodeString(token)
		if err != nil {
			t.Fatal(err)
		}
		change(raw)
		var sum [32]byte
		issuer.mac.Sign(raw[:bodyLen], &sum)
		return base64.RawURLEncoding.EncodeToString(append(raw[:bodyLen:bodyLen], sum[:]...))
	}

	plain := testChallenge(now)
	token := good("ordinary", plain, 1, issuer)
	good("smallest", Challenge{Algorithm: SHA256, Kind: Work, Bits: MinBits, Parts: 1, Issued: now}, 0, issuer)
	good("largest", Challenge{
		Algorithm: SHA256, Kind: Work, Level: 255, Bits: MaxBits, Parts: MaxParts, Surge: true, Issued: now, Expires: 1<<32 - 1,
		Network: 1<<64 - 1, ID: [10]byte{255, 255, 255, 255, 255, 255, 255, 255, 255, 255},
		Proven: [3]uint32{1<<32 - 1, 1<<32 - 1, 1<<32 - 1}, Target: 1<<64 - 1,
	}, 1<<64-1, issuer)
	good("wait", Challenge{Kind: Wait, Level: 1, Issued: now, Expires: now + 3600, Network: plain.Network, ID: plain.ID, Target: 0x0123456789abcdef}, 2, issuer)
	other := *v
	other.Keys = []vectorKey{v.Keys[1]}
	good("signed by the old key", plain, 3, other.issuer(t))
	other.Keys = []vectorKey{{ID: 3, Secret: v.Keys[0].Secret}}
	bad("signed by an unknown key", string(other.issuer(t).append(nil, &plain, 4)), now, ErrForged)
	other.Keys = []vectorKey{{ID: 1, Secret: v.Keys[1].Secret}}
	bad("signed by another secret of that id", string(other.issuer(t).append(nil, &plain, 5)), now, ErrForged)

	bad("empty", "", now, ErrMalformed)
	bad("a character short", token[:TokenLen-1], now, ErrMalformed)
	bad("a character long", token+"A", now, ErrMalformed)
	bad("padded", token[:TokenLen-1]+"=", now, ErrMalformed)
	bad("a line break in it", token[:64]+"\n"+token[65:], now, ErrMalformed)
	bad("a line break at its end", token[:TokenLen-1]+"\n", now, ErrMalformed)
	bad("a line break too many", token+"\n", now, ErrMalformed)
	bad("four line breaks in a token of the right length", token[:TokenLen-4]+"\r\n\r\n", now, ErrMalformed)
	bad("the other alphabet", token[:20]+"+/"+token[22:], now, ErrMalformed)
	bad("not ASCII", token[:20]+"é"+token[22:], now, ErrMalformed)
	bad("harder bits, old signature", flip(t, token, 8), now, ErrForged)
	bad("last bit of the signature", flip(t, token, rawLen-1), now, ErrForged)
	bad("the next version", signed(token, func(raw []byte) { raw[0] = 2 }), now, ErrUnknown)
	bad("an algorithm to come", signed(token, func(raw []byte) { raw[2] = 2 }), now, ErrUnknown)
	bad("no algorithm", signed(token, func(raw []byte) { raw[2] = 0 }), now, ErrUnknown)
	bad("an unknown kind", signed(token, func(raw []byte) { raw[3] = 3 }), now, ErrUnknown)
	bad("half a surge", signed(token, func(raw []byte) { raw[4] = 2 }), now, ErrUnknown)
	bad("no bits", signed(token, func(raw []byte) { raw[8] = 0 }), now, ErrUnknown)
	bad("too many bits", signed(token, func(raw []byte) { raw[8] = MaxBits + 1 }), now, ErrUnknown)
	bad("no parts", signed(token, func(raw []byte) { raw[6], raw[7] = 0, 0 }), now, ErrUnknown)
	bad("a difficulty of more than bits", signed(token, func(raw []byte) { raw[12] = 1 }), now, ErrUnknown)
	bad("expired", token, now+306, ErrExpired)
	bad("from the future", token, now-6, ErrExpired)

	for _, bits := range []uint8{1, 5, 8, 12, 16} {
		for part := range uint32(4) {
			seed := seedOf(fmt.Sprintf("puzzle %d", bits))
			part *= 341 // 0 to 1023
			v.Puzzles = append(v.Puzzles, vectorPuzzle{hex.EncodeToString(seed[:]), bits, part, firstNonce(&seed, bits, part, 0)})
		}
	}

	seed := seedOf("solution")
	const bits, parts = 8, 32
	solution := func(change func(s []byte) []byte) string {
		return base64.RawURLEncoding.EncodeToString(change(solve(&seed, bits, 64)))
	}
	add := func(name string, parts int, text string, err error) {
		v.Solutions = append(v.Solutions, vectorSolution{name, hex.EncodeToString(seed[:]), bits, 32, parts, text, message(err)})
	}
	cut := func(n int) func(s []byte) []byte { return func(s []byte) []byte { return s[:n] } }
	add("good", 32, solution(cut(4*parts)), nil)
	add("good, and more was asked for", 64, solution(cut(4*64)), nil)
	add("good, and more was solved than is asked for", 32, solution(cut(4*64)), nil)
	add("never fewer parts than the challenge says", 1, solution(cut(4)), ErrCount)
	add("the price has risen", 64, solution(cut(4*parts)), ErrCount)
	add("one part short", 32, solution(cut(4*parts-4)), ErrCount)
	add("one byte short", 32, solution(cut(4*parts-1)), ErrMalformed)
	add("one byte long", 32, solution(cut(4*parts+1)), ErrMalformed)
	add("empty", 32, "", ErrCount)
	add("first part wrong", 32, solution(func(s []byte) []byte { s[3]++; return s[:4*parts] }), ErrWrong)
	add("last part wrong", 32, solution(func(s []byte) []byte { s[4*parts-1]++; return s[:4*parts] }), ErrWrong)
	add("two parts exchanged", 32, solution(func(s []byte) []byte {
		return append(append(append([]byte(nil), s[4:8]...), s[:4]...), s[8:4*parts]...)
	}), ErrWrong)
	add("all zeros", 32, base64.RawURLEncoding.EncodeToString(make([]byte, 4*parts)), ErrWrong)
	add("padded", 32, solution(cut(4*parts))+"=", ErrMalformed)
	add("line break", 32, solution(cut(4*parts))+"\n", ErrMalformed)
	add("line break where it does not change the decoded length", 33, solution(cut(4*33))+"\n", ErrMalformed)
	add("nothing but a line break", 32, "\n", ErrMalformed)
	add("spare bits set", 32, spell(solution(cut(4*parts))), ErrMalformed)
	add("the other alphabet", 32, "+/"+solution(cut(4 * parts))[2:], ErrMalformed)
	add("the most parts, and one", 32, base64.RawURLEncoding.EncodeToString(make([]byte, 4*MaxParts+4)), ErrMalformed)
	seed[0] ^= 1
	add("somebody else's", 32, v.Solutions[0].Solution, ErrWrong)

	text, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(vectorsFile, append(text, '\n'), 0o644); err != nil {
		t.Fatal(err)
	}
}

// testChallenge is an ordinary one, with something in every field.
func testChallenge(now uint32) Challenge {
	return Challenge{
		Algorithm: SHA256, Kind: Work, Level: 2, Bits: 8, Parts: 32, Issued: now, Expires: now + 86400,
		Network: network.Network(0x20010db8_00000001), ID: [10]byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10},
		Proven: [3]uint32{0x11111111, 0x22222222, 0}, Target: 0,
	}
}

// flip changes the last bit of one byte of a token.
func flip(t testing.TB, token string, at int) string {
	t.Helper()
	raw, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil {
		t.Fatal(err)
	}
	raw[at] ^= 1
	return base64.RawURLEncoding.EncodeToString(raw)
}

// spell spells the same bytes another way: 128 of them leave spare bits in the last
// character.
func spell(text string) string {
	last := text[len(text)-1]
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	for i := range alphabet {
		if alphabet[i] == last {
			return text[:len(text)-1] + alphabet[i|1:i|1+1]
		}
	}
	return ""
}
