package pattern

import (
	"regexp"
	"strings"
	"testing"
	"time"
)

func TestPath(t *testing.T) {
	f := func(pattern, path string, want bool) {
		t.Helper()
		p, err := CompilePath(pattern)
		if err != nil {
			t.Errorf("CompilePath: %v", err)
			return
		}
		if got := p.Match(path); got != want {
			t.Errorf("%q matches %q = %v, want %v", pattern, path, got, want)
		}
		if why := p.Never(); why != "" {
			t.Errorf("%q: Never: %s", pattern, why)
		}
	}
	f("/", "/", true)
	f("/", "/a", false)
	f("/favicon.ico", "/favicon.ico", true)
	f("/favicon.ico", "/faviconxico", false) // C033
	f("/favicon.ico", "/faviconxico/heavy", false)
	f("/favicon.ico", "/favicon.ico/heavy", false)
	f("/favicon.ico", "/a/favicon.ico", false)
	f("/favicon.ico", "/FAVICON.ICO", false)

	f("/packages/**", "/packages/", true)
	f("/packages/**", "/packages/a/b", true)
	f("/packages/**", "/packages", false)
	f("/packages/**", "/packagesx", false)
	f("/packages/**", "/x/packages/a", false)
	f("/packages/**", "/packages/\n", true)
	f("/**", "/", true)
	f("/**", "/a/b", true)
	f("/**.css", "/a/b.css", true)
	f("/**.css", "/b.css", true)
	f("/**.css", "/b.css/x", false)
	f("/**.css", "/bcss", false)
	f("/**.css", "/b.cssx", false)
	f("/a/**.css", "/a/.css", true)
	f("/a/**.css", "/a.css", false)

	f("/a/*/b", "/a/x/b", true)
	f("/a/*/b", "/a//b", true)
	f("/a/*/b", "/a/b", false)
	f("/a/*/b", "/a/x/y/b", false)
	f("/a/*.png", "/a/x.png", true)
	f("/a/*.png", "/a/x/y.png", false)
	f("/a/*", "/a/x", true)
	f("/a/*", "/a/", true)
	f("/a/*", "/a/x/", false)
	f("/ab*ba", "/aba", false) // prefix and suffix do not share a byte
	f("/ab*ba", "/abba", true)
	f("/*/*", "/a/b", true)
	f("/*/*", "/a/b/c", false)
	f("/*/*/commit/**", "/u/r/commit/abc", true)
	f("/*/*/commit/**", "/u/r/s/commit/abc", false)
	f("/*/*/commit/**", "/u/r/commit", false)
	f("/*.git/*.pack", "/r.git/x.pack", true)
	f("/*.git/*.pack", "/r.git/y/x.pack", false)

	f("/**/info/refs", "/info/refs", true)
	f("/**/info/refs", "/r.git/info/refs", true)
	f("/**/info/refs", "/a/b/r.git/info/refs", true)
	f("/**/info/refs", "/a/xinfo/refs", false)
	f("/**/info/refs", "/info/refs/x", false)
	f("/a/**/b", "/a/b", true)
	f("/a/**/b", "/a/x/y/b", true)
	f("/a/**/b", "/a/xb", false)
	f("/a/**/b", "/ab", false)
	f("/a/**/", "/a/", true)
	f("/a/**/", "/a/b/", true)
	f("/a/**/", "/a/b", false)
	f("/**/*.atom", "/x.atom", true)
	f("/**/*.atom", "/a/b/x.atom", true)
	f("/**/**/x", "/x", true)
	f("/**/**/x", "/ax", false)
	f("/**/objects/**", "/r.git/objects/ab/cd", true) // C110
	f("/**/objects/**", "/r.git/commit/objects", false)
	f("/**/a*c/**/e", "/x/abc/e", true)
	f("/**/a*c/**/e", "/abc/d/e", true)
	f("/**/a*c/**/e", "/ab/c/e", false)
	f("/**/a*c/**/e", "/xabc/e", false)
	f("/a**b/*/c", "/a/1/b/x/c", true)
	f("/a**b/*/c", "/a/1/b/x/y/c", false)
	f("/a**b*c", "/abxbyc", true)
	f("/a**b*c", "/axb/c", false)

	// An allowed feed shape is only that shape. (C032)
	f("/feed/*.rss", "/feed/all.rss", true)
	f("/feed/*.rss", "/repo/commit/abc.rss", false)

	// Decoded paths: spaces, bytes that are not UTF-8, and odd characters stand for themselves.
	f("/a b/**", "/a b/c", true)
	f("/wiki/Straße", "/wiki/Stra\xC3\x9Fe", true)
	f("/100%", "/100%", true)
	f("/a;b=[id]-(x)", "/a;b=[id]-(x)", true)
	f("/.*", "/.env", true)
	f("/x/*", "/x/\xFF\x00", true)

	// Regular expressions.
	f("~^/favicon\\.ico$", "/favicon.ico", true)
	f("~^/favicon\\.ico$", "/favicon.ico/heavy", false)
	f("~/favicon.ico", "/faviconxico/heavy", true) // says Loose
	f("~^/x$", "/x\n", false)                      // C033: only the very end
	f("~^/heavy/.*$", "/heavy/\n", true)           // a line feed is no way around a rule
	f("~^/heavy/.+/x$", "/heavy/a\nb/x", true)
	f("~heavy", "/a/heavyweight", true)
	f("~Heavy", "/a/Heavyweight", true)
	f("~(?m)^H", "/\nH", true)
	f("~heavy", "/a/Heavyweight", false)
	f("~*heavy", "/a/HEAVYweight", true)
	f("~*\\.(css|js)$", "/a.JS", true)
	f("~*\\.(css|js)$", "/a.js/x", false)
	f("~*/task$", "/tas\u212A", true) // (?i) k is also the Kelvin sign
	f("~*^/a.*b$", "/A\xFFB", true)
	f("~^/\uFFFD$", "/\xFF", true) // Go's engine takes a broken byte for U+FFFD
	f("~^/(a|b)?/x$", "//x", true) // only in another reading
	f("~^/[^/]+/[^/]+/(commit|blame|raw)/", "/u/r/blame/x", true)
	f("~^/[^/]+/[^/]+/(commit|blame|raw)/", "/u/r/tree/x", false)
}

