package install

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// releases makes, once, what a release could be: in a directory of its own, beside a SHA256SUMS of all of it.
//
//	stile      as deploy.sh builds it
//	newer      the same version in other bytes
//	arm        a program for another machine
//	short      the first half of it
//	page.html  no program at all
//	version, start, dies, keys, other    see testdata/odd; other says that it is another version
func releases(t *testing.T) string {
	t.Helper()
	released.Do(func() {
		var err error
		if released.dir, err = os.MkdirTemp("", "stile-release-"); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(released.dir, 0o755); err != nil {
			t.Fatal(err)
		}
		compile(t, "..", filepath.Join(released.dir, "stile"), "")
		odd := func(name, flags string) { compile(t, "testdata/odd", filepath.Join(released.dir, name), flags) }
		odd("version", "-X main.fault=version")
		odd("start", "-X main.fault=start")
		odd("dies", "-X main.fault=dies")
		odd("keys", "-X main.fault=keys")
		odd("other", "-X main.version=0.0.9")
		stile, err := os.ReadFile(filepath.Join(released.dir, "stile"))
		if err != nil {
			t.Fatal(err)
		}
		put := func(name string, text []byte) {
			if err := os.WriteFile(filepath.Join(released.dir, name), text, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		put("newer", append(bytes.Clone(stile), "newer"...))
		put("short", stile[:len(stile)/2])
		put("page.html", []byte("<!doctype html><title>404 Not Found</title>"))
		arm := bytes.Clone(stile)
		arm[18] ^= 0x55 // e_machine
		put("arm", arm)

		entries, err := os.ReadDir(released.dir)
		if err != nil {
			t.Fatal(err)
		}
		var sums strings.Builder
		for _, e := range entries {
			text, err := os.ReadFile(filepath.Join(released.dir, e.Name()))
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&sums, "%s  %s\n", sum(text), e.Name())
		}
		put("SHA256SUMS", []byte(sums.String()))
	})
	if released.dir == "" {
		t.Fatal("the releases could not be made")
	}
	return released.dir
}

var released struct {
	sync.Once
	dir string
}

func sum(text []byte) string {
	s := sha256.Sum256(text)
	return hex.EncodeToString(s[:])
}

// releaseSum is the SHA-256 of a release.
func releaseSum(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(releases(t), name))
	if err != nil {
		t.Fatal(err)
	}
	return sum(text)
}

func compile(t *testing.T, dir, out, flags string) {
	t.Helper()
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags="+flags, "-o", out, ".")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("building %s: %s\n%s", out, err, text)
	}
}

// Two builds in two folders, of which the second has no cache to take anything from, are
// the same bytes; and they are those that the checkout's own build makes.
func TestReproducible(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles everything twice")
	}
	t.Parallel()
	build := func(env ...string) string {
		dir := filepath.Join(t.TempDir(), "checkout")
		cmd := exec.Command("/bin/sh", "-c", `set -e
			mkdir "$1"
			git ls-files -z | xargs -0 cp --parents -t "$1"
			cd "$1"
			./deploy.sh build
			sha256sum bin/stile`, "build", dir)
		cmd.Dir = ".."
		cmd.Env = append(os.Environ(), env...)
		var said bytes.Buffer
		cmd.Stderr = &said
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%s\n%s", err, &said)
		}
		return string(out)
	}
	if a, b := build(), build("GOCACHE="+t.TempDir()); a != b {
		t.Errorf("two builds: %s%s", a, b)
	}
}
