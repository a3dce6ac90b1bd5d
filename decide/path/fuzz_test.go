package path

import (
	"slices"
	"strings"
	"testing"
)

// The reading of a server that never leaves out any reading, byte by byte and with
// fresh memory: what the masks, buffers and fast path of Parse must not change.
func plainly(t *testing.T, target string) (path string, alt []string, ok bool) {
	raw, _, err := split(target)
	if err != nil {
		return "", nil, false
	}
	read := func(s *server) (string, bool) {
		b, _, ok := decode(nil, raw, s.keep)
		if s.twice {
			b = b[:decodeAgain(b)]
		}
		if len(b) == 0 {
			b = []byte("/")
		}
		b, _, above := s.clean(b, 0)
		return string(b), ok && !above
	}
	path, ok = read(&nginx)
	if !ok {
		return "", nil, false
	}
	for i := range servers {
		if other, _ := read(&servers[i]); other != path && !slices.Contains(alt, other) {
			alt = append(alt, other)
		}
	}
	return path, alt, true
}

// escape spells a path so that it stands for itself.
func escape(path string) string {
	var b strings.Builder
	for _, c := range []byte(path) {
		if c == '/' || c == '.' || isLetter(c) {
			b.WriteByte(c)
			continue
		}
		const digits = "0123456789abcdef"
		b.Write([]byte{'%', digits[c>>4], digits[c&15]})
	}
	return b.String()
}

func FuzzParse(f *testing.F) {
	for _, target := range []string{
		"/", "/a?b#c", "//a/./b/%2e%2e/c", "/static/..;/heavy", "/%2f%5c%25%3b%3f%23", `/a\..\b`, "/%252e%252e/", "/a%", "/..",
		"http://h", "http://[::1]:80?x", "?x", "*", "", "/\x00", "/\xff//;x",
	} {
		f.Add(target)
	}
	var r, again Readings
	f.Fuzz(func(t *testing.T, target string) {
		err := r.Parse(target)
		path, alt, ok := plainly(t, target)
		if ok != (err == nil) || path != r.Path || !slices.Equal(alt, r.Alt) {
			t.Fatalf("Parse(%q) = %q %q, %v; done plainly: %q %q", target, r.Path, r.Alt, err, path, alt)
		}
		if err != nil {
			return
		}
		if r.Path[0] != '/' || strings.Contains(r.Path, "//") || strings.Contains(r.Path+"/", "/./") || strings.Contains(r.Path+"/", "/../") {
			t.Fatalf("Parse(%q).Path = %q is not clean", target, r.Path)
		}
		if strings.ContainsAny(r.Query, "# \x00\r\n") || !strings.Contains(target, r.Query) {
			t.Fatalf("Parse(%q).Query = %q", target, r.Query)
		}
		for _, a := range r.Alt {
			if a == "" || a[0] != '/' || len(a) > len(target)+1 {
				t.Fatalf("Parse(%q).Alt has %q", target, a)
			}
		}
		// A path that was read once stands for itself, and Parse may be repeated.
		if err := again.Parse(escape(r.Path)); err != nil || again.Path != r.Path {
			t.Fatalf("Parse(%q).Path = %q, read again: %q, %v", target, r.Path, again.Path, err)
		}
		if err := again.Parse(target); err != nil || again.Path != r.Path || again.Query != r.Query || !slices.Equal(again.Alt, r.Alt) {
			t.Fatalf("Parse(%q) differs the second time", target)
		}
	})
}