func TestPathRefused(t *testing.T) {
	f := func(pattern, want string) {
		t.Helper()
		_, err := CompilePath(pattern)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("CompilePath(%q): %v; want %q in it", pattern, err, want)
		}
	}
	f("", "empty")
	f("/x$\n", `pattern "/x$\n": ends in a line break; write it on one line`)
	f("~^/x$\n", "ends in a line break")
	f("~^/x$\r\n", "ends in a line break")
	f("/a\n/b", "as a list")
	f(" /x", "white space")
	f("/x ", "white space")
	f("/x\t", "white space")
	f("/a\tb", "control byte 0x09 at position 3")
	f("/a\x00", "control byte")
	f("x", `write "/x", or for any folder "/**/x"`)
	f("*.css", `write "/**.css"`)
	f("**/info/refs", `write "/**/info/refs"`)
	f("^/x$", `write "~^/x$"`)
	f("(?i)/x", `write "~(?i)/x"`)
	f("https://example.org/x", "host =")
	f("/x?y=1", "query =")
	f("/x/***", `write "**"`)
	f("/****", `write "**"`)
	f("~", "leave the key out")
	f("~*", "leave the key out")
	f("~(", "missing closing )")
	f("~**.css", `"~*" begins`)
	f("~^/(?!public)", "not = {…}")
	f("~^/x(?<=y)", "not = {…}")
	f(`~\1`, "invalid escape sequence")
	f("/*"+strings.Repeat("a", 63)+"*", "begins with \"~\"")
}

