package nginx_test

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"stile/nginx"
	"stile/nginx/nginxtest"
)

// N16: the http part is installed first, and must not stop nginx by itself.
func TestHTTPPartAlone(t *testing.T) {
	if out, err := nginxtest.Test(t, nginxtest.Options{}); err != nil || strings.Contains(out, "[warn]") {
		t.Errorf("%v\n%s", err, out)
	}
}

// programs are the sites before real programs, by FastCGI: e2e runs those with the programs.
var programs = []string{"cgit.conf", "mediawiki.conf"}

// ofDebian are paths that only the sites before Debian's programs have.
var ofDebian = []string{"/run/fcgiwrap.socket;", "/run/php/php-fpm.sock;", "/usr/share/cgit;"}

// C151: every shipped site passes `nginx -t` and serves. (The caches are tested further in cache_test.go.)
func TestEverySiteServes(t *testing.T) {
	sites := 0
	for name := range nginx.Files("/x") {
		name, ok := strings.CutPrefix(name, "sites/")
		if !ok {
			continue
		}
		sites++
		if slices.Contains(programs, name) {
			t.Run(name, func(t *testing.T) {
				if out, err := nginxtest.Test(t, nginxtest.Options{Site: name}); err != nil || strings.Contains(out, "[warn]") {
					t.Errorf("%v\n%s", err, out)
				}
			})
			continue
		}
		t.Run(name, func(t *testing.T) {
			w := start(t, nginxtest.Options{Site: name})
			r := w.Get("/page?x=1")
			if r.Body != "app GET /page?x=1" {
				t.Errorf("a page: %q", r.Body)
			}
			w.expect("a page", r, 200, 1, 1)
			w.d.Always(nginxtest.Challenge)
			w.expect("challenged", w.Get("/other"), 503, 1, 0)
			w.d.Always(nginxtest.Refuse)
			w.expect("refused", w.Get("/other"), 429, 1, 0)
			w.expect("a public file", w.Get("/.stile/stile.js"), 200, 0, 0)
			w.Reload()
			w.expect("after a reload", w.Get("/other"), 429, 1, 0)
			w.noErrors()
		})
	}
	if sites != 7 {
		t.Errorf("%d sites, want 7", sites)
	}
}

func TestPlainSiteLocations(t *testing.T) {
	w := start(t, nginxtest.Options{Site: "plain-proxy.conf"})
	w.expect("an expensive page", w.Get("/search?q=x"), 200, 1, 1)
	w.d.Always(nginxtest.Challenge)
	w.expect("an expensive page", w.Get("/search?q=x"), 503, 1, 0)
	w.expect("with an error_page of its own", w.Get("/downloads/x"), 503, 1, 0)
	w.d.Always(nginxtest.Allow)
	w.app.Handle(func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/missing" {
			rw.WriteHeader(404)
		}
		io.WriteString(rw, "body of "+r.URL.Path)
	})
	r := w.Get("/downloads/x")
	if r.Body != "body of /missing" {
		t.Errorf("the site's own error page: %q", r.Body)
	}
	w.expect("with an error_page of its own", r, 404, 2, 2)
}

