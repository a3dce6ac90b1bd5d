package main

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// allowed is which packages of ours each package may import: one way only, so that the
// decision can be read, tested and replayed without a server.
var allowed = map[string][]string{
	".":                      {"config", "cookie", "crawler", "decide", "geo", "key", "nginx", "nginx/lint", "replay", "server", "systemd"},
	"budget":                 {},
	"budget/costkey":         {"config", "decide"},
	"botauth":                {"network"},
	"bench/check":            {"bench/child", "config", "cookie", "key", "nginx", "server"},
	"bench/gate":             {"bench/child", "cookie", "key", "nginx"},
	"bench/child":            {},
	"bench/memory":           {"bench/child"},
	"bench/replay":           {"replay/replaytest"},
	"config":                 {"botauth", "crawler", "decide/pattern", "geo", "network"},
	"cookie":                 {"key", "network"},
	"crawler":                {"network"},
	"crawler/dnstest":        {},
	"decide":                 {"config", "crawler", "decide/meter", "decide/path", "decide/pattern", "geo", "network"},
	"decide/internal/bucket": {},
	"decide/meter":           {"decide/internal/bucket"},
	"decide/mint":            {"decide/internal/bucket", "decide/meter", "network"},
	"decide/path":            {},
	"decide/pattern":         {},
	"geo":                    {},
	"geo/geotest":            {},
	"internal/chromium":      {},
	"key":                    {},
	"network":                {},
	"nginx":                  {},
	"nginx/lint":             {"config", "decide/pattern", "nginx"},
	"nginx/nginxtest":        {"nginx"},
	"pow":                    {"key", "network"},
	"replay":                 {"budget", "budget/costkey", "config", "crawler", "decide", "decide/path", "geo", "network"},
	"replay/replaytest":      {},
	"server":                 {"botauth", "budget", "budget/costkey", "config", "cookie", "crawler", "decide", "decide/mint", "decide/path", "geo", "key", "network", "pow", "server/page", "systemd"},
	"server/page":            {"pow"},
	"systemd":                {},
	"vm/client":              {},
}

// TestImports holds the house's order of packages.
func TestImports(t *testing.T) {
	err := filepath.WalkDir(".", func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && file != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata") {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") {
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		dir := filepath.ToSlash(filepath.Dir(file))
		may, known := allowed[dir]
		if !known {
			t.Errorf("%s: package %s has no place in the order of packages", file, dir)
			return nil
		}
		for _, spec := range f.Imports {
			name, _ := strconv.Unquote(spec.Path.Value)
			if ours, ok := strings.CutPrefix(name, "stile/"); ok && !contains(may, ours) {
				t.Errorf("%s imports %s", file, name)
			}
			if strings.Contains(name, "fasthttp") && dir != "server" && !strings.HasPrefix(dir, "bench/") {
				t.Errorf("%s imports %s: bytes borrowed from it go no deeper than server", file, name)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func contains(list []string, s string) bool {
	for _, x := range list {
		if x == s {
			return true
		}
	}
	return false
}

// TestUnsafeLivesInOnePlace: what borrows memory says for how long.
func TestUnsafeLivesInOnePlace(t *testing.T) {
	err := filepath.WalkDir(".", func(file string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(file, ".go") {
			return err
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, spec := range f.Imports {
			if spec.Path.Value == `"unsafe"` && file != "server/borrow.go" && file != "decide/path/lend.go" && !strings.HasSuffix(file, "_test.go") {
				t.Errorf("%s imports unsafe", file)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
