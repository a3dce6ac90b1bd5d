package cookie

import (
	"bytes"
	"strconv"
)

// MaxTried is how many cookies of stile's name are looked at in one request.
// Duplicates are normal (another path, another subdomain); dozens are an attack.
const MaxTried = 8

// Find looks through a Cookie header for passes under a name, and takes the valid
// one with the highest level. It does not allocate; its work is bounded by the
// header's length and MaxTried signatures.
func (c *Passes) Find(header []byte, name string, now uint32, p *Pass) bool {
	found := false
	for range MaxTried {
		v, rest, ok := next(header, name)
		if !ok {
			break
		}
		header = rest
		var q Pass
		if c.Parse(v, now, &q) == nil && (!found || q.Level > p.Level) {
			*p, found = q, true
		}
	}
	return found
}

// Why says why Find finds nothing: what is wrong with the first cookie of that name, or
// ErrNone. It is for an operator, not for the hot path.
func (c *Passes) Why(header []byte, name string, now uint32) error {
	v, _, ok := next(header, name)
	if !ok {
		return ErrNone
	}
	var p Pass
	return c.Parse(v, now, &p)
}

// next takes the first cookie of a name off a Cookie header.
func next(header []byte, name string) (value, rest []byte, ok bool) {
	for len(header) > 0 {
		var pair []byte
		pair, header, _ = bytes.Cut(header, []byte{';'})
		k, v, ok := bytes.Cut(pair, []byte{'='})
		if !ok || string(bytes.TrimSpace(k)) != name {
			continue
		}
		v = bytes.TrimSpace(v)
		if len(v) >= 2 && v[0] == '"' && v[len(v)-1] == '"' { // RFC 6265 lets a value be quoted
			v = v[1 : len(v)-1]
		}
		return v, header, true
	}
	return nil, nil, false
}

// AppendSet appends a Set-Cookie value that keeps a pass for maxAge seconds. Max-Age,
// not Expires: the visitor's clock may be wrong.
func AppendSet(dst []byte, name string, value []byte, maxAge uint32, secure bool) []byte {
	dst = append(dst, name...)
	dst = append(dst, '=')
	dst = append(dst, value...)
	dst = append(dst, "; Path=/; Max-Age="...)
	dst = strconv.AppendUint(dst, uint64(maxAge), 10)
	dst = append(dst, "; HttpOnly; SameSite=Lax"...)
	if secure {
		dst = append(dst, "; Secure"...)
	}
	return dst
}