// The shipped files hold one absolute path, and hand on no variable that nginx has decoded (N7).
func TestShippedFilesKeepTheRules(t *testing.T) {
	files := nginx.Files(nginx.Prefix)
	for _, name := range []string{"conf.d/stile.conf", "snippets/stile.conf", "snippets/stile-guard.conf",
		"snippets/stile-gate.conf", "snippets/stile-lease.conf", "snippets/stile-closed.conf", "sites/plain-proxy.conf"} {
		if files[name] == "" {
			t.Errorf("%s is not shipped", name)
		}
	}
	absolute := regexp.MustCompile(`(?:unix:|[ \t]root[ \t]+|_path[ \t]+|include[ \t]+|_file[ \t]+)(/\S+)`)
	decoded := regexp.MustCompile(`\$(uri|document_uri|request_filename|arg_\w+|args|query_string|is_args|remote_user|cookie_\w+|\d)\b`)
	paths := 0
	for name, text := range files {
		for line := range strings.Lines(text) {
			line, _, _ := strings.Cut(line, "#")
			m := absolute.FindStringSubmatch(line)
			if m != nil && slices.Contains(ofDebian, m[1]) && slices.Contains(programs, strings.TrimPrefix(name, "sites/")) {
				continue
			}
			if m != nil {
				paths++
				if !strings.HasPrefix(m[1], nginx.Prefix) {
					t.Errorf("%s: %q has a path that does not begin with %s", name, strings.TrimSpace(line), nginx.Prefix)
				}
			}
			if strings.Contains(line, "proxy_set_header") || strings.Contains(line, "proxy_pass") || strings.Contains(line, "add_header") {
				if decoded.MatchString(line) {
					t.Errorf("%s: %q hands on what nginx has decoded", name, strings.TrimSpace(line))
				}
			}
			if strings.Contains(line, "\t") || len(line) > 130 {
				t.Errorf("%s: a tab or a long line: %q", name, line)
			}
		}
		if moved := nginx.Files("/elsewhere")[name]; strings.Contains(moved, nginx.Prefix) {
			t.Errorf("%s: %s is still there after the move", name, nginx.Prefix)
		}
	}
	if paths < 4 {
		t.Errorf("only %d paths found: the test has lost its sight", paths)
	}
}

