package pattern

import (
	"strings"
	"testing"
)

const firefox = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"
const chrome = "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/139.0.0.0 Safari/537.36"

func TestText(t *testing.T) {
	f := func(pattern, s string, want bool) {
		t.Helper()
		p, err := CompileText(pattern)
		if err != nil {
			t.Errorf("CompileText: %v", err)
			return
		}
		if got := p.Match(s); got != want {
			t.Errorf("%q matches %q = %v, want %v", pattern, s, got, want)
		}
	}
	f("GPTBot", "Mozilla/5.0; compatible; gptbot/1.1", true)
	f("gptbot", "GPTBOT", true)
	f("GPTBot", chrome, false)
	f("bot", "", false)
	f("git/", "git/2.39.5", true)
	f("git/", "JGit/6.1", true)
	f("~^git/", "JGit/6.1", false)
	f("~^git/", "git/2.39.5", true)
	f("~*^GIT/", "git/2.39.5", true)
	f("~^$", "", true)
	f("~^$", "x", false)
	f("~.", "x", true)
	f("~.", "", false)
	f("Mozilla*Firefox", firefox, true)
	f("Firefox*Mozilla", firefox, false)
	f("mozilla*gecko*firefox/140", firefox, true)
	f("aa*aa", "aaa", false) // pieces do not share bytes
	f("aa*aa", "aaaa", true)
	f("*bot*", "Robots", true)
	f("a**b", "axb", true)
	f("(KHTML, like Gecko)", chrome, true)
	f("text/html", "text/plain, TEXT/HTML;q=0.9", true)
	f("ä", "xäx", true)
	f("ä", "xÄx", false) // ASCII case only
	f("\xFF", "a\xFFb", true)
	f("k", "\u212A", false)
	f("~*k", "\u212A", true)
	f("^x$", "a^X$b", true) // no regular expression without "~"
}

func TestTextRefused(t *testing.T) {
	f := func(pattern, want string) {
		t.Helper()
		if _, err := CompileText(pattern); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("CompileText(%q): %v; want %q in it", pattern, err, want)
		}
	}
	f("", `to match an absent header write "~^$"`)
	f("*", `write "~."`)
	f("***", `write "~."`)
	f("bot\n", "ends in a line break")
	f(" bot", "white space")
	f("~", "leave the key out")
	f("~[", "missing closing ]")
}

func FuzzText(f *testing.F) {
	for _, c := range [][2]string{{"GPTBot", firefox}, {"Mozilla*Firefox", firefox}, {"aa*aa", "aaa"}, {"*", ""}, {"k*K", "kK"}, {"\xff", "\xff\xFF"}, {"@[`{", "@[`{"}} {
		f.Add(c[0], c[1])
	}
	f.Fuzz(func(t *testing.T, pattern, s string) {
		p, err := CompileText(pattern)
		if err != nil || pattern[0] == '~' {
			return
		}
		want, rest := true, lower(s)
		for _, piece := range strings.Split(lower(pattern), "*") {
			i := strings.Index(rest, piece)
			if i < 0 {
				want = false
				break
			}
			rest = rest[i+len(piece):]
		}
		if got := p.Match(s); got != want {
			t.Fatalf("%q matches %q = %v, want %v", pattern, s, got, want)
		}
	})
}

func BenchmarkText(b *testing.B) {
	f := func(name, pattern, s string) {
		b.Run(name, func(b *testing.B) {
			p, err := CompileText(pattern)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				p.Match(s)
			}
		})
	}
	f("miss", "GPTBot", chrome)
	f("miss-common", "scanner", chrome)
	f("hit", "Safari", chrome)
	f("pieces", "Mozilla*Chrome*Safari", chrome)
	f("regex-miss", "~^git/", chrome)
	f("regex-fold-miss", "~*(gptbot|claudebot|bytespider|amazonbot)", chrome)
	b.Run("miss-folding-each-byte", func(b *testing.B) { // what needle is measured against
		for b.Loop() {
			for i := 0; i+6 <= len(chrome); i++ {
				if sameFold(chrome[i:i+6], "gptbot") {
					b.Fatal()
				}
			}
		}
	})
}
