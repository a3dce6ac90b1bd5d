package config

import (
	"os"
	"path/filepath"
	"testing"
)

// seeds are the texts that fuzzing begins with: the example, presets, broken files.
func seeds(t testing.TB) (texts []string) {
	files, err := filepath.Glob("testdata/broken/*.toml")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, string(b))
	}
	for _, name := range Presets() {
		p, _ := Preset(name)
		texts = append(texts, p)
	}
	return append(texts, Example(), "", "\ufeffmode = \"observe\"", "a.b.c = 1\r\n[x.\"y z\"]\r\n'q' = '''\r\n'''")
}
