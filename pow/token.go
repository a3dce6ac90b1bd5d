package pow

import (
	"encoding/base64"
	"encoding/binary"
	"math/rand/v2"

	"stile/key"
	"stile/network"
)

// Wire format, base64url without padding. The length is a multiple of three, so
// that no bits are left over which could be spelt in two ways.
//
//	0      version (1)
//	1      key id
//	2      algorithm
//	3      kind
//	4      surge: 0 or 1
//	5      level
//	6:8    parts
//	8:13   difficulty, its meaning is the algorithm's. SHA256: bits, then four zeros
//	       (HashWX will have a 32-bit ratio, and the logarithm of its group size)
//	13:17  issued, unix seconds
//	17:21  expiry of the pass, unix seconds
//	21:37  network, encrypted with a salt
//	37:47  id of the pass
//	47:59  three network tags
//	59:67  target
//	67:99  HMAC-SHA256 over the above: also the seed of the puzzle
const (
	version = 1
	bodyLen = 67
	rawLen  = bodyLen + 32

	// TokenLen is the length of a token in characters.
	TokenLen = rawLen / 3 * 4
)

var encoding = base64.RawURLEncoding.Strict()

// Issuer makes and reads tokens. It is immutable, safe for concurrent use, and does
// not allocate.
type Issuer struct{ mac *key.MAC }

// NewIssuer makes tokens signed by the ring's first key; those of all its keys are
// read.
func NewIssuer(r *key.Ring) *Issuer { return &Issuer{mac: r.MAC("challenge")} }

// Append appends the token of a challenge, signed by the first key: c.Key is not
// looked at. Two tokens of one challenge differ. A challenge that no browser could
// meet (an unknown kind or algorithm, bits or parts out of range) is a bug.
func (i *Issuer) Append(dst []byte, c *Challenge) []byte {
	// The salt hides which tokens have the same network: it must differ, not be
	// secret. What must not be guessed, the seed, is the MAC.
	return i.append(dst, c, rand.Uint64())
}

func (i *Issuer) append(dst []byte, c *Challenge, salt uint64) []byte {
	if !c.wellFormed() {
		panic("BUG: pow: a challenge that cannot be met")
	}
	var raw [rawLen]byte
	raw[0], raw[1], raw[2], raw[3], raw[5] = version, i.mac.SignID(), byte(c.Algorithm), byte(c.Kind), c.Level
	if c.Surge {
		raw[4] = 1
	}
	be := binary.BigEndian
	be.PutUint16(raw[6:], c.Parts)
	raw[8] = c.Bits
	be.PutUint32(raw[13:], c.Issued)
	be.PutUint32(raw[17:], c.Expires)
	i.mac.Seal(uint64(c.Network), salt, (*[16]byte)(raw[21:37]))
	copy(raw[37:47], c.ID[:])
	for n, tag := range c.Proven {
		be.PutUint32(raw[47+4*n:], tag)
	}
	be.PutUint64(raw[59:], c.Target)
	i.mac.Sign(raw[:bodyLen], (*[32]byte)(raw[bodyLen:]))
	return encoding.AppendEncode(dst, raw[:])
}

// Parse reads a token into c, and its puzzle's seed into seed. Each token has
// exactly one spelling. On error c and seed are not to be used.
func (i *Issuer) Parse(token []byte, now uint32, c *Challenge, seed *[32]byte) error {
	// Cheap before expensive: length, alphabet, age, and only then the signature.
	if len(token) != TokenLen {
		return ErrMalformed
	}
	var raw [rawLen]byte
	// Decode skips line breaks, which would be a second spelling; with them in it the
	// token is too short.
	if n, err := encoding.Decode(raw[:], token); err != nil || n != rawLen {
		return ErrMalformed
	}
	if raw[0] != version {
		return ErrUnknown
	}
	be := binary.BigEndian
	c.Issued = be.Uint32(raw[13:])
	if !fresh(c.Issued, now) {
		return ErrExpired
	}
	if !i.mac.Verify(raw[1], raw[:bodyLen], raw[bodyLen:]) {
		return ErrForged
	}

	// From here on the bytes are our own, or a newer version's with the same key.
	c.Key, c.Algorithm, c.Kind, c.Surge, c.Level = raw[1], Algorithm(raw[2]), Kind(raw[3]), raw[4] == 1, raw[5]
	c.Parts = be.Uint16(raw[6:])
	c.Bits = raw[8]
	if !c.wellFormed() || raw[4] > 1 || be.Uint32(raw[9:]) != 0 {
		return ErrUnknown
	}
	c.Expires = be.Uint32(raw[17:])
	n, _, ok := i.mac.Open(raw[1], (*[16]byte)(raw[21:37]))
	if !ok {
		return ErrForged
	}
	c.Network = network.Network(n)
	copy(c.ID[:], raw[37:])
	for n := range c.Proven {
		c.Proven[n] = be.Uint32(raw[47+4*n:])
	}
	c.Target = be.Uint64(raw[59:])
	*seed = [32]byte(raw[bodyLen:])
	return nil
}
