package pow

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// need finds a program. Where it is missing, CI fails and a laptop skips.
func need(t testing.TB, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err == nil {
		return path
	}
	if os.Getenv("CI") == "true" {
		t.Fatalf("%s is missing, and CI must have it: ./deploy.sh test installs what the tests need", name)
	}
	t.Skipf("%s is not installed", name)
	return ""
}

func run(t testing.TB, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir = "browser"
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// The committed WebAssembly is what its source says: built again it is the same,
// byte for byte.
func TestWasmIsItsSource(t *testing.T) {
	need(t, "clang-14")
	need(t, "wasm-ld-14")
	out := filepath.Join(t.TempDir(), "sha256.wasm")
	run(t, "./build.sh", out)
	built, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(built, sha256wasm) {
		t.Errorf("pow/browser/sha256.wasm (%d bytes) is not what pow/browser/build.sh makes (%d bytes): run it and commit the result", len(sha256wasm), len(built))
	}
}

func TestScript(t *testing.T) {
	script := string(Script())
	if strings.Contains(script, "SHA256_WASM") || strings.Count(script, base64.StdEncoding.EncodeToString(sha256wasm)) != 1 {
		t.Error("the WebAssembly is not in the script")
	}
	const licence = "// @license magnet:?xt=urn:btih:d3d9a9a6595521f9666a5e94cc830dab83b65699&dn=expat.txt Expat\n"
	if !strings.HasPrefix(script, licence) || !strings.HasSuffix(script, "\n// @license-end\n") {
		t.Error("the licence markers are not first and last")
	}
	if n := strings.Count(script, "//"); n != 2 {
		for line := range strings.Lines(script) {
			if strings.Contains(line, "//") {
				t.Logf("%.100q", line)
			}
		}
		t.Errorf("%d comments are served, want the two markers", n)
	}
	for _, trap := range []string{"`", "://", "'//", "/*"} {
		if strings.Contains(string(solver), trap) {
			t.Errorf("solver.js has a %s in it, and Script, which drops comments, does not know strings", trap)
		}
	}

	// The page and its one script have 14 KB together; this is the solver's share.
	var zipped bytes.Buffer
	w, _ := gzip.NewWriterLevel(&zipped, gzip.BestCompression)
	w.Write(Script())
	w.Close()
	if zipped.Len() > 6<<10 {
		t.Errorf("the script is %d bytes compressed, want at most 6 KB", zipped.Len())
	}
	t.Logf("%d bytes, %d compressed", len(script), zipped.Len())

	// Older Chromium compiles no more than this on a page's own thread.
	if len(sha256wasm) > 4096 {
		t.Errorf("sha256.wasm has %d bytes, want at most 4096", len(sha256wasm))
	}
}

// The browser's code by itself, in node: vectors, workers that fail, odd clocks.
func TestSolverInNode(t *testing.T) {
	out := run(t, need(t, "node"), "--expose-internals", "solver_test.mjs")
	if strings.Contains(out, "# SKIP") {
		t.Log(out)
	}
}

// What Go issues and serves, node solves, and Go verifies.
func TestNodeSolvesGoVerifies(t *testing.T) {
	node := need(t, "node")
	script := filepath.Join(t.TempDir(), "stile.js")
	if err := os.WriteFile(script, Script(), 0o644); err != nil {
		t.Fatal(err)
	}
	i := testIssuer(t)
	c := testChallenge(testNow)
	token := i.Append(nil, &c)
	options, err := json.Marshal(map[string]any{"algorithm": c.Algorithm, "token": string(token), "bits": c.Bits, "parts": 64})
	if err != nil {
		t.Fatal(err)
	}
	out := run(t, node, "-e", `require(process.argv[1]);
		const options = JSON.parse(process.argv[2]);
		(async () => {
			const first = await stile.solve({...options, parts: 32});
			const more = await stile.solve({...options, from: 32});
			console.log(Buffer.concat([first, more]).toString('base64url'));
		})();`, script, string(options))

	solution, err := AppendSolution(nil, []byte(strings.TrimSpace(out)))
	if err != nil {
		t.Fatalf("%q: %v", out, err)
	}
	var seed [32]byte
	if err := i.Parse(token, testNow+300, &c, &seed); err != nil {
		t.Fatal(err)
	}
	if err := Verify(&c, &seed, 64, solution); err != nil {
		t.Error(err)
	}
	if err := Verify(&c, &seed, 65, solution); err != ErrCount {
		t.Error(err)
	}
}
