// Package cookie makes and reads passes: what a visitor holds after a proof.
//
// A pass raises a caller's budget; it never lifts a limit. Metering follows its id,
// so a pass that is shared by many is worth to all of them together what it is
// worth to one.
package cookie

import (
	"encoding/base64"
	"encoding/binary"
	"errors"

	"stile/key"
	"stile/network"
)

// IDLen is the length of a pass's id in bytes: enough that random ids never meet.
const IDLen = 10

// ProvenMax is how many networks a pass remembers. A pass that has been proven from
// that many may be used from anywhere.
const ProvenMax = 4

// Pass is what the cookie says.
type Pass struct {
	Level   uint8 // 1 to 3; a higher level satisfies a lower demand
	Key     byte  // id of the key that signed it, and that made the tags in Proven
	Expires uint32
	ID      [IDLen]byte
	Proven  [ProvenMax]uint32 // tags of networks (see Passes.Tag), 0 = unused
}

// Wire format, base64url without padding (66 characters):
//
//	0      version (1)
//	1      key id
//	2      level
//	3:7    expiry, unix seconds
//	7:17   id
//	17:33  four network tags
//	33:49  HMAC-SHA256 over the above, its first 16 bytes
const (
	version  = 1
	bodyLen  = 33
	macLen   = 16
	rawLen   = bodyLen + macLen
	ValueLen = (rawLen*8 + 5) / 6 // length of a cookie's value in characters
)

// Why a value is no pass. To a visitor they are all the same: no pass.
var (
	ErrMalformed = errors.New("not a pass")
	ErrForged    = errors.New("pass has a wrong signature or an unknown key")
	ErrExpired   = errors.New("pass has expired")
	ErrNone      = errors.New("no cookie of that name")
)

var encoding = base64.RawURLEncoding.Strict()

// Passes makes and reads passes. It is immutable and safe for concurrent use.
type Passes struct{ mac *key.MAC }

// New makes passes signed by the ring's first key; those of all its keys are read.
func New(r *key.Ring) *Passes { return &Passes{mac: r.MAC("pass")} }

// SignID is the id of the key that signs now.
func (c *Passes) SignID() byte { return c.mac.SignID() }

// Tag is the short name under which a pass signed by that key remembers a network.
// It is never 0, and says nothing about the network to anybody without the key.
func (c *Passes) Tag(keyID byte, n network.Network) uint32 {
	if t := uint32(c.mac.Tag(keyID, uint64(n)) >> 32); t != 0 {
		return t
	}
	return 1
}

// Append appends the cookie value of a pass, signed by the first key (p.Key is not
// looked at: Proven must hold tags of SignID's key). It does not allocate.
func (c *Passes) Append(dst []byte, p *Pass) []byte {
	var raw [rawLen]byte
	raw[0], raw[1], raw[2] = version, c.mac.SignID(), p.Level
	binary.BigEndian.PutUint32(raw[3:], p.Expires)
	copy(raw[7:], p.ID[:])
	for i, t := range p.Proven {
		binary.BigEndian.PutUint32(raw[17+4*i:], t)
	}
	var sum [32]byte
	c.mac.Sign(raw[:bodyLen], &sum)
	copy(raw[bodyLen:], sum[:macLen])
	return encoding.AppendEncode(dst, raw[:])
}

// Parse reads a cookie value. Each pass has exactly one spelling. On error p is
// not to be used. It does not allocate.
func (c *Passes) Parse(value []byte, now uint32, p *Pass) error {
	if len(value) != ValueLen {
		return ErrMalformed
	}
	// Decode skips line breaks, which would be a second spelling.
	for _, b := range value {
		if b == '\n' || b == '\r' {
			return ErrMalformed
		}
	}
	var raw [rawLen]byte
	if n, err := encoding.Decode(raw[:], value); err != nil || n != rawLen || raw[0] != version {
		return ErrMalformed
	}
	if raw[2] < 1 || raw[2] > 3 {
		return ErrMalformed
	}
	p.Expires = binary.BigEndian.Uint32(raw[3:])
	if p.Expires <= now {
		return ErrExpired // before the signature: costs nothing, tells nothing
	}
	if !c.mac.Verify(raw[1], raw[:bodyLen], raw[bodyLen:]) {
		return ErrForged
	}
	p.Key, p.Level = raw[1], raw[2]
	copy(p.ID[:], raw[7:])
	for i := range p.Proven {
		p.Proven[i] = binary.BigEndian.Uint32(raw[17+4*i:])
	}
	return nil
}

// ProvenFrom tells whether the pass was proven from that network, or from so many
// that it may roam.
func (c *Passes) ProvenFrom(p *Pass, n network.Network) bool {
	if p.Proven[ProvenMax-1] != 0 {
		return true
	}
	t := c.Tag(p.Key, n)
	for _, have := range p.Proven {
		if have == t {
			return true
		}
	}
	return false
}
