package budget

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestFiles(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, size int) {
		t.Helper()
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, make([]byte, size), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("srv/purs/aff.json", 4200)
	write("srv/purs/folder.json/x", 1)
	write("secret.json", 7)
	write("srv/.json", 9)

	f, err := NewFiles(dir + "/srv/{2}/{3}.json")
	if err != nil {
		t.Fatal(err)
	}
	now := int64(1)
	is := func(path string, want int64) {
		t.Helper()
		size, ok := f.Size(path, now)
		if !ok {
			size = -1
		}
		if size != want {
			t.Errorf("%s: %d, want %d", path, size, want)
		}
	}
	is("/packages/purs/aff", 4200)
	is("/anything/purs/aff/more", 4200)
	is("/packages/purs/missing", -1)
	is("/packages/purs", -1)
	is("/packages", -1)
	is("", -1)
	is("/packages/purs/", -1)       // an empty segment
	is("/packages/purs/folder", -1) // a folder
	is("/packages/../secret", -1)
	is("/packages/purs/../../secret", -1)
	is("/packages/./aff", -1)
	is("/packages/purs/aff\x00", -1)

	// Of several readings the largest counts, whichever is there.
	write("srv/purs/big.json", 9000)
	for _, all := range [][]string{{"/p/purs/aff", "/p/purs/big"}, {"/p/purs/big", "/p/purs/aff"}, {"/p/purs/nothing", "/p/purs/big", "/p/purs/none"}} {
		if n, ok := f.Largest(all[0], all[1:], now); n != 9000 || !ok {
			t.Errorf("%q: %d %v", all, n, ok)
		}
	}
	if _, ok := f.Largest("/p/purs/nothing", []string{"/p/purs/none"}, now); ok {
		t.Error("a file that is not there")
	}

	// It is remembered, also that there was none, but not for ever.
	write("srv/purs/aff.json", 10)
	write("srv/purs/missing.json", 20)
	now += int64(filesAge)
	is("/packages/purs/aff", 4200)
	is("/packages/purs/missing", -1)
	now += int64(time.Millisecond)
	is("/packages/purs/aff", 10)
	is("/packages/purs/missing", 20)
	now = 5 // the clock went back
	write("srv/purs/aff.json", 11)
	is("/packages/purs/aff", 11)
}

func TestFilesTemplates(t *testing.T) {
	for _, bad := range []string{"", "/srv/x.json", "srv/{1}.json", "/srv/{0}.json", "/srv/{17}.json", "/srv/{01}.json", "/srv/{a}", "/srv/{1", "/srv/{}"} {
		if _, err := NewFiles(bad); err == nil {
			t.Errorf("%q: no error", bad)
		}
	}
	if _, err := NewFiles("/srv/{1}{2}/{16}"); err != nil {
		t.Error(err)
	}
}

func FuzzFiles(f *testing.F) {
	f.Add("/packages/purs/aff")
	f.Add("/../..//x")
	f.Add("/a/\x00/b")
	f.Fuzz(func(t *testing.T, path string) {
		files, err := NewFiles("/nowhere/{1}/{2}.json")
		if err != nil {
			t.Fatal(err)
		}
		name, ok := files.appendName(nil, path)
		if ok && filepath.Clean(string(name)) != string(name) || ok && filepath.Dir(filepath.Dir(string(name))) != "/nowhere" {
			t.Errorf("%q is the file %q", path, name)
		}
	})
}
