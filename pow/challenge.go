// Package pow makes challenges and checks what browsers answer.
//
// A challenge is a signed token that says everything about itself, so nothing is
// stored when one is issued. Its work is cut into many small parts, as Friendly
// Captcha does: the time to solve n parts varies by 1/√n of itself, so 32 parts make
// an honest progress bar and no unlucky visitors.
//
// Proof of work is a price, not a lock: whoever pays it gets in. What a pass is then
// worth is decided elsewhere.
package pow

import (
	"encoding/binary"
	"errors"
	"time"

	"stile/network"
)

// Algorithm names a puzzle. 2 is kept for HashWX.
type Algorithm uint8

// SHA256 is the puzzle of leading zero bits, see verifySHA256.
const SHA256 Algorithm = 1

// Kind is what a challenge asks for.
type Kind uint8

const (
	Work Kind = 1 // a solution
	Wait Kind = 2 // patience: the way without JavaScript, measured by mint.Ledger
)

// Challenge is what a token says.
type Challenge struct {
	Algorithm Algorithm
	Kind      Kind
	Level     uint8 // of the pass it will make
	Bits      uint8 // SHA256: 2^Bits hashes are expected a part, MinBits to MaxBits
	Parts     uint16
	Surge     bool   // issued in surge: kept out of the calibration
	Key       byte   // id of the key that signed it, and made the tags in Proven; set by Parse
	Issued    uint32 // unix seconds
	Expires   uint32 // unix seconds, of the pass

	// Network asked. The token holds it encrypted: its holder may be anybody.
	Network network.Network

	ID     [10]byte  // of the pass it will make: random, or that of the pass it upgrades
	Proven [3]uint32 // tags of the networks which the upgraded pass has; 0 = none
	Target uint64    // Wait: hash of the path to go back to
}

const (
	// Lifetime is how long a challenge may be answered.
	Lifetime = 5 * time.Minute

	// Skew is how far two machines' clocks may be apart, in either direction.
	Skew = 5 * time.Second

	// MinBits and MaxBits bound the difficulty. A part has 2^32 nonces, so that at
	// MaxBits one without any that holds is a matter of e^-256.
	MinBits = 1
	MaxBits = 24

	// MaxParts bounds a challenge, and with it what one verification costs.
	MaxParts = 1024
)

// Why a token is not accepted. All mean that a new challenge is needed; ErrExpired
// and ErrUnknown also happen to honest visitors.
var (
	ErrMalformed = errors.New("not a challenge")
	ErrUnknown   = errors.New("challenge of another version")
	ErrForged    = errors.New("challenge has a wrong signature or an unknown key")
	ErrExpired   = errors.New("challenge has expired, or is from the future")
)

// fresh tells whether a challenge may be answered now. One from the future is
// refused beyond Skew: when a clock that was ahead is put right, its challenges
// would otherwise live for as long as it was ahead, to be hoarded. The visitor gets
// a new one, by the new clock.
func fresh(issued, now uint32) bool {
	age := time.Duration(int64(now)-int64(issued)) * time.Second
	return age >= -Skew && age <= Lifetime+Skew
}

// wellFormed tells whether a challenge is one that can be met.
func (c *Challenge) wellFormed() bool {
	switch c.Kind {
	case Wait:
		return true
	case Work:
		p := puzzleOf(c.Algorithm)
		return p != nil && c.Bits >= MinBits && c.Bits <= p.maxBits && c.Parts >= 1 && c.Parts <= MaxParts
	}
	return false
}

// Distinct is a name for the challenge with that seed, for counting. It is as good
// as unique, the same on every replica, and cannot be chosen by its holder.
func Distinct(seed *[32]byte) uint64 { return binary.BigEndian.Uint64(seed[:8]) }
