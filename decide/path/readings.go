package path

import "bytes"

// server is a kind of server, by what it does to a path.
type server struct {
	keep      bool // leaves %2F and %5C encoded
	twice     bool // decodes what is still encoded after decoding
	narrow    bool // takes characters in more bytes than they need, and wide ones, for ASCII
	backslash bool // takes a backslash for a slash
	params    bool // drops ";x=y" from a segment
	merge     bool // takes several slashes for one
	resolve   bool // resolves "." and ".."

	// differs: what must occur in a target for it to read another path than nginx.
	differs trait
}

// trait is something in a path that servers do not agree on.
type trait uint8

const (
	encoded   trait = 1 << iota // %2F or %5C
	percent                     // %25
	backslash                   // \ or %5C
	params                      // ; or %3B
	merged                      // several slashes in a row
	dotted                      // a segment "." or ".."
	wide                        // a byte that may begin what narrow reads as ASCII
)

var nginx = server{merge: true, resolve: true}

// servers are those whose readings are looked at besides nginx's own. Each stands
// for real ones; combinations that none has are left out, because every reading is
// one more path to hold against every rule.
var servers = [...]server{
	// RFC 3986, section 6; nginx itself with merge_slashes off.
	{keep: true, resolve: true, differs: encoded | merged},
	// Routers that split what was sent and touch nothing else: chi, Rails, axum.
	// A rule for "/search/**" would not see "/search/../robots.txt" without it.
	{keep: true, differs: encoded | merged | dotted},
	// Programs that take the decoded path as it is: WSGI, CGI, PHP, Express.
	{differs: merged | dotted},
	// Servlet containers and what stands before them: Tomcat, Undertow.
	{backslash: true, params: true, merge: true, resolve: true, differs: backslash | params},
	// Those that keep empty segments: Jetty.
	{params: true, resolve: true, differs: params | merged},
	// Windows: IIS, HTTP.sys.
	{backslash: true, merge: true, resolve: true, differs: backslash},
	// A second decoding, by a proxy in between or by the program itself.
	{twice: true, backslash: true, params: true, merge: true, resolve: true, differs: percent | backslash | params},
	// Lenient decoders of UTF-8 (Tomcat before 6.0.18, IIS 5: "%c0%ae" is a dot), and
	// programs that map full-width characters to ASCII (Unicode's NFKC, Windows' best fit).
	{narrow: true, backslash: true, params: true, merge: true, resolve: true, differs: wide},
}

// read fills r from a path and a query as they were sent. The path is empty or begins
// with a slash, and has no control bytes.
func (r *Readings) read(raw, query string) error {
	buf, seen, ok := decode(r.buf[:0], raw, false)
	if !ok {
		return errPercent
	}
	if len(buf) == 0 {
		buf = append(buf, '/')
	}
	buf, more, above := nginx.clean(buf, 0)
	r.buf = buf
	if above {
		return errAbove
	}
	r.Path, r.Query = lend(buf), query
	if seen |= more; seen != 0 {
		r.readOthers(raw, seen)
	}
	return nil
}

// Others is how many readings of a target there are at most beside nginx's.
const Others = len(servers)

// readOthers fills r.Alt with the readings that differ from r.Path.
func (r *Readings) readOthers(raw string, seen trait) {
	n := 0
	for i := range servers {
		s := &servers[i]
		if s.differs&seen == 0 {
			continue
		}
		// The readings lie one behind the other. When the buffer has to grow the
		// earlier ones stay where they are, in the old one.
		start := len(r.buf)
		r.buf, _, _ = decode(r.buf, raw, s.keep)
		switch {
		case s.twice:
			r.buf = r.buf[:start+decodeAgain(r.buf[start:])]
		case s.narrow:
			r.buf = r.buf[:start+narrow(r.buf[start:])]
		}
		if len(r.buf) == start {
			r.buf = append(r.buf, '/')
		}
		r.buf, _, _ = s.clean(r.buf, start)
		if got := lend(r.buf[start:]); got != r.Path && !contains(r.alt[:n], got) {
			r.alt[n] = got
			n++
		} else {
			r.buf = r.buf[:start]
		}
	}
	if n > 0 {
		r.Alt = r.alt[:n:n]
	}
}

func contains(list []string, s string) bool {
	for i := range list {
		if list[i] == s {
			return true
		}
	}
	return false
}

// decode appends raw to dst with its percent-encoding undone, that of slashes and
// backslashes only if keep is false. It fails where nginx does: at a broken encoding
// and at %00.
func decode(dst []byte, raw string, keep bool) (_ []byte, seen trait, ok bool) {
	for i := 0; i < len(raw); i++ {
		c := raw[i]
		if c == '%' {
			if c, ok = unhex(raw, i); !ok || c == 0 {
				return dst, seen, false
			}
			i += 2
			switch c {
			case '%':
				seen |= percent
			case '/', '\\':
				seen |= encoded
				if keep && c == '/' {
					dst = append(dst, "%2F"...)
					continue
				} else if keep {
					dst = append(dst, "%5C"...)
					continue
				}
			}
		}
		switch c {
		case '\\':
			seen |= backslash
		case ';':
			seen |= params
		case 0xC0, 0xC1, 0xE0, 0xE2, 0xEF, 0xF0:
			seen |= wide
		}
		dst = append(dst, c)
	}
	return dst, seen, true
}

