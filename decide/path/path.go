// Package path reads a request target as nginx does, and as the servers behind
// nginx may read the same bytes.
//
// nginx routes by a decoded and cleaned path ($uri) but hands the bytes on as it
// got them. Rules must see what nginx sees, and must not be talked out of a
// verdict by bytes that a backend understands in another way.
package path

import (
	"errors"
	"strings"
)

// Readings are the ways in which one request target may be understood. The zero
// value is ready; one Readings serves one goroutine, is meant to be kept and used
// again, and must not be copied.
//
// All strings may lie in the parsed target or in buffers of the Readings: they are
// valid until the target changes or Parse is called again.
type Readings struct {
	// Path is, byte for byte, what nginx 1.22 has in $uri with merge_slashes on:
	// decoded, without dot segments and double slashes. It begins with a slash.
	Path string

	// Query is what nginx has in $args: not decoded, without the question mark.
	Query string

	// Alt lists the other readings of the path, without repetitions, none equal
	// to Path. It is empty for nearly all requests. Unlike Path they may hold
	// double slashes, dot segments and "%2F". See the table of servers for whose
	// readings they are.
	Alt []string

	alt [len(servers)]string
	buf []byte
}

var (
	errForm    = errors.New("request target: neither a path nor a URL; nginx answers 400")
	errByte    = errors.New("request target: a space or control byte; nginx answers 400")
	errPercent = errors.New("request target: a % without two hexadecimal digits, or %00; nginx answers 400")
	errAbove   = errors.New("request target: .. leads above the root; nginx answers 400")
)

// Parse fills r from a request target: nginx's $request_uri, or the target of a
// request line, which may be a whole URL. It allocates nothing once r's buffers have
// grown. For a path it fails exactly where nginx answers 400 (an overlong one aside);
// of a URL's host it checks only the bytes. After an error r is empty.
func (r *Readings) Parse(target string) error {
	r.Path, r.Query, r.Alt = "", "", nil

	// Fast path: nothing to decode, to merge or to resolve, and one reading only.
	if n, ok := ordinary(target); ok {
		if n < len(target) {
			r.Query = target[n+1:]
		}
		r.Path = target[:n]
		return nil
	}

	// Slow path.
	raw, query, err := split(target)
	if err != nil {
		return err
	}
	return r.read(raw, query)
}

// Bytes that end the fast path, and those that it looks at.
const (
	plain = iota
	slash
	question
	hash
	oddPath // has a meaning in a path, none in a query
	bad     // nginx refuses it anywhere
)

var class = func() (c [256]uint8) {
	for b := range c {
		if b <= ' ' || b == 0x7F {
			c[b] = bad
		}
	}
	c['/'], c['?'], c['#'] = slash, question, hash
	for _, b := range []byte("%;\\\xC0\xC1\xE0\xE2\xEF\xF0") {
		c[b] = oddPath
	}
	return c
}()

// ordinary tells whether all servers read the target alike and without changing a
// byte, and if so where its path ends.
func ordinary(target string) (pathLen int, ok bool) {
	if len(target) == 0 || target[0] != '/' {
		return 0, false
	}
	i := 0
path:
	for ; i < len(target); i++ {
		switch class[target[i]] {
		case plain:
		case slash:
			// Also "/.x", which is harmless, but rare and not worth a look.
			if i+1 < len(target) && (target[i+1] == '/' || target[i+1] == '.') {
				return 0, false
			}
		case question:
			break path
		default:
			return 0, false
		}
	}
	for q := i; q < len(target); q++ {
		if k := class[target[q]]; k == bad || k == hash {
			return 0, false
		}
	}
	return i, true
}

// split cuts a target into its path, which is empty or begins with a slash, and its
// query, both as they were sent.
func split(target string) (raw, query string, err error) {
	for i := range len(target) {
		if class[target[i]] == bad {
			return "", "", errByte
		}
	}
	if target == "" {
		return "", "", errForm
	}
	// A target that begins with "?" is what $request_uri holds for "http://host?x".
	if target[0] != '/' && target[0] != '?' {
		if target, err = afterHost(target); err != nil {
			return "", "", err
		}
	}
	// nginx ends a target at the first "#", wherever it is.
	target, _, _ = strings.Cut(target, "#")
	raw, query, _ = strings.Cut(target, "?")
	return raw, query, nil
}

// afterHost cuts "scheme://host:port" off a URL. What is left is empty or begins
// with a slash or a question mark.
func afterHost(url string) (rest string, err error) {
	scheme, rest, ok := strings.Cut(url, "://")
	if !ok || scheme == "" || !isLetter(scheme[0]) || !all(scheme, isSchemeByte) {
		return "", errForm
	}
	if strings.HasPrefix(rest, "[") {
		end := strings.IndexByte(rest, ']')
		if end < 0 || !all(rest[1:end], isLiteralByte) {
			return "", errForm
		}
		rest = rest[end+1:]
	} else {
		rest = strings.TrimLeft(rest, hostBytes)
	}
	if strings.HasPrefix(rest, ":") {
		rest = strings.TrimLeft(rest[1:], "0123456789")
	}
	if rest != "" && rest[0] != '/' && rest[0] != '?' {
		return "", errForm
	}
	return rest, nil
}

const hostBytes = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-"

func isLetter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }

func isSchemeByte(c byte) bool { return c == '+' || strings.IndexByte(hostBytes, c) >= 0 }

// isLiteralByte: in "[...]" nginx takes what RFC 3986 allows in an IP literal.
func isLiteralByte(c byte) bool {
	return strings.IndexByte(hostBytes, c) >= 0 || strings.IndexByte(":_~!$&'()*+,;=", c) >= 0
}

func all(s string, is func(byte) bool) bool {
	for i := range len(s) {
		if !is(s[i]) {
			return false
		}
	}
	return true
}
