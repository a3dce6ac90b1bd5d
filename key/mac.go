package key

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"sync"
)

// MAC signs and verifies for one purpose. It is safe for concurrent use and does
// not allocate once its pools are warm.
type MAC struct{ slots []slot } // the signing key first

type slot struct {
	id    byte
	pool  *sync.Pool // of *state
	block cipher.Block
}

// maxMessage is the longest message that is signed; a longer one is a bug.
const maxMessage = 256

// state is a keyed hash with the buffers that would otherwise escape through
// the interfaces of hash.Hash and cipher.Block.
type state struct {
	h        hash.Hash
	msg      [maxMessage]byte
	sum      [sha256.Size]byte
	in, out  [aes.BlockSize]byte
	tagBlock cipher.Block
}

// MAC derives the secrets for a purpose. Call it once at start, not per request.
func (r *Ring) MAC(purpose string) *MAC {
	m := &MAC{}
	for _, k := range r.keys {
		secret := derive(k, purpose+" mac", 32)
		seal, err := aes.NewCipher(derive(k, purpose+" seal", 16))
		if err != nil {
			panic("BUG: aes: " + err.Error())
		}
		tag, err := aes.NewCipher(derive(k, purpose+" tag", 16))
		if err != nil {
			panic("BUG: aes: " + err.Error())
		}
		m.slots = append(m.slots, slot{
			id:    k.ID,
			pool:  &sync.Pool{New: func() any { return &state{h: hmac.New(sha256.New, secret), tagBlock: tag} }},
			block: seal,
		})
	}
	return m
}

// SignID is the id of the signing key. Put it into a message before signing it.
func (m *MAC) SignID() byte { return m.slots[0].id }

// Sign puts the HMAC-SHA256 of msg by the signing key into out.
func (m *MAC) Sign(msg []byte, out *[sha256.Size]byte) {
	s := m.slots[0].pool.Get().(*state)
	s.mac(msg)
	*out = s.sum
	m.slots[0].pool.Put(s)
}

// Verify tells whether sum is the HMAC of msg by the key with that id, or its
// first 16 or more bytes. It takes the same time wherever they differ.
func (m *MAC) Verify(id byte, msg, sum []byte) bool {
	k := m.slot(id)
	if k == nil || len(sum) < 16 || len(sum) > sha256.Size {
		return false
	}
	s := k.pool.Get().(*state)
	s.mac(msg)
	ok := hmac.Equal(s.sum[:len(sum)], sum)
	k.pool.Put(s)
	return ok
}

// Seal encrypts two words by the signing key into one block. The same words give
// the same block; there is no authentication: keep the block under a MAC.
func (m *MAC) Seal(a, b uint64, out *[aes.BlockSize]byte) {
	k := &m.slots[0]
	s := k.pool.Get().(*state)
	binary.BigEndian.PutUint64(s.in[:8], a)
	binary.BigEndian.PutUint64(s.in[8:], b)
	k.block.Encrypt(s.out[:], s.in[:])
	*out = s.out
	k.pool.Put(s)
}

// Open undoes Seal by the key with that id; ok is false when there is no such key.
func (m *MAC) Open(id byte, in *[aes.BlockSize]byte) (a, b uint64, ok bool) {
	k := m.slot(id)
	if k == nil {
		return 0, 0, false
	}
	s := k.pool.Get().(*state)
	s.in = *in
	k.block.Decrypt(s.out[:], s.in[:])
	a, b = binary.BigEndian.Uint64(s.out[:8]), binary.BigEndian.Uint64(s.out[8:])
	k.pool.Put(s)
	return a, b, true
}

// Tag is a keyed 64-bit hash of one word by the key with that id (0 if there is
// none): a name for it that nobody without the key can compute or undo, whole.
func (m *MAC) Tag(id byte, n uint64) uint64 {
	k := m.slot(id)
	if k == nil {
		return 0
	}
	s := k.pool.Get().(*state)
	binary.BigEndian.PutUint64(s.in[:8], n)
	clear(s.in[8:])
	s.tagBlock.Encrypt(s.out[:], s.in[:])
	t := binary.BigEndian.Uint64(s.out[:8])
	k.pool.Put(s)
	return t
}

func (s *state) mac(msg []byte) {
	if len(msg) > maxMessage {
		panic("BUG: key: a message is longer than maxMessage")
	}
	s.h.Reset()
	// Written from our own copy: what passes through an interface escapes, and the
	// caller's message would have to live on the heap.
	s.h.Write(s.msg[:copy(s.msg[:], msg)])
	s.h.Sum(s.sum[:0])
}

func (m *MAC) slot(id byte) *slot {
	for i := range m.slots {
		if m.slots[i].id == id {
			return &m.slots[i]
		}
	}
	return nil
}