// The longest middle part that fits the machine, and one byte more.
func TestLongestGlob(t *testing.T) {
	middle := strings.Repeat("abcdefghi/", 7)
	p, err := CompilePath("/*" + middle[:61] + "**")
	if err != nil {
		t.Fatal(err)
	}
	if !p.Match("/x"+middle[:61]+"/y/z") || p.Match("/x"+middle[:60]+"!/y/z") {
		t.Error("wrong at the edge")
	}
	if _, err := CompilePath("/*" + middle[:62] + "**"); err == nil {
		t.Error("one byte more is accepted")
	}
	if p, err := CompilePath("/" + strings.Repeat("x", 5000) + "/*"); err != nil || !p.Match("/"+strings.Repeat("x", 5000)+"/y") {
		t.Error("a long prefix does not work")
	}
}

func TestPathNever(t *testing.T) {
	f := func(pattern, want string) {
		t.Helper()
		p, err := CompilePath(pattern)
		if err != nil {
			t.Errorf("CompilePath: %v", err)
			return
		}
		if why := p.Never(); !strings.Contains(why, want) || why == "" {
			t.Errorf("%q: Never: %q; want %q in it", pattern, why, want)
		}
	}
	f("/a//b", "several slashes")
	f("//a", "several slashes")
	f("/a//", "several slashes")
	f("/**//a", "several slashes")
	f("/a/../b", "are resolved")
	f("/a/*/../b", "are resolved")
	f("/a/./b", "are resolved")
	f("/a/.", "are resolved")
	f("/..", "are resolved")
	f("/a%20b", "decoded")
	f("/**%2Fx", "decoded")
	f("/page#part", "#")
	f(`/favicon\.ico`, "regular expression")
	f("/x$", "regular expression")
	f("/(a|b)/**", "regular expression")
	f("/**.{css,js}", "list")
	f("/[a-z]*", "list")
	f("~^favicon", "begins with a slash")
	f("~^(css|js)/", "begins with a slash")
	f("~^$", "never empty")
	f("~^x$", "begins with a slash")
	f("~/a//b", "several slashes")
	f(`~/\.\./`, "are resolved")
	f("~%2e%2e", "decoded")
	f(`~^/x\?y=`, "query")
}

func TestPathNeverIsSilent(t *testing.T) {
	f := func(pattern string) {
		t.Helper()
		if p, err := CompilePath(pattern); err != nil || p.Never() != "" {
			t.Errorf("%q: %v, Never: %q", pattern, err, p.Never())
		}
	}
	f("/packages/")
	f("/**/")
	f("/a/..b/.c/d./e..")
	f("/...")
	f("/100%")
	f("/a%zz")
	f("/$x")
	f("/{id}")
	f("/_next/[...slug]-1.js")
	f("~^(/a)?$")
	f("~(^|/)x")
	f("~^.*x")
	f("~(a//b|c)")
	f("~[?#]x|y")
}

func TestPathLoose(t *testing.T) {
	f := func(pattern, want string) {
		t.Helper()
		p, err := CompilePath(pattern)
		if err != nil {
			t.Errorf("CompilePath: %v", err)
			return
		}
		if why := p.Loose(); want == "" && why != "" || !strings.Contains(why, want) {
			t.Errorf("%q: Loose: %q; want %q in it", pattern, why, want)
		}
	}
	f("/favicon.ico", "")
	f("/**.rss", "")
	f(`~^/favicon\.ico$`, "")
	f(`~^/(favicon\.ico|robots\.txt)$`, "")
	f(`~(^/a$|^/b$)`, "")
	f(`~^/favicon[.]ico$`, "")
	f(`~^/x/.*$`, "")
	f(`~^/favicon.ico`, "anywhere")
	f(`~/favicon\.ico$`, "anywhere")
	f(`~^/a|/b$`, "anywhere")
	f(`~(?m)^/a$`, "anywhere")
	f(`~^/favicon.ico$`, "dot")
	f(`~*^/(robots.txt|x)$`, "dot")
}