// decodeAgain undoes in place whatever looks like a percent-encoding, and says how
// much is left.
func decodeAgain(b []byte) int {
	w := 0
	for i := 0; i < len(b); i++ {
		c := b[i]
		if c == '%' {
			if d, ok := unhex(b, i); ok {
				c = d
				i += 2
			}
		}
		b[w] = c
		w++
	}
	return w
}

// narrow replaces in place whatever stands for an ASCII character and is none, and says how
// much is left: UTF-8 in two to four bytes where one would do, the full-width forms (U+FF01
// to U+FF5E), and what looks like a slash or a backslash (U+2044, U+2215, U+2216).
func narrow(b []byte) int {
	w := 0
	for i := 0; i < len(b); {
		c, n := narrowAt(b[i:])
		b[w] = c
		w, i = w+1, i+n
	}
	return w
}

// narrowAt is the first character of b if it stands for one of ASCII, or else its first
// byte, and how many bytes that takes.
func narrowAt(b []byte) (c byte, n int) {
	switch {
	case b[0]&^1 == 0xC0 && goesOn(b, 1):
		return b[0]&1<<6 | b[1]&0x3F, 2
	case b[0] == 0xE0 && goesOn(b, 2) && b[1]&^1 == 0x80:
		return b[1]&1<<6 | b[2]&0x3F, 3
	case b[0] == 0xF0 && goesOn(b, 3) && b[1] == 0x80 && b[2]&^1 == 0x80:
		return b[2]&1<<6 | b[3]&0x3F, 4
	case b[0] == 0xEF && goesOn(b, 2) && b[1] == 0xBC && b[2] > 0x80:
		return b[2] - 0x60, 3
	case b[0] == 0xEF && goesOn(b, 2) && b[1] == 0xBD && b[2] < 0x9F:
		return b[2] - 0x20, 3
	case b[0] == 0xE2 && goesOn(b, 2) && (b[1] == 0x81 && b[2] == 0x84 || b[1] == 0x88 && b[2] == 0x95):
		return '/', 3
	case b[0] == 0xE2 && goesOn(b, 2) && b[1] == 0x88 && b[2] == 0x96:
		return '\\', 3
	}
	return b[0], 1
}

// goesOn tells whether n bytes behind the first of b go on with a character.
func goesOn(b []byte, n int) bool {
	for i := 1; i <= n; i++ {
		if i >= len(b) || b[i]&0xC0 != 0x80 {
			return false
		}
	}
	return true
}

// unhex is the byte that the encoding at s[i:] stands for.
func unhex[T string | []byte](s T, i int) (byte, bool) {
	if i+2 >= len(s) {
		return 0, false
	}
	hi, lo := hexValue[s[i+1]], hexValue[s[i+2]]
	return hi<<4 | lo&0xF, hi|lo < 16
}

var hexValue = func() (v [256]uint8) {
	for b := range v {
		switch c := byte(b); {
		case '0' <= c && c <= '9':
			v[b] = c - '0'
		case 'a' <= c|0x20 && c|0x20 <= 'f':
			v[b] = c | 0x20 - 'a' + 10
		default:
			v[b] = 0xFF
		}
	}
	return v
}()

// clean does in place to the path buf[start:], which begins with a slash, what s does
// after decoding. above: a ".." had nothing to take away (nginx answers 400; here it
// stays at the root).
func (s *server) clean(buf []byte, start int) (_ []byte, seen trait, above bool) {
	p := buf[start:]
	if s.backslash {
		for i := range p {
			if p[i] == '\\' {
				p[i] = '/'
			}
		}
	}
	// p[:w] is the result so far, segments with a slash before each; p[i] is the
	// slash before the next one. w never overtakes i.
	w := 0
	for i := 0; i < len(p); {
		end := i + 1
		for end < len(p) && p[end] != '/' {
			end++
		}
		seg, last := p[i+1:end], end == len(p)
		i = end
		if s.params {
			if semi := bytes.IndexByte(seg, ';'); semi >= 0 {
				seg = seg[:semi]
			}
		}
		switch {
		case s.resolve && string(seg) == ".":
			seen |= dotted
		case s.resolve && string(seg) == "..":
			seen |= dotted
			if w == 0 {
				above = true
			} else {
				w = bytes.LastIndexByte(p[:w], '/')
			}
		case len(seg) == 0 && s.merge && !last:
			seen |= merged
		default:
			p[w] = '/'
			w += 1 + copy(p[w+1:], seg)
			continue
		}
		// The segment is gone; at the end its slash stays: "/a/.." is "/".
		if last {
			p[w] = '/'
			w++
		}
	}
	return buf[:start+w], seen, above
}
