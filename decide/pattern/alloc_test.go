//go:build !race

package pattern

import "testing"

func TestMatchDoesNotAllocate(t *testing.T) {
	none := func(name string, err error, match func(string) bool, texts ...string) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range texts {
			if n := testing.AllocsPerRun(100, func() { match(s) }); n != 0 {
				t.Errorf("%s on %q: %v allocations", name, s, n)
			}
		}
	}
	for _, c := range benchPaths {
		p, err := CompilePath(c.pattern)
		none(c.pattern, err, p.Match, c.path)
	}
	for _, pattern := range []string{"GPTBot", "Mozilla*Chrome", "~*(gptbot|claudebot)", "~[0-9]{3}x"} {
		p, err := CompileText(pattern)
		none(pattern, err, p.Match, chrome, firefox, "")
	}
	for _, pattern := range []string{"example.org", "*.example.org", `~^www\.`} {
		p, err := CompileHost(pattern)
		none(pattern, err, p.Match, "www.Example.org:80", "[::1]:80", "")
	}
	for _, pattern := range []string{"a", "a=*b*", "~a=[0-9]"} {
		p, err := CompileQueries([]string{pattern})
		none(pattern, err, p.Match, "x=%20+&a=xb;c", "")
	}
}
