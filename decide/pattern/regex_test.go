package pattern

import "testing"

// An expression does not run where its literals decide: here there is no engine to run.
func TestLiteralsDecideWithoutTheEngine(t *testing.T) {
	f := func(text, s string, want bool) {
		t.Helper()
		x, err := compileRegex(text, false)
		if err != nil {
			t.Fatal(err)
		}
		x.re = nil
		defer func() {
			if recover() != nil {
				t.Errorf("%q runs for %q", text, s)
			}
		}()
		if got := x.match(s); got != want {
			t.Errorf("%q matches %q: %v, want %v", text, s, got, want)
		}
	}
	f(`~\.(css|js|png)$`, "/style.css", true)
	f(`~\.(css|js|png)$`, "/style.cs", false)
	f(`~/(?:raw|media)/(?:branch|tag)/`, "/o/r/media/tag/v1", true)
	f(`~/(?:raw|media)/(?:branch|tag)/`, "/o/r/issues/7", false)
	f(`~^/robots\.txt$`, "/robots.txt", true)
	f(`~^/robots\.txt$`, "/robots.txt/x", false)
	f(`~*^bearer .`, "Basic eDp5", false)
	f(`~^/api/v1/repos/[^/]+/[^/]+/(?:commits|contents)(?:/.*)?$`, "/o/r/commits", false) // a head decides the miss
	f(`~^service=git-(?:upload|receive)-pack$`, "service=git-receive-pack", true)
	f(`~/objects/[0-9a-f][0-9a-f]/[0-9a-f]+$`, "/o/r/src/branch/main", false)
}
