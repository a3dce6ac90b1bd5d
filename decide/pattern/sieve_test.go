package pattern

import "testing"

// A sieve may let too much through, never too little.
func checkSieve(t *testing.T, p *Path, s string) {
	t.Helper()
	var v Sieve
	v.Add(p)
	if p.Match(s) && !v.May(s, StartsOf(s)) {
		t.Errorf("%q matches %q, and the sieve holds it back", p.text, s)
	}
	if p.Match(s) && !p.May(StartsOf(s)) {
		t.Errorf("%q matches %q, and asks for other starts of segments", p.text, s)
	}
}

func TestSieve(t *testing.T) {
	texts := []string{
		"/", "/a", "/**", "/*", "/a/**", "/**.css", "/a*b", "/*/a", "/**/info/refs", "/a/*/b/**/c", "/ab*", "/*b",
		"~^/a$", "~^/(a|b)/", "~*^/ab$", "~*\\.PNG$", "~x", "~^/$", "~^/[sk]$", "~*^/s$", "~*k$", "~^/a?b$", "~.", "~^/é$",
		"/*/*/info/refs", "/**/x/**", "/**/*/a", "/**/**/a", "~/(?:src|raw)/", "~*/(?:SRC|raw)$", "~^(?:/[^/]+){2}/(?:src|blob)(?:/.*)?$", "~/k", "~*/[ks]/x", "~^/(?:a/b|c)$", "~/?x",
	}
	paths := []string{
		"", "/", "/a", "/b", "/A", "/ab", "/AB", "/aB", "/a/", "/a/x", "/x.css", "/.css", "/a/b", "/x/a", "/info/refs", "/r/info/refs", "/a/1/b/c", "/a/1/b/2/c",
		"/x.PNG", "/x.png", "/s", "/S", "/k", "/K", "/\u017f", "/\u212a", "/é", "/xb", "/b/", "/(", "/\xff",
		"/o/r/info/refs", "/o//info/refs", "/src/", "/o/r/SRC", "/o/r/src", "/o/r/blob/x", "/\u212a/x", "/o/\u017f/x", "/c", "//", "/x/", "/a/x/b", "x",
	}
	held := 0
	for _, text := range texts {
		p, err := CompilePath(text)
		if err != nil {
			t.Fatal(err)
		}
		var v Sieve
		v.Add(&p)
		for _, s := range paths {
			checkSieve(t, &p, s)
			if !v.May(s, StartsOf(s)) {
				held++
			}
		}
	}
	if held < 200 {
		t.Errorf("the sieves hold back only %d", held)
	}
}

func FuzzSieve(f *testing.F) {
	f.Add("/**.css", "/x.css")
	f.Add("~*^/sk$", "/\u017fK")
	f.Add("~^/a|b$", "/b")
	f.Add("~*/(?:src|k)/.*$", "/o/\u212a/")
	f.Add("/**/*/a", "//a")
	f.Fuzz(func(t *testing.T, text, s string) {
		if p, err := CompilePath(text); err == nil {
			checkSieve(t, &p, s)
		}
	})
}