// What a site sets for its own backend further up stays away from stile's locations.
func TestUnderHostileDefaults(t *testing.T) {
	o := plain(`location /denied/ { deny all; proxy_pass http://app; }`)
	o.HTTP = `
	proxy_cache_path /run/stile/hostile keys_zone=hostile:1m use_temp_path=off;
	proxy_cache hostile; proxy_cache_key $host; proxy_cache_valid any 1m; proxy_cache_methods GET HEAD POST;
	proxy_ignore_headers Cache-Control Expires Set-Cookie;
	proxy_cookie_path / /app/; proxy_cookie_flags ~ secure samesite=strict;
	proxy_hide_header Set-Cookie; proxy_hide_header Retry-After; proxy_redirect ~^(.*)$ http://elsewhere$1;
	proxy_intercept_errors on; recursive_error_pages on; error_page 401 403 404 429 500 502 503 504 /nowhere;
	proxy_buffering off; proxy_buffer_size 32k; proxy_buffers 16 32k; proxy_busy_buffers_size 64k; proxy_temp_file_write_size 128k;
	proxy_request_buffering off; proxy_bind 127.0.0.1; proxy_ignore_client_abort on; proxy_http_version 1.0;
	proxy_read_timeout 5s; proxy_send_timeout 5s; proxy_connect_timeout 5s; proxy_next_upstream off; proxy_next_upstream_tries 1;
	proxy_set_header X-Stile-Verdict allow; proxy_set_header X-Original-URI /robots.txt; proxy_set_header X-Real-IP 192.0.2.66;
	proxy_pass_request_headers on; proxy_max_temp_file_size 10m; proxy_force_ranges on;
	expires 1h; add_header Cache-Control public always; add_header Set-Cookie site=1 always;
	client_max_body_size 1k; satisfy all; default_type image/png; gzip on; gzip_types *; gzip_min_length 1; ssi on;
	large_client_header_buffers 8 16k; merge_slashes off; underscores_in_headers on; ignore_invalid_headers off;
	limit_rate 10m; absolute_redirect on; server_tokens off; log_subrequest on;
	`
	w := start(t, o)
	w.d.Script(func(c nginxtest.Call) *nginxtest.Answer {
		switch {
		case c.Target == "/check" && c.Header.Get("Cookie") != "stile=good":
			return nginxtest.Challenge
		case c.Target == "/.stile/wait?t=x":
			return &nginxtest.Answer{Status: 303, Header: http.Header{"Location": {"/x?a=%26"}, "Set-Cookie": {"stile=good; Path=/; SameSite=Lax"}}}
		case c.Target == "/.stile/proof":
			return &nginxtest.Answer{Status: 403, Body: `{"error":"wrong"}`, Header: http.Header{"Content-Type": {"application/json"}}}
		}
		return nil
	})
	var bodies []string
	for range 2 {
		r := w.Get("/x?a=%26")
		header(t, r, "Cache-Control", "no-store")
		header(t, r, "Retry-After", "10")
		header(t, r, "Set-Cookie", "")
		header(t, r, "Content-Type", "text/html; charset=utf-8")
		bodies = append(bodies, r.Body)
		for _, c := range w.d.Calls("/") {
			if got := c.Header.Get("X-Original-URI"); got != "/x?a=%26" || c.Header.Get("X-Real-IP") != "127.0.0.1" {
				t.Errorf("%s was told %v", c.Target, c.Header)
			}
		}
		w.expect("challenged", r, 503, 1, 0)
	}
	if bodies[0] == bodies[1] || !strings.Contains(bodies[0], "<h1>stile /challenge") {
		t.Errorf("two challenges: %q", bodies)
	}
	r := w.Get("/.stile/wait?t=x")
	header(t, r, "Location", "/x?a=%26") // C155: no host, no port
	header(t, r, "Set-Cookie", "stile=good; Path=/; SameSite=Lax")
	header(t, r, "Cache-Control", "no-store")
	w.expect("a wait", r, 303, 0, 0)
	for range 2 {
		r = w.Raw(80, nginxtest.Request("POST", "/.stile/proof", strings.Repeat("x", 8000)))
		if calls := w.d.Calls("/.stile/proof"); len(calls) != 1 || len(calls[0].Body) != 8000 {
			t.Errorf("a proof arrived as %.200v", calls)
		}
		if r.Body != `{"error":"wrong"}` {
			t.Errorf("a wrong proof: %q", r.Body)
		}
		w.expect("a wrong proof", r, 403, 0, 0)
	}
	w.d.Always(nginxtest.Refuse)
	for range 2 {
		r = w.Get("/x")
		header(t, r, "Retry-After", "17")
		w.expect("refused", r, 429, 1, 0)
	}
	w.expect("the site's own denial", w.Get("/denied/x"), 403, 0, 0)

	c := w.Dial(80)
	io.WriteString(c, "PUT /x HTTP/1.1\r\nHost: site.example\r\nTransfer-Encoding: chunked\r\n\r\n")
	r, err := c.Answer("PUT")
	if err != nil {
		t.Fatal(err)
	}
	header(t, r, "Content-Type", "text/plain")
	w.expect("an upload", r, 429, 1, 0)

	// A proof that comes slowly waits in nginx.
	c = w.Dial(80)
	io.WriteString(c, "POST /.stile/proof HTTP/1.1\r\nHost: site.example\r\nContent-Length: 4\r\n\r\nab")
	w.Get("/.stile/pass")
	if calls := w.d.Calls("/.stile/proof"); len(calls) != 0 {
		t.Errorf("half a proof arrived as %+v", calls)
	}
	io.WriteString(c, "cd")
	if r, err := c.Answer("POST"); err != nil || r.Status != 200 {
		t.Errorf("a slow proof: %+v, %v", r, err)
	}
	w.d.Always(nginxtest.Allow)
	w.expectCounts("a slow proof", 0, 0)
	w.expect("allowed", w.Get("/x"), 200, 1, 1)
	w.d.Stop()
	w.expect("no daemon", w.Get("/y"), 200, 0, 1)
	r = w.Get("/.stile/stile.js")
	header(t, r, "Content-Type", "text/plain")
	w.expect("a public file, and no daemon", r, 503, 0, 0)
}

// nginx wants its buffer sizes to fit each other, and some of them may be the site's.
func TestUnderSmallBuffers(t *testing.T) {
	o := plain(``)
	o.HTTP = `proxy_buffer_size 4k; proxy_buffers 4 4k; proxy_busy_buffers_size 4k; proxy_temp_file_write_size 4k;
	proxy_max_temp_file_size 4k; proxy_buffering off;`
	w := start(t, o)
	w.d.Always(nginxtest.Challenge)
	w.expect("challenged", w.Get("/x"), 503, 1, 0)
	script := strings.Repeat("0123456789abcdef", 60<<10/16)
	w.d.Script(func(c nginxtest.Call) *nginxtest.Answer { return &nginxtest.Answer{Body: script} })
	if r := w.Get("/.stile/stile.js"); r.Body != script {
		t.Errorf("a script of 60 KiB arrived as %d bytes", len(r.Body))
	}
}

