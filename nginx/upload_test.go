package nginx_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	"stile/nginx/nginxtest"
)

// C007, N8: an upload of 30 MB arrives whole, asked about once, over HTTP/1.1 and HTTP/2, with a length and without,
// whether nginx stores it first or not.
func TestUploads(t *testing.T) {
	body := make([]byte, 30<<20)
	rnd := rand.NewChaCha8([32]byte{1})
	_, _ = rnd.Read(body)
	digest := sha256.Sum256(body)
	w := start(t, plain(`location /direct/ { client_max_body_size 50m; proxy_http_version 1.1; proxy_request_buffering off; proxy_pass http://app; }`))
	f := func(client *http.Client, target string, length int64, a *nginxtest.Answer) {
		t.Helper()
		w.d.Always(a)
		what := target + " " + a.Verdict
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, "PUT", "http://site.example"+target, io.NopCloser(bytes.NewReader(body)))
		if err != nil {
			t.Fatal(err)
		}
		req.ContentLength = length
		resp, err := client.Do(req)
		if err != nil {
			t.Errorf("%s: %s", what, err)
			return
		}
		defer resp.Body.Close()
		_, _ = io.Copy(io.Discard, resp.Body)
		hits := w.app.Hits()
		if a != nginxtest.Allow {
			w.expect(what, &nginxtest.Response{Status: resp.StatusCode}, 429, 1, 0)
			return
		}
		if len(hits) == 1 && (hits[0].Length != int64(len(body)) || hits[0].SHA256 != hex.EncodeToString(digest[:])) {
			t.Errorf("%s: the application got %d bytes, not as they were sent", what, hits[0].Length)
		}
		w.expect(what, &nginxtest.Response{Status: resp.StatusCode}, 200, 1, 1)
	}
	known := int64(len(body))
	for _, client := range []*http.Client{w.Client(80), w.Client2(82)} {
		f(client, "/package", known, nginxtest.Allow)
		f(client, "/package", -1, nginxtest.Allow)
		f(client, "/direct/package", known, nginxtest.Allow)
		f(client, "/direct/package", -1, nginxtest.Allow)
		f(client, "/package", known, nginxtest.Refuse)
		f(client, "/direct/package", known, nginxtest.Challenge)
	}
}

// nginx reads a whole body before it fetches a page. A large one is refused before it is sent.
func TestRefusedUploadsAreNotWaitedFor(t *testing.T) {
	w := start(t, plain(``))
	f := func(a *nginxtest.Answer, request, retry string) {
		t.Helper()
		w.d.Always(a)
		r, err := w.Dial(80).Ask(request) // of which the body never comes
		if err != nil {
			t.Fatalf("%.80q: %s", request, err)
		}
		header(t, r, "Retry-After", retry)
		header(t, r, "Cache-Control", "no-store")
		header(t, r, "Content-Type", "text/plain")
		w.expect(request[:4], r, 429, 1, 0)
	}
	const head = "PUT /package HTTP/1.1\r\nHost: site.example\r\n"
	f(nginxtest.Refuse, head+"Content-Length: 30000000\r\n\r\nabc", "17")
	f(nginxtest.Deny, head+"Content-Length: 10000000\r\n\r\n", "60")
	f(nginxtest.Challenge, head+"Content-Length: 30000000\r\nExpect: 100-continue\r\n\r\n", "60")
	f(nginxtest.Refuse, head+"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", "17")

	// Forms are small enough to be read, and get the daemon's page.
	w.d.Always(nginxtest.Refuse)
	r := w.Raw(80, nginxtest.Request("POST", "/x", strings.Repeat("x", 2<<20)))
	if !strings.Contains(r.Body, "<h1>stile /refused") {
		t.Errorf("a form of 2 MB: %q", r.Body)
	}
	w.expect("a form of 2 MB", r, 429, 1, 0)
}
