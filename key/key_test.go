package key

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
)

func TestFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "key")
	r, created, err := LoadOrCreate(file)
	if err != nil || !created {
		t.Fatal(created, err)
	}
	if st, _ := os.Stat(file); st.Mode().Perm() != 0o600 {
		t.Errorf("mode %o", st.Mode().Perm())
	}
	if err := Create(file); err == nil {
		t.Error("Create overwrote a key file")
	}
	again, created, err := LoadOrCreate(file)
	if err != nil || created || again.Fingerprint() != r.Fingerprint() {
		t.Error("loading it again gives other keys", created, err)
	}
	text, _ := os.ReadFile(file)
	if err := os.WriteFile(file, text, 0o644); err != nil {
		t.Fatal(err)
	}
	os.Chmod(file, 0o644)
	if _, err := Load(file); err == nil || !strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("a readable key file: %v", err)
	}
}

// What is wrong with a key file is said with the way out.
func TestFileErrors(t *testing.T) {
	f := func(err error, want ...string) {
		t.Helper()
		for _, w := range want {
			if err == nil || !strings.Contains(err.Error(), w) {
				t.Errorf("%v, want …%s…", err, w)
			}
		}
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "none", "key")
	_, _, err := LoadOrCreate(file)
	f(err, "making a key file: ", "make its folder: install -d -o ", filepath.Dir(file))
	if _, err := Rotate(file, 1); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	good := "1 " + strings.Repeat("ab", 32) + "\n"
	file = filepath.Join(dir, "broken")
	for _, text := range []string{"", good[:40], good + good, "1 " + strings.Repeat("00", 32), strings.Repeat("#", maxFileBytes+1)} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := Load(file)
		f(err, file, "restore a copy of it, or move it away")
	}
}

// Root makes and rotates the key of the daemon's user, who is told when it did not.
func TestOtherUsers(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root has files of other users")
	}
	owner := func(file string) uint32 {
		st, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		return st.Sys().(*syscall.Stat_t).Uid
	}
	temp := t.TempDir()
	dir := filepath.Join(temp, "state")
	file := filepath.Join(dir, "key")
	if err := errors.Join(os.Chmod(filepath.Dir(temp), 0o711), os.Mkdir(dir, 0o755), os.Chown(dir, 4321, 4321), Create(file)); err != nil {
		t.Fatal(err)
	}
	if owner(file) != 4321 {
		t.Errorf("root made a key file of %d in a folder of 4321", owner(file))
	}
	if _, err := Rotate(file, 1); err != nil || owner(file) != 4321 {
		t.Errorf("after a rotation it is of %d: %v", owner(file), err)
	}
	// Another user, as far as this thread and files are concerned.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	syscall.RawSyscall(syscall.SYS_SETFSUID, 4322, 0, 0)
	defer syscall.RawSyscall(syscall.SYS_SETFSUID, 0, 0, 0)
	_, err := Load(file)
	if err == nil || !strings.Contains(err.Error(), file+" belongs to another user than the one who runs stile (") || !strings.Contains(err.Error(), "chown it") {
		t.Errorf("the key of another user: %v", err)
	}
	if err := Create(filepath.Join(dir, "new")); err == nil || !strings.Contains(err.Error(), "closed to the user who runs stile") {
		t.Errorf("the folder of another user: %v", err)
	}
}

func TestRotate(t *testing.T) {
	file := filepath.Join(t.TempDir(), "key")
	if err := Create(file); err != nil {
		t.Fatal(err)
	}
	r, _ := Load(file)
	old := r.MAC("x")
	msg := []byte("hello")
	var sum [32]byte
	old.Sign(msg, &sum)
	id := old.SignID()
	for i := 1; i <= 3; i++ {
		var err error
		if r, err = Rotate(file, 2); err != nil {
			t.Fatal(err)
		}
		if r.Len() != min(i+1, 3) {
			t.Errorf("after rotation %d: %d keys", i, r.Len())
		}
		if got := r.MAC("x").Verify(id, msg, sum[:]); got != (i <= 2) {
			t.Errorf("after rotation %d the first key verifies: %v", i, got)
		}
		if r.MAC("x").SignID() == id {
			t.Errorf("after rotation %d the first key signs, or its id came again", i)
		}
	}
}

func TestParseFile(t *testing.T) {
	good := "1 " + strings.Repeat("ab", 32)
	f := func(text string, want int) {
		t.Helper()
		keys, err := parse([]byte(text))
		if (err == nil) != (want > 0) || len(keys) != max(want, 0) {
			t.Errorf("%q: %d keys, %v", text, len(keys), err)
		}
		if err != nil && strings.Contains(err.Error(), "ab") {
			t.Errorf("the error shows the secret: %v", err)
		}
	}
	f(good, 1)
	f("# c\n\n"+good+"\n2 "+strings.Repeat("cd", 32)+"\n", 2)
	f(good+"ab", -1)
	f("256 "+strings.Repeat("ab", 32), -1)
	f("x", -1)
	f(strings.Repeat("ab", 32), -1)
}

func TestMAC(t *testing.T) {
	ring := func(k ...Key) *Ring {
		r, err := NewRing(k...)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	k1, k2 := Generate(1), Generate(2)
	m := ring(k1, k2).MAC("pass")
	var sum [32]byte
	m.Sign([]byte("a"), &sum)
	for n, want := range map[int]bool{0: false, 15: false, 16: true, 32: true} {
		if m.Verify(1, []byte("a"), sum[:n]) != want {
			t.Errorf("a sum of %d bytes: want %v", n, want)
		}
	}
	if m.Verify(2, []byte("a"), sum[:]) || m.Verify(3, []byte("a"), sum[:]) || m.Verify(1, []byte("b"), sum[:]) {
		t.Error("a wrong key, an unknown key or another message verifies")
	}
	if ring(k1).MAC("token").Verify(1, []byte("a"), sum[:]) {
		t.Error("purposes share a secret")
	}
	if !ring(k2, k1).MAC("pass").Verify(1, []byte("a"), sum[:]) {
		t.Error("an older key does not verify")
	}
	var box [16]byte
	m.Seal(7, 9, &box)
	if a, b, ok := m.Open(1, &box); !ok || a != 7 || b != 9 {
		t.Error("Open does not undo Seal", a, b, ok)
	}
	if a, b, ok := m.Open(2, &box); ok && a == 7 && b == 9 {
		t.Error("another key opens it")
	}
	if m.Tag(1, 5) == m.Tag(2, 5) || m.Tag(1, 5) == m.Tag(1, 6) || m.Tag(1, 5) != ring(k1).MAC("pass").Tag(1, 5) {
		t.Error("tags")
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("1 " + strings.Repeat("ab", 32)))
	f.Fuzz(func(t *testing.T, b []byte) { _, _ = parse(b) })
}

func BenchmarkVerify(b *testing.B) {
	r, _ := NewRing(Generate(1))
	m := r.MAC("pass")
	msg := make([]byte, 42)
	var sum [32]byte
	m.Sign(msg, &sum)
	b.ReportAllocs()
	for b.Loop() {
		if !m.Verify(1, msg, sum[:16]) {
			b.Fatal()
		}
	}
}
