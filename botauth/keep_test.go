package botauth

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// TestKeep: after a restart the last good keys count until the directory can be fetched,
// for no longer than a week; a file that is broken or somebody else's does not.
func TestKeep(t *testing.T) {
	s := newSigner(t, 'a')
	s.key.NotAfter = noon.Unix() + 30*86400
	down := atomic.Bool{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if down.Load() {
			http.Error(w, "down", 503)
			return
		}
		serveKeys(w, strings.Replace(s.jwk(), "{", `{"exp":1802592000,`, 1))
	}))
	defer server.Close()
	dir := filepath.Join(t.TempDir(), "bots")
	clock := noon
	start := func() *Verifier {
		v := New(Options{Dir: dir, Now: func() time.Time { return clock }})
		v.Set([]Bot{{Name: "robot", Origin: server.URL}}, nil)
		v.Refresh(t.Context())
		return v
	}
	known := func(v *Verifier) (n int) {
		v.Directories(func(_ string, keys int, _, _ uint64, _ time.Time) { n = keys })
		return n
	}
	m := request("a")
	s.sign(m, []string{`"@authority"`}, []string{"example.com"}, "")
	want(t, start(), m, "robot", Good)
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	whole, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}

	down.Store(true)
	v := start()
	want(t, v, m, "robot", Good)
	if k := v.directories[server.URL].keys[0]; k.NotAfter != s.key.NotAfter || k.ID != s.key.ID {
		t.Errorf("kept as %+v", k)
	}
	clock = noon.Add(7 * 24 * time.Hour)
	if known(start()) != 1 {
		t.Error("not known a week later")
	}
	clock = clock.Add(time.Hour)
	if known(start()) != 0 {
		t.Error("known more than a week later")
	}
	clock = noon.Add(-time.Hour)
	if known(start()) != 1 {
		t.Error("not known after the clock was set back")
	}
	clock = noon
	for what, text := range map[string]string{
		"half": string(whole[:len(whole)/2]), "nothing": "", "another's": strings.Replace(string(whole), "127.0.0.1", "127.0.0.2", 1), "nonsense": "null",
	} {
		if err := os.WriteFile(files[0], []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if known(start()) != 0 {
			t.Errorf("%s is believed", what)
		}
	}
	down.Store(false)
	want(t, start(), m, "robot", Good)
	if again, err := os.ReadFile(files[0]); err != nil || string(again) != string(whole) {
		t.Errorf("%s, %v", again, err)
	}
	// Where it cannot be kept, it is known all the same.
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	dir = file
	want(t, start(), m, "robot", Good)
}

// TestSetFetches: a reload fetches what could not be fetched, and what was a while ago.
func TestSetFetches(t *testing.T) {
	clock := noon
	v := New(Options{Now: func() time.Time { return clock }})
	bots := []Bot{{Name: "robot", Origin: "https://a.test"}}
	v.Set(bots, nil)
	due := func(want int) {
		t.Helper()
		if ds := v.due(); len(ds) != want {
			t.Errorf("%d directories are due, want %d", len(ds), want)
		}
	}
	due(1)
	v.apply(v.directories["https://a.test"], nil, time.Hour, nil)
	v.Set(bots, nil)
	due(0)
	clock = clock.Add(freshLeast)
	due(0)
	v.Set(bots, nil)
	due(1)
	v.apply(v.directories["https://a.test"], nil, 0, os.ErrDeadlineExceeded)
	due(0)
	v.Set(bots, nil)
	due(1)
}
