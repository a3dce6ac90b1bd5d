package botauth

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// Key is the public key of an agent.
type Key struct {
	ID        string // its thumbprint (RFC 7638, RFC 8037 appendix A.3), which a signature's keyid is
	Public    ed25519.PublicKey
	NotBefore int64 // Unix seconds; 0: always
	NotAfter  int64 // likewise
}

// testKeys are those whose private halves are printed in RFCs.
var testKeys = map[string]string{
	"poqkLGiymh_W0uP6PZFw-dvez3QJT5SolqXBCW38r0U": "RFC 9421",
	"kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k": "RFC 8037",
}

// jwk is the part of a JSON Web Key that is looked at.
type jwk struct {
	Kty string   `json:"kty"`
	Crv string   `json:"crv"`
	X   string   `json:"x"`
	D   string   `json:"d"`
	Use string   `json:"use"`
	Ops []string `json:"key_ops"`
	Alg string   `json:"alg"`
	Nbf float64  `json:"nbf"`
	Exp float64  `json:"exp"`
}

// errOther is a key of another kind than ours.
var errOther = errors.New(`want an Ed25519 key for signatures: {"kty":"OKP","crv":"Ed25519","x":"…"}`)

// ParseKey reads a public key as a JSON Web Key. Its kid is not looked at: the name of a
// key is what follows from it.
func ParseKey(text []byte) (Key, error) {
	var j jwk
	if err := json.Unmarshal(text, &j); err != nil {
		return Key{}, fmt.Errorf("not a JSON Web Key: %w", err)
	}
	return j.key()
}

func (j *jwk) key() (Key, error) {
	if j.Kty != "OKP" || j.Crv != "Ed25519" || j.Use != "" && j.Use != "sig" {
		return Key{}, errOther
	}
	switch j.Alg {
	case "", "ed25519", "Ed25519", "EdDSA":
	default:
		return Key{}, errOther
	}
	verifies := j.Ops == nil
	for _, op := range j.Ops {
		verifies = verifies || op == "verify"
	}
	if !verifies {
		return Key{}, errOther
	}
	x, err := base64.RawURLEncoding.Strict().DecodeString(j.X)
	if err != nil || len(x) != ed25519.PublicKeySize || len(j.X) != 43 {
		return Key{}, errors.New("x is not a public key: want 32 bytes in base64url without padding, 43 characters")
	}
	if j.D != "" {
		return Key{}, errors.New("it has its private half, d, with it: whoever reads it can sign. Make another key")
	}
	if j.Nbf < 0 || j.Exp < 0 || j.Nbf > 1e15 || j.Exp > 1e15 {
		return Key{}, errors.New("nbf and exp are seconds since 1970")
	}
	k := Key{ID: thumbprint(j.X), Public: x, NotBefore: int64(j.Nbf), NotAfter: int64(j.Exp)}
	if where := testKeys[k.ID]; where != "" {
		return Key{}, fmt.Errorf("it is the test key of %s: everybody has its private half", where)
	}
	return k, nil
}

// thumbprint is that of an Ed25519 key, x in base64url.
func thumbprint(x string) string {
	h := sha256.Sum256([]byte(`{"crv":"Ed25519","kty":"OKP","x":"` + x + `"}`))
	return base64.RawURLEncoding.EncodeToString(h[:])
}

// holds tells whether a key may be used at a time.
func (k *Key) holds(now int64) bool {
	return now+int64(skew/time.Second) >= k.NotBefore && (k.NotAfter == 0 || now < k.NotAfter)
}

// Limits of a directory. An agent has a few keys, while it changes them.
const (
	maxDirectory = 64 << 10
	maxKeys      = 64
)

// ParseDirectory reads the keys of a directory, a JSON Web Key Set. Keys of other kinds
// and broken ones are left out, and counted in skipped; that none is left is no error.
func ParseDirectory(text []byte) (keys []Key, skipped int, err error) {
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(text, &set); err != nil {
		return nil, 0, fmt.Errorf("not a JSON Web Key Set: %w", err)
	}
	if set.Keys == nil {
		return nil, 0, errors.New("not a JSON Web Key Set: it has no list of keys")
	}
	if len(set.Keys) > maxKeys {
		return nil, 0, fmt.Errorf("it has %d keys: at most %d are read", len(set.Keys), maxKeys)
	}
	seen := map[string]bool{}
	for _, raw := range set.Keys {
		k, err := ParseKey(raw)
		if err != nil || seen[k.ID] {
			skipped++
			continue
		}
		seen[k.ID] = true
		keys = append(keys, k)
	}
	return keys, skipped, nil
}
