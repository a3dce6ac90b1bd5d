package pattern

import (
	"strings"
	"testing"
)

func TestQuery(t *testing.T) {
	f := func(pattern, query string, want bool) {
		t.Helper()
		p, err := CompileQueries([]string{pattern})
		if err != nil {
			t.Errorf("CompileQuery: %v", err)
			return
		}
		if got := p.Match(query); got != want {
			t.Errorf("%q matches %q = %v, want %v", pattern, query, got, want)
		}
		if got := listMatches(t, query, pattern, "none", "~^nothing$"); got != want {
			t.Errorf("a list with %q matches %q = %v, want %v", pattern, query, got, want)
		}
	}
	f("a", "a", true)
	f("a", "a=", true)
	f("a", "a=1", true)
	f("a", "b&a", true)
	f("a", "", false)
	f("a", "b=a", false)
	f("a", "aa=1", false)
	f("a", "x=1&aa", false)
	f("a", "A", false)
	f("a=*x", "a=x&a", true)
	f("a=**", "a", true)
	f("a=***x**y", "a=1x2y", true)
	f("a=***x**y", "a=1x2yz", false)
	f("a=x*", "a=%78", true)
	f("a=x*", "a=/%0a/x", false)
	f("a=*/x/*", "a=b/%78/", true)
	f("a=", "a", true)
	f("a=", "a=", true)
	f("a=", "a=1", false)
	f("a=1", "a=1", true)
	f("a=1", "a=12", false)
	f("a=1", "a=2&a=1", true) // any occurrence
	f("a=1", "a=1&a=2", true)
	f("a=b=c", "a=b=c", true)
	f("a=*", "a", true)

	// C030: both separators, and no way around by encoding.
	f("a=commitdiff", "p=r.git;a=commitdiff;h=abc", true)
	f("a=commitdiff", "p=r.git&a=commitdiff&h=abc", true)
	f("a=commitdiff", "x=1;a=commitdiff", true)
	f("a=commitdiff", "%61=commitdif%66", true)
	f("a=commitdiff", "p=;;&&a=commitdiff", true)
	f("a=commitdiff", "a=commitdiffs", false)
	f("a=commitdiff", "a=commitdiff%3Bh", false)
	f("a=commitdiff", "a%3Dcommitdiff", false)
	f("a=commit*", "a=commitdiff_plain", true)
	f("a=*diff", "a=commitdiff", true)
	f("a=*diff*", "a=commitdiff_plain", true)
	f("a=c*d*f", "a=commitdiff", true)
	f("a=c*x*f", "a=commitdiff", false)
	f("a=**f", "a=commitdiff", true)

	f("q=a b", "q=a+b", true)
	f("q=a b", "q=a%20b", true)
	f("q=C++", "q=C%2B%2B", true)
	f("q=C++", "q=C++", false) // that is "C  "
	f("my name", "x=1&my+name=2", true)
	f("a[]=1", "a%5b%5D=1", true)
	f("q=ä", "q=%C3%A4", true)
	f("q=100%", "q=100%", true)
	f("q=100%", "q=100%25", true)
	f("q=%4", "q=%4", true)
	f("q=*%*", "q=5%zz", true)
	f("go-get=1", "go-get=1", true)
	f("service=git-*", "service=git-upload-pack", true)
	f("service=git-upload-pack", "service=git-upload-packs", false)

	f("~^service=git-(upload|receive)-pack$", "service=git-upload-pack", true)
	f("~^service=git-(upload|receive)-pack$", "x&service=git-upload-pack", false)
	f("~%2[fF]", "a=%2f", true) // as it was sent
	f("~*A=1", "a=1", true)
}

// listMatches matches a list of patterns.
func listMatches(t *testing.T, query string, patterns ...string) bool {
	t.Helper()
	qs, err := CompileQueries(patterns)
	if err != nil {
		t.Fatal(err)
	}
	return qs.Match(query)
}

