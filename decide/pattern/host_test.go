package pattern

import (
	"strings"
	"testing"
)

func TestHost(t *testing.T) {
	f := func(pattern, host string, want bool) {
		t.Helper()
		p, err := CompileHost(pattern)
		if err != nil {
			t.Errorf("CompileHost: %v", err)
			return
		}
		if got := p.Match(host); got != want {
			t.Errorf("%q matches %q = %v, want %v", pattern, host, got, want)
		}
	}
	f("example.org", "example.org", true)
	f("Example.ORG", "eXample.org:8443", true)
	f("example.org", "example.org.", true)
	f("example.org", "www.example.org", false)
	f("example.org", "example.org.evil.test", false)
	f("example.org", "", false)
	f("*.example.org", "www.example.org", true)
	f("*.example.org", "a.b.Example.org:80", true)
	f("*.example.org", "example.org", false)
	f("*.example.org", ".example.org", false)
	f("*.example.org", "evilexample.org", false)
	f("192.0.2.1", "192.0.2.1:80", true)
	f("[2001:db8::1]", "[2001:DB8::1]:80", true)
	f("[2001:db8::1]", "[2001:db8::1]", true)
	f("[2001:db8::1]", "[2001:db8::2]", false)
	f("my_host-1", "my_host-1", true)
	f(`~^(www|git)\.example\.org$`, "GIT.example.org:443", true)
	f(`~^(www|git)\.example\.org$`, "x.example.org", false)
}

func TestHostRefused(t *testing.T) {
	f := func(pattern, want string) {
		t.Helper()
		if _, err := CompileHost(pattern); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("CompileHost(%q): %v; want %q in it", pattern, err, want)
		}
	}
	f("", "empty")
	f("*", "leave the key out")
	f("*example.org", "whole labels")
	f("www.*", "only at the front")
	f("*.*.org", "only at the front")
	f(".example.org", `["example.org", "*.example.org"]`)
	f("https://example.org", "no scheme")
	f("example.org/x", "no path")
	f("example.org:80", `write "example.org"`)
	f("example.org.", "take it away")
	f("bücher.example", "xn--")
	f("a b", "cannot be in a host")
	f("2001:db8::1", "port") // colons without brackets
	f("a..b", "not a host")
	f("*.", "a dot at the end")
	f("~(", "missing closing )")
}

func FuzzHost(f *testing.F) {
	f.Add("*.example.org", "a.example.org:80")
	f.Add("[::1]", "[::1]:80")
	f.Add("", ":.")
	f.Fuzz(func(t *testing.T, pattern, host string) {
		p, err := CompileHost(pattern)
		if err != nil {
			if p.Match(host) {
				t.Fatalf("%q was refused and matches %q", pattern, host)
			}
			return
		}
		p.Match(host)
		if pattern[0] != '~' && pattern[0] != '*' && (!p.Match(strings.ToUpper(pattern)) || !p.Match(pattern+":80")) {
			t.Fatalf("%q does not match itself", pattern)
		}
	})
}