// oracle is a glob as a regular expression. Bytes become runes, so that those that are
// not UTF-8 are told apart.
func oracle(glob string) *regexp.Regexp {
	var b strings.Builder
	b.WriteString("(?s)^")
	for i := 0; i < len(glob); {
		switch rest := glob[i:]; {
		case strings.HasPrefix(rest, "**/") && i > 0 && glob[i-1] == '/':
			b.WriteString("(?:.*/)?")
			i += 3
		case strings.HasPrefix(rest, "**"):
			b.WriteString(".*")
			i += 2
		case rest[0] == '*':
			b.WriteString("[^/]*")
			i++
		default:
			b.WriteString(regexp.QuoteMeta(latin1(rest[:1])))
			i++
		}
	}
	b.WriteString("$")
	return regexp.MustCompile(b.String())
}

func latin1(s string) string {
	var r []rune
	for i := range len(s) {
		r = append(r, rune(s[i]))
	}
	return string(r)
}

func FuzzPath(f *testing.F) {
	for _, glob := range []string{"/", "/a/**", "/**.css", "/*/*/commit/**", "/**/a*c/**/e", "/a**b*c/", "/**/**/*", "/a/**/*/b", "/*/**/"} {
		for _, path := range []string{"/", "/a/b/c", "/x/abc/e", "/u/r/commit/x", "/a//b/", "/abc.css"} {
			f.Add(glob, path)
		}
	}
	f.Fuzz(func(t *testing.T, glob, path string) {
		p, err := CompilePath(glob)
		if err != nil || glob[0] == '~' {
			return
		}
		p.Never()
		if got, want := p.Match(path), oracle(glob).MatchString(latin1(path)); got != want {
			t.Fatalf("%q matches %q = %v, want %v", glob, path, got, want)
		}
	})
}

// The literal tests must not change what the engine says.
func FuzzRegex(f *testing.F) {
	for _, re := range []string{
		"~^/a$", "~a|b", "~^/(a|b)c?$", "~*k[s]+", "~*^/x", "~(?i:a)b$", "~^(/a|)x+y", `~\bfoo\b`, "~(?m)^a$", "~[ab]{2,3}c$", "~a*", "~\uFFFD", "~*ä", "~^$", "~(^a|b$)c",
		"~^/[^/]+/(commit|raw)/", "~*(ſ|K)", `~\x{D800}`, "~a$b", "~^a^b$", "~()", "~[^\\x00-\\x{10FFFF}]x",
	} {
		for _, s := range []string{"", "/a", "/A", "/ac", "xKS\u212Aſ", "/\xFF", "a\nb", "/u/commit/"} {
			f.Add(re, s)
		}
	}
	f.Fuzz(func(t *testing.T, re, s string) {
		if !strings.HasPrefix(re, "~") {
			return
		}
		p, err := CompilePath(re)
		if err != nil {
			return
		}
		p.Never()
		p.Loose()
		if got, want := p.Match(s), p.re.re.MatchString(s); got != want {
			t.Fatalf("%q matches %q = %v, the engine says %v (%+v)", re, s, got, want, p.re.literals)
		}
	})
}

