package config

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "write the golden files anew")

// Each broken file stands beside the text that `stile check` prints for it. Read a
// changed one as somebody would who was woken by it: does it say what to write?
func TestBrokenFiles(t *testing.T) {
	files, err := filepath.Glob("testdata/broken/*.toml")
	if err != nil || len(files) < 20 {
		t.Fatalf("%d files: %v", len(files), err)
	}
	for _, file := range files {
		name := filepath.Base(file)
		t.Run(name, func(t *testing.T) {
			t.Chdir("testdata/broken")
			c, err := Load(name)
			if err == nil {
				t.Fatalf("no mistake found: %+v", c)
			}
			positions(t, err)
			golden := strings.TrimSuffix(name, ".toml") + ".txt"
			if *update {
				if err := os.WriteFile(golden, []byte(err.Error()+"\n"), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, readErr := os.ReadFile(golden)
			if readErr != nil {
				t.Fatal(readErr)
			}
			if got := err.Error() + "\n"; got != string(want) {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

// positions checks that an error is a list of mistakes, each with a file and a line.
func positions(t *testing.T, err error) {
	t.Helper()
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		t.Fatalf("%T is no list of mistakes: %v", err, err)
	}
	for _, e := range joined.Unwrap() {
		var m *Mistake
		if !errors.As(e, &m) || m.Pos.Line < 1 {
			t.Errorf("no position: %v", e)
		} else if strings.ContainsAny(e.Error(), "\n\r") {
			t.Errorf("more than a line: %q", e)
		}
	}
}

func TestDefaults(t *testing.T) {
	c, err := Load("")
	if err != nil {
		t.Fatal(err)
	}
	if c.Mode != Enforce || c.Listen.Check != "unix:/run/stile/stile.sock" || c.Listen.Lease != "unix:/run/stile/lease.sock" || c.Listen.Admin+c.Listen.Group != "127.0.0.1:9406" || c.Key.File != "/var/lib/stile/key" ||
		c.Pass.Cookie != "stile" || c.Pass.Lifetime != 24*time.Hour || c.Pass.Bind != Roam || c.Pass.PerNetworkDay != 1000 ||
		c.State.Dir != "/var/lib/stile" || c.State.Keys != 65536 || c.Challenge.Kind != "pow" || c.Challenge.Status != 503 ||
		c.Challenge.Target != time.Second || c.Challenge.Title+c.Challenge.Logo+c.Challenge.Contact != "" {
		t.Errorf("%+v", c)
	}
	if len(c.Files) != 1 || c.Files[0] != "preset:generic" {
		t.Errorf("files %q", c.Files)
	}
}
