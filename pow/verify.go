package pow

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
)

// Why a solution is not accepted. Besides these: ErrMalformed.
var (
	ErrCount = errors.New("solution has too few parts")
	ErrWrong = errors.New("solution is wrong")
)

// MaxSolution is the length of the longest solution in bytes.
const MaxSolution = MaxParts * 4

// puzzle is what differs between the algorithms. Their checks are called by name in
// Verify, not from here: through a function value the caller's seed would escape
// to the heap.
type puzzle struct {
	nonceLen int
	maxBits  uint8
}

var puzzles = [...]puzzle{
	SHA256: {nonceLen: 4, maxBits: MaxBits},
}

// puzzleOf is nil for an algorithm that is not known.
func puzzleOf(a Algorithm) *puzzle {
	if int(a) >= len(puzzles) || puzzles[a].nonceLen == 0 {
		return nil
	}
	return &puzzles[a]
}

// AppendSolution decodes a solution as browsers send it, base64url without padding,
// and appends it to dst: at most MaxSolution bytes. It has one spelling too.
func AppendSolution(dst, text []byte) ([]byte, error) {
	if encoding.DecodedLen(len(text)) > MaxSolution {
		return dst, ErrMalformed
	}
	out, err := encoding.AppendDecode(dst, text)
	// Decode skips line breaks: with them in it the text is longer than it need be.
	if err != nil || encoding.EncodedLen(len(out)-len(dst)) != len(text) {
		return dst, ErrMalformed
	}
	return out, nil
}

// Verify checks the nonces of the first parts of a challenge, or of all the parts it
// names if those are more. What comes behind them is not looked at: the price may
// have fallen again while more was being solved. It does not allocate, and costs one
// hash a part at most.
func Verify(c *Challenge, seed *[32]byte, parts int, solution []byte) error {
	p := puzzleOf(c.Algorithm)
	if p == nil || c.Kind != Work || !c.wellFormed() {
		return ErrWrong // a wait has no solution
	}
	parts = max(parts, int(c.Parts))
	switch have := len(solution) / p.nonceLen; {
	case len(solution)%p.nonceLen != 0 || have > MaxParts:
		return ErrMalformed
	case have < parts:
		return ErrCount
	}
	switch c.Algorithm {
	case SHA256:
		return verifySHA256(c, seed, solution[:parts*p.nonceLen])
	}
	return ErrWrong
}

// verifySHA256: part i with nonce n holds when SHA-256(seed ‖ i ‖ n), both 32 bits
// big-endian, begins with Bits zero bits. The 40 bytes are one block, so that a hash
// is one compression for us and for the browser alike.
func verifySHA256(c *Challenge, seed *[32]byte, solution []byte) error {
	var message [40]byte
	copy(message[:], seed[:])
	for i := 0; i < len(solution)/4; i++ {
		binary.BigEndian.PutUint32(message[32:], uint32(i))
		copy(message[36:], solution[4*i:4*i+4])
		sum := sha256.Sum256(message[:])
		if binary.BigEndian.Uint32(sum[:])>>(32-c.Bits) != 0 {
			return ErrWrong
		}
	}
	return nil
}