// A site that stores what its backend says as files stores nothing of stile's.
func TestUnderProxyStore(t *testing.T) {
	o := plain(``)
	o.HTTP = "proxy_store on; root /run/stile/store;"
	w := start(t, o)
	w.expect("a page", w.Get("/x"), 200, 1, 1)
	w.expect("a public file", w.Get("/.stile/stile.js"), 200, 0, 0)
	stored, err := os.ReadDir(filepath.Join(w.Dir(), "store"))
	if err != nil || len(stored) != 1 || stored[0].Name() != "x" {
		t.Errorf("stored: %v, %v; want the page alone", stored, err)
	}
}

// A server's own error pages for 401 and 403: of two error_page lines for a status the first one counts.
func TestServerErrorPages(t *testing.T) {
	w := start(t, plain(`
	error_page 403 /own; location = /own { auth_request off; return 200 "own"; }
	location /denied/ { deny all; proxy_pass http://app; }
	}
	server {
	listen 81;
	error_page 403 /own; location = /own { auth_request off; return 200 "own"; }
	include snippets/stile.conf;
	location / { proxy_pass http://app; }
	`))
	w.d.Always(nginxtest.Refuse)
	w.expect("the include first", w.Get("/x"), 429, 1, 0)
	w.expect("the site's own denial, without its page", w.Get("/denied/x"), 403, 0, 0)
	w.expect("the include last", w.Raw(81, nginxtest.Request("GET", "/x", "")), 403, 1, 0)
	w.d.Always(nginxtest.Challenge)
	w.expect("the include last", w.Raw(81, nginxtest.Request("GET", "/x", "")), 503, 1, 0)
}

// The daemon is told the scheme, and over TLS what kind of TLS. Behind another proxy the site says which header to
// believe; and it can name the user that it knows.
func TestSchemeAndUser(t *testing.T) {
	cert, key := certificate(t)
	o := plain(`
	location /user/ { set $stile_user anna; proxy_pass http://app; }
	}
	server {
	listen 443 ssl;
	ssl_certificate cert.pem;
	ssl_certificate_key key.pem;
	include snippets/stile.conf;
	location / { proxy_pass http://app; }
	}
	server {
	listen 81;
	set $stile_scheme $http_x_forwarded_proto;
	include snippets/stile.conf;
	location / { proxy_pass http://app; }
	`)
	o.Files = map[string]string{"cert.pem": cert, "key.pem": key}
	w := start(t, o)
	w.d.Always(nginxtest.Challenge)
	expect := func(proto, tlsPrefix, user string) {
		t.Helper()
		calls := w.d.Calls("/")
		if len(calls) != 2 {
			t.Fatalf("%d calls", len(calls))
		}
		for _, c := range calls {
			h := c.Header
			got := h.Get("X-Stile-TLS")
			if h.Get("X-Forwarded-Proto") != proto || h.Get("X-Stile-User") != user || !strings.HasPrefix(got, tlsPrefix) || (tlsPrefix == "") != (got == "") {
				t.Errorf("%s was told proto %q, TLS %q, user %q", c.Target, h.Get("X-Forwarded-Proto"), got, h.Get("X-Stile-User"))
			}
		}
		w.d.Reset()
	}
	w.Get("/x", "X-Forwarded-Proto: https")
	expect("http", "", "")
	w.Raw(81, nginxtest.Request("GET", "/x", "", "X-Forwarded-Proto: https"))
	expect("https", "", "")
	w.Get("/user/x", "X-Stile-User: root")
	expect("http", "", "anna")

	c := tls.Client(w.Dial(443), &tls.Config{InsecureSkipVerify: true})
	io.WriteString(c, nginxtest.Request("GET", "/x", ""))
	if _, err := http.ReadResponse(bufio.NewReader(c), nil); err != nil {
		t.Fatal(err)
	}
	expect("https", "TLSv1", "")
}

func certificate(t *testing.T) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})),
		string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8}))
}
