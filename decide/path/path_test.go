package path

import (
	"slices"
	"strings"
	"testing"
)

func TestPathAndQuery(t *testing.T) {
	f := func(target, path, query string) {
		t.Helper()
		var r Readings
		if err := r.Parse(target); err != nil || r.Path != path || r.Query != query {
			t.Errorf("Parse(%q) = %q ? %q, %v; want %q ? %q", target, r.Path, r.Query, err, path, query)
		}
	}
	f("/", "/", "")
	f("/a/b.css", "/a/b.css", "")
	f("/a?b=c", "/a", "b=c")
	f("/a?", "/a", "")
	f("/a?b?c", "/a", "b?c")
	f("/a?b%20c=%zz/../d", "/a", "b%20c=%zz/../d")
	f("/a#b", "/a", "")
	f("/a#b?c", "/a", "")
	f("/a?b#c", "/a", "b")
	f("/a%23b%3Fc%25d", "/a#b?c%d", "")
}

func TestRefused(t *testing.T) {
	f := func(target string) {
		t.Helper()
		r := Readings{Path: "old", Query: "old", Alt: []string{"old"}}
		if err := r.Parse(target); err == nil || r.Path != "" || r.Query != "" || r.Alt != nil {
			t.Errorf("Parse(%q) = %q ? %q %q, %v; want an error", target, r.Path, r.Query, r.Alt, err)
		}
	}
	f("")
	f("*")
	f("a")
	f("//../")
	f("/..")
	f("/a/../..")
	f("/%2e%2E")
	f("/a%")
	f("/a%2")
	f("/a%2g")
	f("/%g2")
	f("/a%00")
	f("/a b")
	f("/a?b c")
	f("/a#b c")
	f("/a\x00")
	f("/a\x7f")
	f("/a\r\n")
	f("/a?b\n")
	f("http:/x")
	f("http://h#x")
	f("http://a@h/")
	f("http://[::1/x")
	f("http://[/x]/x")
	f("1http://h/x")
	f("://h/x")
	f("http://h:80a/x")
}

