package botauth

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func serveKeys(w http.ResponseWriter, keys ...string) {
	w.Header().Set("Content-Type", mediaType+"; charset=utf-8")
	w.Header().Set("Cache-Control", "public, max-age=7200")
	fmt.Fprintf(w, `{"keys":[%s]}`, strings.Join(keys, ","))
}

// TestFetch: what a directory may answer.
func TestFetch(t *testing.T) {
	key := newSigner(t, 'a').jwk()
	f := func(name, wrong string, h http.HandlerFunc) {
		t.Helper()
		s := httptest.NewServer(h)
		defer s.Close()
		keys, fresh, err := fetch(t.Context(), s.URL)
		switch {
		case wrong == "" && (err != nil || len(keys) != 1 || fresh != 2*time.Hour):
			t.Errorf("%s: %d keys for %s, %v", name, len(keys), fresh, err)
		case wrong != "" && (err == nil || !strings.Contains(err.Error(), wrong)):
			t.Errorf("%s: %v, want an error with %q", name, err, wrong)
		}
	}
	elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		t.Errorf("a redirect to %s was followed", r.URL)
		serveKeys(w, key)
	}))
	defer elsewhere.Close()

	f("a directory", "", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != wellKnown || r.Header.Get("Accept") != mediaType || r.Method != "GET" {
			t.Errorf("asked for %s %s as %q", r.Method, r.URL, r.Header.Get("Accept"))
		}
		serveKeys(w, key)
	})
	for _, status := range []int{301, 302, 303, 307, 308} {
		f("a redirect", "which is not followed", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, elsewhere.URL+wellKnown, status)
		})
	}
	f("a redirect on the same host", "which is not followed", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/keys", http.StatusFound) })
	f("HTML", "not a directory of keys", func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "<!doctype html><title>x</title>") })
	f("HTML as a directory", "not a JSON Web Key Set", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", mediaType)
		io.WriteString(w, "<!doctype html><title>x</title>")
	})
	f("JSON", `"application/json", not a directory`, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"keys":[%s]}`, key)
	})
	f("no type", "not a directory", func(w http.ResponseWriter, r *http.Request) {
		w.Header()["Content-Type"] = nil
		fmt.Fprintf(w, `{"keys":[%s]}`, key)
	})
	f("404", "404", func(w http.ResponseWriter, r *http.Request) { http.NotFound(w, r) })
	f("500 with keys", "500", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", mediaType)
		w.WriteHeader(500)
		fmt.Fprintf(w, `{"keys":[%s]}`, key)
	})
	f("no content", "204", func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(204) })
	f("half a body", "unexpected EOF", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", mediaType)
		w.Header().Set("Content-Length", "1000")
		fmt.Fprintf(w, `{"keys":[%s]}`, key)
	})
	sent := atomic.Int64{}
	f("a body without end", "larger than 65536", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", mediaType)
		for b := bytes.Repeat([]byte(" "), 4096); ; {
			n, err := w.Write(b)
			sent.Add(int64(n))
			if err != nil || sent.Load() > 64<<20 {
				return
			}
		}
	})
	if sent.Load() >= 64<<20 {
		t.Error("a body without end was read on")
	}
	f("a header without end", "server response headers exceeded", func(w http.ResponseWriter, r *http.Request) {
		for i := range 100 {
			w.Header().Set(fmt.Sprint("X-", i), strings.Repeat("x", 1000))
		}
		serveKeys(w, key)
	})
	f("compressed, unasked", "not a JSON Web Key Set", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", mediaType)
		w.Header().Set("Content-Encoding", "gzip")
		w.Write([]byte("\x1f\x8b\x08\x00"))
	})
	nobody := httptest.NewServer(nil)
	nobody.Close()
	if _, _, err := fetch(t.Context(), nobody.URL); err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("nobody there: %v", err)
	}
	// A name that leads to this machine is no public server's.
	local := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { t.Error("a private address was asked") }))
	defer local.Close()
	if _, _, err := fetch(t.Context(), strings.Replace(local.URL, "127.0.0.1", "localhost", 1)); err == nil || !strings.Contains(err.Error(), "not on the public Internet") {
		t.Errorf("a name of this machine: %v", err)
	}
}

// TestSlow: a directory that never ends its answer is given up.
func TestSlow(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", mediaType)
		io.WriteString(w, `{"keys":[`)
		w.(http.Flusher).Flush()
		<-r.Context().Done() // our side has gone
	}))
	defer s.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, _, err := fetch(ctx, s.URL); err == nil || !strings.Contains(err.Error(), "deadline exceeded") {
		t.Errorf("%v, want that it took too long", err)
	}
	if fetchTime > 15*time.Second {
		t.Errorf("a fetch may take %s", fetchTime)
	}
}

func TestFreshness(t *testing.T) {
	f := func(s string, want time.Duration) {
		t.Helper()
		if got := freshness(s); got != want {
			t.Errorf("%q: %s, want %s", s, got, want)
		}
	}
	f("", time.Hour)
	f("max-age=86400", 24*time.Hour)
	f("max-age=604800", 24*time.Hour)
	f("public, Max-Age=3600, immutable", time.Hour)
	f(`max-age="7200"`, 2*time.Hour)
	f("max-age=0", 5*time.Minute)
	f("max-age=-1", time.Hour)
	f("max-age=99999999999999999999", time.Hour)
	f("no-store", 5*time.Minute)
	f("no-cache, max-age=86400", 5*time.Minute)
}

// TestRotation: an agent puts a new key beside its old one, then takes the old one out;
// in between its server is down, and then serves a web page. What counts is the last good
// directory.
func TestRotation(t *testing.T) {
	old, next := newSigner(t, 'a'), newSigner(t, 'b')
	var answer atomic.Pointer[http.HandlerFunc]
	set := func(h http.HandlerFunc) { answer.Store(&h) }
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { (*answer.Load())(w, r) }))
	defer s.Close()

	clock := noon
	said := new(bytes.Buffer)
	v := New(Options{Now: func() time.Time { return clock }, Log: slog.New(slog.NewTextHandler(said, nil))})
	v.Set([]Bot{{Name: "robot", Origin: s.URL}}, nil)
	d := v.directories[s.URL]
	fetch := func() { v.refresh(t.Context(), d) }
	signed := func(by signer, agent string, why Result) {
		t.Helper()
		m := request("a")
		by.sign(m, []string{`"@authority"`}, []string{"example.com"}, "")
		want(t, v, m, agent, why)
	}

	signed(old, "", UnknownKey)
	set(func(w http.ResponseWriter, r *http.Request) { serveKeys(w, old.jwk()) })
	fetch()
	signed(old, "robot", Good)
	signed(next, "", UnknownKey)
	if in := d.next.Sub(clock); in < 110*time.Minute || in > 130*time.Minute {
		t.Errorf("fetched again in %s, though it may be kept two hours", in)
	}
	set(func(w http.ResponseWriter, r *http.Request) { serveKeys(w, old.jwk(), next.jwk()) })
	fetch()
	signed(old, "robot", Good)
	signed(next, "robot", Good)

	set(func(w http.ResponseWriter, r *http.Request) { http.Error(w, "down", 503) })
	last := time.Duration(0)
	for range 10 {
		fetch()
		in := d.next.Sub(clock)
		if in < time.Minute*9/10 || in > retryMost*11/10 || in < last*9/10 {
			t.Errorf("after a failure fetched again in %s, the time before in %s", in, last)
		}
		last = in
	}
	set(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "<!doctype html>") })
	fetch()
	signed(old, "robot", Good)
	signed(next, "robot", Good)
	if n := strings.Count(said.String(), "level=WARN"); n != 1 {
		t.Errorf("failures were said %d times, want once:\n%s", n, said)
	}

	set(func(w http.ResponseWriter, r *http.Request) { serveKeys(w, next.jwk()) })
	fetch()
	signed(old, "", UnknownKey)
	signed(next, "robot", Good)
	v.Directories(func(bot string, keys int, good, failed uint64, last time.Time) {
		if bot != "robot" || keys != 1 || good != 3 || failed != 11 || !last.Equal(clock) {
			t.Errorf("directory of %s: %d keys, %d good, %d failed", bot, keys, good, failed)
		}
	})

	// A reload that keeps the agent keeps its keys.
	v.Set([]Bot{{Name: "renamed", Origin: s.URL}}, nil)
	signed(next, "renamed", Good)

	set(func(w http.ResponseWriter, r *http.Request) { http.Error(w, "gone", 410) })
	clock = clock.Add(6 * 24 * time.Hour)
	fetch()
	signed(next, "renamed", Good)
	clock = clock.Add(25 * time.Hour)
	fetch()
	signed(next, "", UnknownKey)
	if !strings.Contains(said.String(), "level=ERROR") {
		t.Error("that keys are no longer used was not said")
	}
}

// TestWish: a key that is not known, under the name of an agent that is listed, makes its
// directory be fetched again, though not with every request.
func TestWish(t *testing.T) {
	old, next := newSigner(t, 'a'), newSigner(t, 'b')
	keys := atomic.Pointer[string]{}
	store := func(s string) { keys.Store(&s) }
	store(old.jwk())
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { serveKeys(w, *keys.Load()) }))
	defer s.Close()
	var clock atomic.Int64
	clock.Store(noon.Unix())
	v := New(Options{Now: func() time.Time { return time.Unix(clock.Load(), 0) }})
	fetches := make(chan struct{}, 10)
	v.fetched = func(*directory) { fetches <- struct{}{} }
	v.Set([]Bot{{Name: "robot", Origin: s.URL}}, nil)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { v.Run(ctx); close(ended) }()
	<-fetches

	ask := func(agent string) error {
		m := request("a")
		m.SignatureAgent = `sig1="` + agent + `"`
		now := clock.Load()
		next.sign(m, []string{`"@authority"`, `"signature-agent";key="sig1"`}, []string{"example.com", `"` + agent + `"`},
			fmt.Sprintf(`;created=%d;expires=%d;keyid="%s";tag="web-bot-auth"`, now, now+60, next.key.ID))
		_, err := v.Verify(time.Unix(now, 0), m)
		return err
	}
	d := v.directories[s.URL]
	if err := ask(s.URL); err != UnknownKey || d.wished.Load() {
		t.Errorf("a moment after a fetch: %v, wished %v", err, d.wished.Load())
	}
	clock.Add(int64(freshLeast / time.Second))
	if err := ask("https://other.test"); err != UnknownKey || d.wished.Load() {
		t.Errorf("of another agent: %v, wished %v", err, d.wished.Load())
	}
	store(old.jwk() + "," + next.jwk())
	if err := ask(s.URL); err != UnknownKey {
		t.Errorf("a new key: %v", err)
	}
	<-fetches
	if err := ask(s.URL); err != nil {
		t.Errorf("a new key, after the fetch: %v", err)
	}
	cancel()
	<-ended
}

// TestRun: directories are fetched when they are due, and nobody waits for a slow one.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := New(Options{})
		v.Set([]Bot{{Name: "robot", Origin: "http://127.0.0.1:1"}}, nil)
		v.directories["http://127.0.0.1:1"].fetching = true // somebody is at it
		ctx, cancel := context.WithCancel(t.Context())
		go v.Run(ctx)
		synctest.Wait()
		cancel()
		synctest.Wait()
	})
	v := New(Options{Now: func() time.Time { return noon }})
	v.Set([]Bot{{Name: "robot", Origin: "https://a.test"}, {Name: "other", Origin: "https://b.test"}}, nil)
	for _, d := range v.directories {
		d.next = noon.Add(time.Hour / 2)
	}
	if wait := v.begin(t.Context()); wait != time.Hour/2 {
		t.Errorf("the next fetch in %s", wait)
	}
}