// Texts and globs that make a backtracking matcher slow. The limit is far above what is
// needed (about 0.1 ms each) and far below what a blow-up would take.
func TestHostileTexts(t *testing.T) {
	long := 1 << 16
	texts := []string{
		"/" + strings.Repeat("a", long), "/" + strings.Repeat("a/", long/2), "/" + strings.Repeat("ab", long/2) + "c", "/" + strings.Repeat("/", long),
		strings.Repeat("/a*b", long/4), "/" + strings.Repeat("aaaaaaab", long/8),
	}
	took := func(name, text string, match func(string) bool) {
		start := time.Now()
		match(text)
		if d := time.Since(start); d > 2*time.Second {
			t.Errorf("%s on %.20q… takes %v", name, text, d)
		}
	}
	for _, text := range texts {
		for _, glob := range []string{"/**a**a**a**a**a**a**b", "/*a*a*a*a*a*a*a*a*b", "/**/a*a/**/a*a/**/b/*", "/**a*b**a*b**a*b*x", "/a**aaaaaaaaaaaa*b**c*d"} {
			p, err := CompilePath(glob)
			if err != nil {
				t.Fatal(err)
			}
			took(glob, text, p.Match)
		}
		for _, agent := range []string{"a*a*a*a*a*a*a*a*b*z", "aaaaaaaaaaaaaaaaaaaaaaaaab"} {
			p, err := CompileText(agent)
			if err != nil {
				t.Fatal(err)
			}
			took(agent, text, p.Match)
		}
		for _, param := range []string{"/=*a*a*a*a*a*a*a*b", "x=*aaaaaaaaaaaaaaaab*c"} {
			q, err := CompileQueries([]string{param})
			if err != nil {
				t.Fatal(err)
			}
			took(param, text[:1]+"="+text, q.Match)
			took(param, "x="+text, q.Match)
			took(param, strings.ReplaceAll(text, "a", "&x=a"), q.Match)
		}
		for _, re := range []string{"~(a*)*b", "~^/(a|aa)+$", "~(.*)(.*)(.*)(.*)x$"} {
			p, err := CompilePath(re)
			if err != nil {
				t.Fatal(err)
			}
			took(re, text[:1<<13], p.Match)
		}
	}
}

var benchPaths = []struct{ name, pattern, path string }{
	{"prefix-miss", "/packages/**", "/users/anna/projects/index.html"},
	{"prefix-hit", "/packages/**", "/packages/halogen/2.1.0/docs/index.html"},
	{"suffix-miss", "/**.css", "/packages/halogen/2.1.0/docs/index.html"},
	{"exact-miss", "/favicon.ico", "/packages/halogen/2.1.0/docs/index.html"},
	{"segments-miss", "/*/*/commit/**", "/packages/halogen/2.1.0/docs/index.html"},
	{"segments-hit", "/*/*/commit/**", "/anna/halogen/commit/0123456789abcdef0123456789abcdef01234567"},
	{"machine-full", "/**/a*c/**/e", "/packages/halogen/abc/docs/index.html/e"},
	{"regex-prefix-miss", "~^/packages/[0-9]+", "/users/anna/projects/index.html"},
	{"regex-set-miss", "~^/[^/]+/[^/]+/(commit|blame|raw)/", "/packages/halogen/2.1.0/docs/index.html"},
	{"regex-decided", `~\.(css|js|png)$`, "/packages/halogen/2.1.0/docs/style.css"},
	{"regex-fold-miss", `~*\.(css|js|png)$`, "/packages/halogen/2.1.0/docs/index.html"},
	{"regex-engine", "~^/[^/]+/[^/]+/(commit|blame|raw)/", "/anna/halogen/commit/0123456789abcdef"},
}

// BenchmarkHostile is the dearest that a client can make of 8 KiB, which is what nginx
// lets through.
func BenchmarkHostile(b *testing.B) {
	f := func(name, text string, match func(string) bool, err error) {
		b.Run(name, func(b *testing.B) {
			if err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				match(text)
			}
		})
	}
	as := "/" + strings.Repeat("a", 8<<10)
	p, err := CompilePath("/**a**a*a**a*aa*")
	f("glob", as+"/aa", p.Match, err)
	t, err := CompileText("aaaaaaaaaab")
	f("text", as, t.Match, err)
	q, err := CompileQueries([]string{"a=*aaaaaaaaaab*"})
	f("query", "a="+as, q.Match, err)
	r, err := CompilePath("~^/(a|aa)+b*$")
	f("regex", as+"/", r.Match, err)
}

func BenchmarkPath(b *testing.B) {
	for _, c := range benchPaths {
		b.Run(c.name, func(b *testing.B) {
			p, err := CompilePath(c.pattern)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				p.Match(c.path)
			}
		})
	}
}