// What nginx routes by, for the tricks of DESIGN N7 and CASES C025 to C030.
func TestTricks(t *testing.T) {
	f := func(target, path string, alt ...string) {
		t.Helper()
		var r Readings
		if err := r.Parse(target); err != nil || r.Path != path {
			t.Errorf("Parse(%q) = %q, %v; want %q", target, r.Path, err, path)
		}
		if !slices.Equal(r.Alt, alt) {
			t.Errorf("Parse(%q).Alt = %q; want %q", target, r.Alt, alt)
		}
	}
	// Encoded letters: one class with the plain spelling, and no second reading.
	f("/%68eavy/x", "/heavy/x")
	f("/repo/%63ommit/abc", "/repo/commit/abc")
	f("/phpinfo%2Ephp", "/phpinfo.php")
	f("/k%C3%A4se%ff", "/k\xC3\xA4se\xFF")
	f("/a%0d%0aX-Evil:%201", "/a\r\nX-Evil: 1")

	// Encoded separators: an exemption must hold for both readings.
	f("/heavy%2Fx", "/heavy/x", "/heavy%2Fx")
	f("/feed%2f..%2fheavy/x", "/heavy/x", "/feed%2F..%2Fheavy/x", "/feed/../heavy/x")
	f("/.well-known%2f..%2fheavy", "/heavy", "/.well-known%2F..%2Fheavy", "/.well-known/../heavy")
	f("/static%5c..%5Cheavy", `/static\..\heavy`, "/static%5C..%5Cheavy", "/heavy")
	f(`/static\..\heavy`, `/static\..\heavy`, "/heavy")
	f(`/heavy\..;/../static`, "/static", `/heavy\..;/../static`, "/heavy/static")

	// Dot segments: judged as what they lead to. That a router without dot segments
	// sees them is one more reading.
	f("/.well-known/../heavy", "/heavy", "/.well-known/../heavy")
	f("/static/%2e%2e/heavy", "/heavy", "/static/../heavy")
	f("/feed/./../heavy", "/heavy", "/feed/./../heavy")
	f("/static/..;/heavy", "/static/..;/heavy", "/heavy")
	f("/static/..;jsessionid=1/heavy?x", "/static/..;jsessionid=1/heavy", "/heavy")
	f("/static/%2e%2e%3b/heavy", "/static/..;/heavy", "/heavy")
	f("/heavy;x=.css", "/heavy;x=.css", "/heavy")
	f("/heavy/;/x", "/heavy/;/x", "/heavy/x", "/heavy//x")
	f("/a/..", "/", "/a/..")
	f("/a/.", "/a/", "/a/.")
	f("/a/b/../", "/a/", "/a/b/../")
	f("/.", "/", "/.")
	f("/...", "/...")
	f("/a/..b/.c/d./e..", "/a/..b/.c/d./e..")
	f("/.well-known/security.txt", "/.well-known/security.txt")

	// Double slashes.
	f("//heavy//x", "/heavy/x", "//heavy//x")
	f("//", "/", "//")
	f("/heavy//../static", "/static", "/heavy/static", "/heavy//../static")
	f("//a/./b/%2e%2e/c", "/a/c", "//a/c", "//a/./b/../c")

	// Encoded twice.
	f("/static/%252e%252e/heavy", "/static/%2e%2e/heavy", "/heavy")
	f("/static%252f..%252fheavy", "/static%2f..%2fheavy", "/heavy")
	f("/static%255c..%255cheavy", `/static%5c..%5cheavy`, "/heavy")
	f("/%2525", "/%25", "/%")
	f("/100%25", "/100%")

	// Dots and slashes in more bytes than they need, and wide ones.
	f("/a/%c0%ae%c0%ae/b", "/a/\xC0\xAE\xC0\xAE/b", "/b")
	f("/a/\xC0\xAE\xC0\xAE\xC0\xAFb", "/a/\xC0\xAE\xC0\xAE\xC0\xAFb", "/b")
	f("/a/%e0%80%ae%e0%80%ae%e0%80%afb", "/a/\xE0\x80\xAE\xE0\x80\xAE\xE0\x80\xAFb", "/b")
	f("/a/%f0%80%80%ae%f0%80%80%ae/b", "/a/\xF0\x80\x80\xAE\xF0\x80\x80\xAE/b", "/b")
	f("/a/%ef%bc%8e%ef%bc%8e%ef%bc%8fb", "/a/．．／b", "/b")
	f("/a/..%e2%88%95b", "/a/..∕b", "/b")
	f("/a/..%e2%88%96b", "/a/..∖b", "/b")
	f("/a/..%c1%9cb", "/a/..\xC1\x9Cb", "/b")
	f("/%ef%bd%93rc", "/ｓrc", "/src")
	f("/a/%c0", "/a/\xC0")
	f("/a/%c0/%e0%80/%ef%bc", "/a/\xC0/\xE0\x80/\xEF\xBC")
	f("/%e2%82%ac%e0%a4%95%ef%bc%80", "/€क\uFF00")

	// Above the root nginx answers 400, others stay there.
	f("/a/..;/..;/..;/heavy", "/a/..;/..;/..;/heavy", "/heavy")
	f("/;", "/;", "/")

	// A URL.
	f("http://h", "/")
	f("http://h?x", "/")
	f("?x", "/")
	f("HTTPS://h.example:443/a//b", "/a/b", "/a//b")
	f("http://[::1]:80/a", "/a")
	f("coap+ws-1.0://h/a", "/a")
}

// An ordinary target's strings lie in the target: nothing is copied.
func TestOneReadingsServesManyTargets(t *testing.T) {
	var r Readings
	long := "/" + strings.Repeat("a%2f..;x//%25", 1000)
	for range 3 {
		if err := r.Parse(long); err != nil || len(r.Alt) == 0 {
			t.Fatalf("long: %v, %d other readings", err, len(r.Alt))
		}
		if err := r.Parse("/x%41"); err != nil || r.Path != "/xA" || r.Alt != nil {
			t.Fatalf("after a long target: %q %q %v", r.Path, r.Alt, err)
		}
		if err := r.Parse("/%zz"); err == nil {
			t.Fatal("no error")
		}
		if err := r.Parse("/y?q"); err != nil || r.Path != "/y" || r.Query != "q" || r.Alt != nil {
			t.Fatalf("after an error: %q %q %q %v", r.Path, r.Query, r.Alt, err)
		}
	}
}

var benchTargets = map[string]string{
	"plain":   "/packages/halogen/2.1.0/docs/index.html",
	"query":   "/packages/search?q=halogen&page=2&sort=updated",
	"encoded": "/wiki/Stra%C3%9Fe%20nach%20Rom/Versionen?x=1",
	"dots":    "/.well-known/../packages//halogen/./docs",
	"hostile": `/a%2fb//..;x/%255c..\c/./d%252e`,
}

func BenchmarkParse(b *testing.B) {
	for _, name := range []string{"plain", "query", "encoded", "dots", "hostile"} {
		b.Run(name, func(b *testing.B) {
			var r Readings
			target := benchTargets[name]
			b.ReportAllocs()
			for b.Loop() {
				if err := r.Parse(target); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
