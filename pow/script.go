package pow

import (
	"bytes"
	_ "embed"
	"encoding/base64"
)

var (
	//go:embed browser/solver.js
	solver []byte

	//go:embed browser/sha256.wasm
	sha256wasm []byte
)

// Script is the browser's solver, with its WebAssembly in it and without its comments,
// but for the two lines by which LibreJS knows its licence. The same file is for the page and for its workers; what else is put into
// it must do nothing in a worker (where there is no document).
func Script() []byte {
	var out []byte
	for line := range bytes.Lines(solver) {
		line = bytes.TrimSpace(line)
		if !bytes.HasPrefix(line, []byte("// @license")) {
			line, _, _ = bytes.Cut(line, []byte("// "))
			line = bytes.TrimSpace(bytes.TrimSuffix(line, []byte("//")))
		}
		if len(line) > 0 {
			out = append(append(out, line...), '\n')
		}
	}
	code := base64.StdEncoding.AppendEncode(nil, sha256wasm)
	return bytes.Replace(out, []byte("SHA256_WASM"), code, 1)
}
