package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

func TestLocate(t *testing.T) {
	text := `# a comment with [brackets] and "quotes"
mode = "a"   # line 2
dotted.key = 1
"quoted \u0065" = 2
list = [
  "x", # a ] in a comment
  'y]',

  ["z"],
]
long = """
[[no]] "" \""" table
""""
raw = '''
''end'''
after = 3 # line 17
inline = { a = 1, b = { c = [
  "d",
] }, "e.f" = 5 }

[pass]
cookie = "x"

[[rule]]
name = "one"
[rule.not]
path = "/a"
[[rule]]
name = "two"
header.Accept = "b"
[ "odd name" . x ]
date = 1979-05-27 07:32:00 # a date with a blank
`
	root, deep := locate(text)
	if deep {
		t.Fatal("deep")
	}
	want := map[string]int{
		"mode": 2, "dotted": 3, "dotted.key": 3, "quoted e": 4, "list": 5, "list[0]": 6, "list[1]": 7, "list[2]": 9, "list[2][0]": 9,
		"long": 11, "raw": 14, "after": 16, "inline": 17, "inline.a": 17, "inline.b": 17, "inline.b.c": 17, "inline.b.c[0]": 18, "inline.e.f": 19,
		"pass": 21, "pass.cookie": 22, "rule": 24, "rule[0]": 24, "rule[0].name": 25, "rule[0].not": 26, "rule[0].not.path": 27,
		"rule[1]": 28, "rule[1].name": 29, "rule[1].header": 30, "rule[1].header.Accept": 30, "odd name": 31, "odd name.x": 31, "odd name.x.date": 32,
	}
	got := map[string]int{}
	walk(root, "", func(path string, n *node) { got[path] = n.line })
	for _, k := range slices.Sorted(maps.Keys(want)) {
		if got[k] != want[k] {
			t.Errorf("%s: line %d, want %d", k, got[k], want[k])
		}
	}
	for k := range got {
		if want[k] == 0 {
			t.Errorf("%s: found at line %d, not there", k, got[k])
		}
	}
	for key, text := range map[string]string{"mode": `"a"`, "after": "3", "list": "[\n  \"x\"", "raw": "'''\n''end'''", "inline": "{ a = 1"} {
		if n := root.at(key); !strings.HasPrefix(n.text, text) {
			t.Errorf("%s: text %q, want %q", key, n.text, text)
		}
	}
	if n := root.keys["odd name"].at("x").at("date"); n.text != "1979-05-27 07:32:00" {
		t.Errorf("date: text %q", n.text)
	}
}

func walk(n *node, path string, visit func(string, *node)) {
	if path != "" {
		visit(path, n)
	}
	for k, c := range n.keys {
		walk(c, strings.TrimPrefix(path+"."+k, "."), visit)
	}
	for i, c := range n.list {
		walk(c, fmt.Sprintf("%s[%d]", path, i), visit)
	}
}

func TestLocateDepth(t *testing.T) {
	for _, open := range []string{"[", "{a="} {
		if _, deep := locate("a = " + strings.Repeat(open, maxDepth)); deep {
			t.Errorf("%d %s: deep", maxDepth, open)
		}
		if _, deep := locate("a = " + strings.Repeat(open, 1<<20)); !deep {
			t.Errorf("%d %s: not deep", 1<<20, open)
		}
	}
}

// Whatever the library accepts, every key and element has a place, and the line holds it.
func FuzzLocate(f *testing.F) {
	for _, s := range seeds(f) {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		root, deep := locate(text)
		if deep || strings.Contains(text, "\xff\xfe") || strings.Contains(text, "\xfe\xff") {
			return
		}
		keys, err := decodeTOML(text)
		if err != nil {
			return
		}
		lines := strings.Count(text, "\n") + 1
		var compare func(path string, v any, n *node)
		compare = func(path string, v any, n *node) {
			if n.line < 1 || n.line > lines {
				t.Fatalf("%s: line %d of %d", path, n.line, lines)
			}
			list := func(length int, at func(int) any) {
				if len(n.list) != length {
					t.Fatalf("%s: %d elements found, want %d", path, len(n.list), length)
				}
				for i := range length {
					compare(fmt.Sprintf("%s[%d]", path, i), at(i), n.list[i])
				}
			}
			switch v := v.(type) {
			case map[string]any:
				for k := range v {
					if n.keys[k] == nil {
						t.Fatalf("%s.%q: not found", path, k)
					}
					compare(path+"."+k, v[k], n.keys[k])
				}
			case []map[string]any:
				list(len(v), func(i int) any { return v[i] })
			case []any:
				list(len(v), func(i int) any { return v[i] })
			}
		}
		compare("", keys, root)
	})
}
