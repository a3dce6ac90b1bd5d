package pattern

import (
	"fmt"
	"slices"
	"testing"
)

// checkWords: words may let too much through, never too little. It tells whether a pattern's
// let a path through.
func checkWords(t *testing.T, text string, s string) bool {
	t.Helper()
	d := NewDictionary()
	ps, err := CompilePaths([]string{text}, d)
	if err != nil {
		return true
	}
	var has Words
	d.Find(s, &has)
	through := slices.ContainsFunc(ps.Words(), has.Has)
	if matches := ps.list[0].Match(s); matches != ps.Match(s, &has) {
		t.Errorf("%q matches %q: %v, and the list says otherwise", text, s, matches)
	} else if matches && !through {
		t.Errorf("%q matches %q, which has none of its words", text, s)
	}
	return through
}

func TestWords(t *testing.T) {
	texts := []string{
		"/", "/a", "/**", "/*", "/a/**", "/**.css", "/a*b", "/*/a", "/**/info/refs", "/a/*/b/**/c", "/ab*", "/*b",
		"~^/a$", "~^/(a|b)/", "~*^/ab$", "~*\\.PNG$", "~x", "~^/$", "~^/[sk]$", "~*^/s$", "~*k$", "~^/a?b$", "~.", "~^/é$",
		"/*/*/info/refs", "/**/x/**", "/**/*/a", "/**/**/a", "~/(?:src|raw)/", "~*/(?:SRC|raw)$", "~^(?:/[^/]+){2}/(?:src|blob)(?:/.*)?$", "~/k", "/x/*.tar.gz", "/**.a.b", "/a/", "/**/", "/*.", "/.x*", "/abcdefgh/i", "/*/abcdefghijk", "~*/ABCDEFGHI/$", "~\\.tar\\.gz$", "~*^/x\\.(?:a|B)$", "~*/[ks]/x", "~^/(?:a/b|c)$", "~/?x",
	}
	paths := []string{
		"", "/", "/a", "/b", "/A", "/ab", "/AB", "/aB", "/a/", "/a/x", "/x.css", "/.css", "/a/b", "/x/a", "/info/refs", "/r/info/refs", "/a/1/b/c", "/a/1/b/2/c",
		"/x.PNG", "/x.png", "/s", "/S", "/k", "/K", "/\u017f", "/\u212a", "/é", "/xb", "/b/", "/(", "/\xff",
		"/o/r/info/refs", "/o//info/refs", "/src/", "/o/r/SRC", "/o/r/src", "/o/r/blob/x", "/\u212a/x", "/o/\u017f/x", "/c", "//", "/x/", "/a/x/b", "x", "/x/y.tar.gz", "/.a.b", "/x.a.B", "/X.b", "/abcdefgh/i", "/q/abcdefghijk", "/ABCDEFGHI/", "/x.", "/.xy", "/tar.gz/x", "/x/.tar.gz/",
	}
	held := 0
	for _, text := range texts {
		for _, s := range paths {
			if !checkWords(t, text, s) {
				held++
			}
		}
	}
	if all := len(texts) * len(paths); held < all/2 {
		t.Errorf("words hold back only %d of %d", held, all)
	}
}

// More words than there are numbers: the patterns of the others are always asked.
func TestMoreWordsThanNumbers(t *testing.T) {
	d := NewDictionary()
	texts := make([]string, maxWords+1000)
	for i := range texts {
		texts[i] = fmt.Sprintf("/s%d", i)
	}
	ps, err := CompilePaths(texts, d)
	if err != nil {
		t.Fatal(err)
	}
	if used := len(d.hashes) - countOf(d.hashes, 0); d.Len() != maxWords+1 || used > maxWords {
		t.Errorf("%d numbers, %d hashes", d.Len(), used)
	}
	for _, i := range []int{0, 1000, maxWords - 1, maxWords, maxWords + 999} {
		path := fmt.Sprintf("/s%d", i)
		var has Words
		if d.Find(path, &has); !ps.Match(path, &has) {
			t.Errorf("%s matches nothing", path)
		}
		if d.Find(path+"x", &has); ps.Match(path+"x", &has) {
			t.Errorf("%sx matches", path)
		}
	}
}

func countOf(list []uint32, x uint32) (n int) {
	for _, y := range list {
		if y == x {
			n++
		}
	}
	return n
}

func FuzzWords(f *testing.F) {
	f.Add("/**.css", "/x.css")
	f.Add("~*^/sk$", "/\u017fK")
	f.Add("~^/a|b$", "/b")
	f.Add("~*/(?:src|k)/.*$", "/o/\u212a/")
	f.Add("/**/*/a", "//a")
	f.Fuzz(func(t *testing.T, text, s string) {
		checkWords(t, text, s)
	})
}
