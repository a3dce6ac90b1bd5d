package page

import (
	"encoding/base64"
	"unicode/utf8"
)

// appendHTML appends s so that it is text inside an element or inside a quoted
// attribute.
func appendHTML[T string | []byte](dst []byte, s T) []byte {
	plain := 0 // s[plain:i] needs no escaping
	for i := 0; i < len(s); i++ {
		var as string
		switch s[i] {
		case '&':
			as = "&amp;"
		case '<':
			as = "&lt;"
		case '>':
			as = "&gt;"
		case '"':
			as = "&#34;"
		case '\'':
			as = "&#39;"
		case 0:
			as = "\uFFFD" // as a browser reads it
		default:
			continue
		}
		dst = append(dst, s[plain:i]...)
		dst = append(dst, as...)
		plain = i + 1
	}
	return append(dst, s[plain:]...)
}

// appendJSON appends s as a JSON string that may stand inside a script element:
// nothing in it can end the element or begin a comment, and U+2028 and U+2029, line
// ends to old JavaScript, are escaped. Bytes that are not UTF-8 become U+FFFD.
func appendJSON[T string | []byte](dst []byte, s T) []byte {
	const hex = "0123456789abcdef"
	dst = append(dst, '"')
	for i := 0; i < len(s); {
		c := s[i]
		switch {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c < 0x20 || c == '<' || c == '>' || c == '&' || c == 0x7f:
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		case c < utf8.RuneSelf:
			dst = append(dst, c)
		default:
			end := min(i+utf8.UTFMax, len(s))
			var buf [utf8.UTFMax]byte
			r, size := utf8.DecodeRune(buf[:copy(buf[:], s[i:end])])
			switch {
			case r == utf8.RuneError && size == 1:
				dst = append(dst, `\ufffd`...)
			case r == '\u2028' || r == '\u2029':
				dst = append(dst, `\u202`...)
				dst = append(dst, hex[r&15])
			default:
				dst = append(dst, s[i:i+size]...)
			}
			i += size
			continue
		}
		i++
	}
	return append(dst, '"')
}

// appendBase64 appends s in base64url without padding. It copies piece by piece, as a
// string cannot be handed to the encoder without an allocation.
func appendBase64(dst []byte, s string) []byte {
	var piece [48]byte // a multiple of three: pieces join without a seam
	for len(s) > 0 {
		n := copy(piece[:], s)
		dst = base64.RawURLEncoding.AppendEncode(dst, piece[:n])
		s = s[n:]
	}
	return dst
}
