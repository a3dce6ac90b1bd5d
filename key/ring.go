// Package key keeps the secrets that sign passes and challenges.
//
// A key file holds one or more keys; the first signs, all verify, so that keys are
// rotated without logging anybody out. Everything that is signed or hashed uses a
// secret derived for its purpose: no two uses can be played against each other.
package key

import (
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
)

// Key is one secret and the id by which tokens name it.
type Key struct {
	ID     byte
	Secret [32]byte
}

// Ring is a list of keys: the first signs, all verify. It is immutable and safe
// for concurrent use.
type Ring struct{ keys []Key }

// MaxKeys is how many keys a ring holds. Passes live days, keys are rotated in
// months: more than a few old keys only widen what a thief of the file can do.
const MaxKeys = 8

// NewRing makes a ring of 1 to MaxKeys keys with distinct ids, the signing key first.
func NewRing(keys ...Key) (*Ring, error) {
	if len(keys) == 0 {
		return nil, errors.New("no key")
	}
	if len(keys) > MaxKeys {
		return nil, fmt.Errorf("%d keys: at most %d are kept", len(keys), MaxKeys)
	}
	seen := map[byte]bool{}
	for _, k := range keys {
		if seen[k.ID] {
			return nil, fmt.Errorf("key id %d is there twice", k.ID)
		}
		if k.Secret == ([32]byte{}) {
			return nil, fmt.Errorf("key id %d is all zeros", k.ID)
		}
		seen[k.ID] = true
	}
	return &Ring{keys: append([]Key(nil), keys...)}, nil
}

// Generate makes a new random key with the given id.
func Generate(id byte) Key {
	k := Key{ID: id}
	rand.Read(k.Secret[:]) // never fails: crypto/rand.Read ends the program instead
	return k
}

// Fingerprint is a short public name of the signing key, the same on every replica
// that has the same file.
func (r *Ring) Fingerprint() string {
	sum := derive(r.keys[0], "fingerprint", 8)
	return fmt.Sprintf("%d-%x", r.keys[0].ID, sum)
}

// Len is the number of keys.
func (r *Ring) Len() int { return len(r.keys) }

func derive(k Key, purpose string, n int) []byte {
	out, err := hkdf.Key(sha256.New, k.Secret[:], nil, "stile 1 "+purpose, n)
	if err != nil {
		panic("BUG: hkdf: " + err.Error()) // only for absurd lengths
	}
	return out
}