func TestQueries(t *testing.T) {
	var none Queries
	if !none.Empty() || none.Match("") || none.Match("a=1") || none.Present() {
		t.Error("an empty list is one that matches")
	}
	for query, want := range map[string]bool{"": false, "q=1": true, "x=1;%71": true, "s": true, "t=5": false, "t=6": true, "S=1": false, "&&;": false, "=q": false, "zz9": true} {
		if got := listMatches(t, query, "q", "s", "t=6", "~9$"); got != want {
			t.Errorf("%q: %v, want %v", query, got, want)
		}
	}
	if _, err := CompileQueries([]string{"a", "~("}); err == nil {
		t.Error("a broken expression is taken")
	}
	for text, want := range map[string]bool{"~.": true, "~*.": false, "~..": false, "a": false, "~^.$": false} {
		if qs, err := CompileQueries([]string{"b", text}); err != nil || qs.Present() != want {
			t.Errorf("%q says that it matches all queries: %v, want %v (%v)", text, !want, want, err)
		}
	}
}

func TestQueryRefused(t *testing.T) {
	f := func(pattern, want string) {
		t.Helper()
		if _, err := CompileQueries([]string{pattern}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("CompileQuery(%q): %v; want %q in it", pattern, err, want)
		}
	}
	f("", "empty")
	f("?a=1", "without the question mark")
	f("a=1&b=2", "one parameter")
	f("a=1;b=2", "one parameter")
	f("a=%20", `"%20" is compared decoded`)
	f("=x", "no name")
	f("*=x", "only in the value")
	f("a=1\n", "line break")
	f("~(", "missing closing )")
	f("a=x*"+strings.Repeat("y", 63), "too long behind")
}

func FuzzQuery(f *testing.F) {
	for _, c := range [][2]string{{"a=commitdiff", "p=r;a=commitdiff"}, {"a", "%61"}, {"a=*b*", "a=%62+&a"}, {"a=%", "a=%%"}, {"q=a b", "q=a+b"}, {"a=**", "a"}} {
		f.Add(c[0], c[1])
	}
	decode := func(s string) string {
		var b []byte
		for i := 0; i < len(s); {
			c, after := decodeAt(s, i)
			b, i = append(b, c), after
		}
		return string(b)
	}
	f.Fuzz(func(t *testing.T, pattern, query string) {
		p, err := CompileQueries([]string{pattern})
		if err != nil || pattern[0] == '~' {
			return
		}
		want := false
		name, value, valued := strings.Cut(pattern, "=")
		if !valued {
			value = "*"
		}
		for _, param := range strings.FieldsFunc(query, func(r rune) bool { return r == '&' || r == ';' }) {
			n, v, _ := strings.Cut(param, "=")
			want = want || decode(n) == name && globbed(decode(v), value)
		}
		if got := p.Match(query); got != want {
			t.Fatalf("%q matches %q = %v, want %v", pattern, query, got, want)
		}
		if got := listMatches(t, query, "-none-", pattern); got != want && !strings.Contains(query, "none") {
			t.Fatalf("a list with %q matches %q = %v, want %v", pattern, query, got, want)
		}
	})
}

// globbed is a glob done by recursion over the pieces.
func globbed(s, glob string) bool {
	first, rest, star := strings.Cut(glob, "*")
	if !star {
		return s == first
	}
	s, ok := strings.CutPrefix(s, first)
	if !ok {
		return false
	}
	pieces := strings.Split(rest, "*")
	for _, piece := range pieces[:len(pieces)-1] {
		i := strings.Index(s, piece)
		if i < 0 {
			return false
		}
		s = s[i+len(piece):]
	}
	return strings.HasSuffix(s, pieces[len(pieces)-1])
}

func BenchmarkQuery(b *testing.B) {
	f := func(name, pattern, s string) {
		b.Run(name, func(b *testing.B) {
			p, err := CompileQueries([]string{pattern})
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				p.Match(s)
			}
		})
	}
	f("none", "a=commitdiff", "")
	f("miss", "go-get=1", "q=halogen&page=2&sort=updated")
	f("miss-encoded", "go-get=1", "q=halo%20gen&page=2&sort=updated")
	f("hit", "a=commitdiff", "p=r.git;a=commitdiff;h=0123456789abcdef")
}
