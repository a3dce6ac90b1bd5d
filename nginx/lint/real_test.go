package lint_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"stile/config"
	"stile/nginx/lint"
	"stile/nginx/nginxtest"
)

// world is a real nginx between an application and a scripted daemon.
type world struct {
	*nginxtest.Nginx
	t   *testing.T
	app *nginxtest.App
	d   *nginxtest.Daemon
	log *nginxtest.LeaseLog
}

func start(t *testing.T, o nginxtest.Options) *world {
	t.Helper()
	w := &world{t: t, app: nginxtest.StartApp(t)}
	o.App = w.app.Addr
	w.Nginx = nginxtest.Start(t, o)
	w.d = nginxtest.StartDaemon(t, w.Socket())
	w.log = nginxtest.StartLeaseLog(t, w.LeaseSocket())
	return w
}

// found tells whether the real nginx's own -T leads to a finding of that kind.
func (w *world) found(code, toml string) bool {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	bin, err := exec.LookPath("nginx")
	if err != nil {
		bin = "/usr/sbin/nginx"
	}
	out, err := exec.CommandContext(ctx, bin, "-T", "-p", w.Dir(), "-c", filepath.Join(w.Dir(), "nginx.conf"), "-e", "stderr").Output()
	if err != nil {
		w.t.Fatalf("nginx -T: %v", err)
	}
	c, err := config.Parse("stile.toml", fmt.Appendf(nil, "include = []\n[listen]\ncheck = \"unix:%s\"\nlease = \"unix:%s\"\n%s", w.Socket(), w.LeaseSocket(), toml))
	if err != nil {
		w.t.Fatal(err)
	}
	r, err := lint.Check(out, lint.Options{Stile: c})
	if err != nil {
		w.t.Fatal(err)
	}
	for _, f := range r.Findings {
		if f.Code == code {
			return true
		}
	}
	return false
}

// expect is what a client gets, and how often the daemon was asked and the application was hit for it.
func (w *world) expect(r *nginxtest.Response, status, checks, hits int) {
	w.t.Helper()
	if got := fmt.Sprint(r.Status, w.d.Checks(), len(w.app.Hits())); got != fmt.Sprint(status, checks, hits) {
		w.t.Errorf("status, checks and hits: got %s, want %d %d %d; body %.100q", got, status, checks, hits, r.Body)
	}
	w.d.Reset()
	w.app.Reset()
}

// A hole is shown by a real nginx, found, closed by the line that the finding wants written, and shown to be closed.
var holes = []struct {
	name, code string
	http       string   // at the http level, in both
	replace    []string // in stile's own files, with the hole
	open, shut string   // text for the server, with the hole and without
	toml       string   // rules
	answer     *nginxtest.Answer
	show       func(w *world, shut bool)
}{
	{
		name: "return", code: "return", answer: nginxtest.Refuse,
		open: `location /x { return 200 "text\n"; }`,
		shut: `location /x { root /run/stile; try_files /answer.txt =404; }`,
		show: func(w *world, shut bool) {
			if r := w.Get("/x"); shut {
				w.expect(r, 429, 1, 0)
			} else {
				w.expect(r, 200, 0, 0)
			}
			w.d.Always(nginxtest.Allow)
			if r := w.Get("/x"); r.Status != 200 || r.Body != "text\n" {
				w.t.Errorf("allowed: %d %q", r.Status, r.Body)
			}
		},
	},
	{
		name: "an error_page of its own", code: "error-page", answer: nginxtest.Challenge,
		open: `location /x { error_page 404 /missing; proxy_pass http://app; }`,
		shut: `location /x { error_page 404 /missing; include snippets/stile-guard.conf; proxy_pass http://app; }`,
		show: func(w *world, shut bool) {
			r := w.Get("/x")
			if shut {
				w.expect(r, 503, 1, 0)
			} else {
				w.expect(r, 401, 1, 0)
			}
			if strings.Contains(r.Body, "stile /challenge") != shut {
				w.t.Errorf("page: %.200q", r.Body)
			}
		},
	},
	{
		name: "an error_page of the server's above the include", code: "error-page-first", answer: nginxtest.Challenge,
		open: `} server { listen 81; error_page 401 /own; include snippets/stile.conf; location / { proxy_pass http://app; }`,
		shut: `} server { listen 81; include snippets/stile.conf; error_page 401 /own; location / { proxy_pass http://app; }`,
		show: func(w *world, shut bool) {
			if r := w.Raw(81, nginxtest.Request("GET", "/x", "")); shut {
				w.expect(r, 503, 1, 0)
			} else {
				w.expect(r, 401, 2, 0) // the page itself is asked about
			}
		},
	},
	{
		name: "satisfy any, for addresses", code: "satisfy", answer: nginxtest.Refuse,
		open: `location /x { satisfy any; allow 127.0.0.1; deny all; proxy_pass http://app; }`,
		shut: `location /x { satisfy all; allow 127.0.0.1; deny all; proxy_pass http://app; }`,
		show: func(w *world, shut bool) {
			r := w.Get("/x")
			w.d.Reset() // nginx asks or does not, as its modules are ordered
			if shut {
				w.expect(r, 429, 0, 0)
			} else {
				w.expect(r, 200, 0, 1)
			}
		},
	},
	{
		name: "satisfy any, past a denial", code: "satisfy", answer: nginxtest.Allow,
		open: `location /x { satisfy any; deny all; proxy_pass http://app; }`,
		shut: `location /x { satisfy all; deny all; proxy_pass http://app; }`,
		show: func(w *world, shut bool) {
			r := w.Get("/x")
			w.d.Reset()
			if shut {
				w.expect(r, 403, 0, 0)
			} else {
				w.expect(r, 200, 0, 1)
			}
		},
	},
	{
		name: "an auth_request of its own", code: "other-auth", answer: nginxtest.Refuse,
		open: `location /x { auth_request /sso; proxy_pass http://app; } location = /sso { internal; return 204; }`,
		shut: `location /x { proxy_pass http://127.0.0.1:81; }
			} server { listen 81; location /x { auth_request /sso; proxy_pass http://app; } location = /sso { internal; return 204; }`,
		show: func(w *world, shut bool) {
			if r := w.Get("/x"); shut {
				w.expect(r, 429, 1, 0)
			} else {
				w.expect(r, 200, 0, 1)
			}
			w.d.Always(nginxtest.Allow)
			if r := w.Get("/x"); r.Status != 200 {
				w.t.Errorf("allowed: %d", r.Status)
			}
		},
	},
	{
		name: "no auth_request off in a named location", code: "asked-again", answer: nginxtest.Challenge,
		replace: []string{"auth_request off;\nproxy_pass http://stile;", "proxy_pass http://stile;"},
		show: func(w *world, shut bool) {
			if r := w.Get("/x"); shut {
				w.expect(r, 503, 1, 0)
			} else {
				w.expect(r, 401, 2, 0)
			}
		},
	},
	{
		name: "an access_log of its own", code: "access-log", answer: nginxtest.Admit,
		open: `location /x { include snippets/stile-gate.conf; access_log /run/stile/x.log; proxy_pass http://app; }`,
		shut: `location /x { include snippets/stile-gate.conf; access_log /run/stile/x.log; include snippets/stile-lease.conf; proxy_pass http://app; }`,
		show: showLease,
	},
	{
		name: "access_log off", code: "access-log", answer: nginxtest.Admit,
		open: `location /x { include snippets/stile-gate.conf; access_log off; proxy_pass http://app; }`,
		shut: `location /x { include snippets/stile-gate.conf; include snippets/stile-lease.conf; proxy_pass http://app; }`,
		show: showLease,
	},
	{
		name: "an auth_request_set of its own", code: "auth-request-set", answer: nginxtest.Challenge,
		open: `location /x { auth_request_set $mine $upstream_http_x_mine; proxy_pass http://app; }`,
		shut: `location /x { auth_request_set $mine $upstream_http_x_mine; auth_request_set $stile_verdict $upstream_http_x_stile_verdict;
			auth_request_set $stile_status $upstream_status; auth_request_set $stile_lease $stile_lease_said; proxy_pass http://app; }`,
		show: func(w *world, shut bool) {
			if r := w.Get("/x"); shut {
				w.expect(r, 503, 1, 0)
			} else {
				w.expect(r, 401, 1, 0)
			}
		},
	},
	{
		name: "a decoded variable in a header", code: "decoded-header", answer: nginxtest.Allow,
		open: `location /x { proxy_set_header X-Path $uri; proxy_pass http://app; }`,
		shut: `location /x { proxy_set_header X-Path $request_uri; proxy_pass http://app; }`,
		show: showInjection,
	},
	{
		name: "a capture in a header", code: "decoded-header", answer: nginxtest.Allow,
		open: `location ~ ^/([^/]+)/y { proxy_set_header X-Path $1; proxy_pass http://app; }`,
		shut: `location ~ ^/([^/]+)/y { set $n $1; proxy_set_header X-Path $n; proxy_pass http://app; }`,
		show: func(w *world, shut bool) {
			w.Get("/x%0d%0aX-User:%20root/y")
			hits := w.app.Hits()
			if len(hits) != 1 || hits[0].Header.Get("X-User") != "" == shut {
				w.t.Errorf("%+v", hits)
			}
		},
	},
	{
		name: "a decoded variable in proxy_pass", code: "decoded-pass", answer: nginxtest.Allow,
		open: `location /x { proxy_pass http://app$uri; }`,
		shut: `location /x { proxy_pass http://app; }`,
		show: func(w *world, shut bool) {
			w.Get("/x%20HTTP/1.1%0d%0aHost:%20a%0d%0a%0d%0aGET%20/expensive")
			var second bool
			await(w.t, func() bool {
				for _, h := range w.app.Hits() {
					second = second || h.Target == "/expensive"
				}
				return shut && len(w.app.Hits()) > 0 || second
			})
			if second == shut || w.d.Checks() != 1 {
				w.t.Errorf("%d checks, hits %+v", w.d.Checks(), w.app.Hits())
			}
		},
	},
	{
		name: "a named capture in a header", code: "decoded-header", answer: nginxtest.Allow,
		open: `location ~ ^/(?<n>[^/]+)/y { proxy_set_header X-Path $n; proxy_pass http://app; }`,
		shut: `location ~ ^/(?<n>.+)/y { proxy_set_header X-Path $n; proxy_pass http://app; }`,
		show: func(w *world, shut bool) {
			w.Get("/x%0aX-User:%20root/y")
			hits := w.app.Hits()
			if !shut && (len(hits) != 1 || hits[0].Header.Get("X-User") == "") || shut && len(hits) == 1 && hits[0].Header.Get("X-User") != "" {
				w.t.Errorf("%+v", hits)
			}
		},
	},
	{
		name: "a capture in proxy_pass", code: "decoded-pass", answer: nginxtest.Allow,
		open: `location ~ ^/files/([^?]+)$ { proxy_pass http://app/$1; }`,
		shut: `location ~ ^/files/([^?]+)$ { rewrite ^/files/(.*)$ /$1 break; proxy_pass http://app; }`,
		show: func(w *world, shut bool) {
			w.Get("/files/x%20HTTP/1.1%0d%0aHost:%20a%0d%0a%0d%0aGET%20/expensive")
			var second bool
			await(w.t, func() bool {
				for _, h := range w.app.Hits() {
					second = second || h.Target == "/expensive"
				}
				return shut && len(w.app.Hits()) > 0 || second
			})
			if second == shut || w.d.Checks() != 1 {
				w.t.Errorf("%d checks, hits %+v", w.d.Checks(), w.app.Hits())
			}
		},
	},
	{
		name: "a cached check", code: "cached", answer: nginxtest.Allow,
		http:    "proxy_cache_path /run/stile/c keys_zone=c:1m; proxy_cache c; proxy_cache_valid any 1m; proxy_cache_key $host; proxy_ignore_headers Cache-Control;",
		replace: []string{"proxy_cache off;\nproxy_store off;", "proxy_store off;"},
		open:    `location /x { proxy_cache off; proxy_pass http://app; }`,
		shut:    `location /x { proxy_cache off; proxy_pass http://app; }`,
		show: func(w *world, shut bool) {
			w.expect(w.Get("/x"), 200, 1, 1)
			w.d.Always(nginxtest.Refuse)
			if r := w.Get("/x"); shut {
				w.expect(r, 429, 1, 0)
			} else {
				w.expect(r, 200, 0, 1)
			}
		},
	},
	{
		name: "a path that only looks so", code: "open-regex", answer: nginxtest.Refuse,
		open: `location ~ \.css$ { auth_request off; proxy_pass http://app; }`,
		shut: `location ^~ /static/ { auth_request off; proxy_pass http://app; }`,
		show: func(w *world, shut bool) {
			if r := w.Get("/expensive/page/x.css"); shut {
				w.expect(r, 429, 1, 0)
			} else {
				w.expect(r, 200, 0, 1)
			}
		},
	},
	{
		name: "the same backend by another port", code: "bypass", answer: nginxtest.Refuse,
		open: `} server { listen 81; listen unix:/run/stile/w.sock; listen *:1; server_name site.example; location / { proxy_pass http://app; }`,
		shut: `} server { listen 81; listen unix:/run/stile/w.sock; server_name site.example; include snippets/stile.conf; location / { proxy_pass http://app; }`,
		show: func(w *world, shut bool) {
			if r := w.Raw(81, nginxtest.Request("GET", "/x", "")); shut {
				w.expect(r, 429, 1, 0)
			} else {
				w.expect(r, 200, 0, 1)
			}
		},
	},
	{
		name: "no real_ip behind another hop", code: "real-ip", answer: nginxtest.Allow,
		open: `location /x { auth_request off; proxy_set_header X-Real-IP 192.0.2.7; proxy_pass http://127.0.0.1:81; }
			} server { listen 81; include snippets/stile.conf; location / { proxy_pass http://app; }`,
		shut: `set_real_ip_from 192.0.2.0/24; location /x { auth_request off; proxy_set_header X-Real-IP 192.0.2.7; proxy_pass http://127.0.0.1:81; }
			} server { listen 81; set_real_ip_from 127.0.0.1; real_ip_header X-Real-IP; include snippets/stile.conf; location / { proxy_pass http://app; }`,
		show: func(w *world, shut bool) {
			w.Get("/x")
			want := "127.0.0.1"
			if shut {
				want = "192.0.2.7"
			}
			if c := w.d.Calls("/check"); len(c) != 1 || c[0].Header.Get("X-Real-IP") != want {
				w.t.Errorf("stile was told %+v, want %s", c, want)
			}
		},
	},
	{
		name: "an absolute URL", code: "http-host", answer: nginxtest.Allow,
		toml: "[[rule]]\nname = \"r\"\nhost = [\"a.example\"]\ndo = \"deny\"\n",
		open: `location /x { proxy_set_header Host $http_host; proxy_pass http://app; }`,
		shut: `location /x { proxy_set_header Host $host; proxy_pass http://app; }`,
		show: func(w *world, shut bool) {
			w.Raw(80, "GET http://b.example/x HTTP/1.1\r\nHost: a.example\r\n\r\n")
			told, hits := w.d.Calls("/check"), w.app.Hits()
			if len(told) != 1 || len(hits) != 1 || told[0].Header.Get("X-Forwarded-Host") == hits[0].Host != shut {
				w.t.Errorf("stile was told %+v, the application %+v", told, hits)
			}
		},
	},
	{
		name: "an outer hop that tries the next one", code: "retry", answer: nginxtest.Challenge,
		open: `location /x { auth_request off; proxy_next_upstream error http_503; proxy_pass http://two; }` + two,
		shut: `location /x { auth_request off; proxy_next_upstream error timeout; proxy_pass http://two; }` + two,
		show: func(w *world, shut bool) {
			if r := w.Get("/x"); shut {
				w.expect(r, 503, 1, 0)
			} else if w.d.Checks() != 2 {
				w.t.Errorf("%d checks, want 2", w.d.Checks())
			}
		},
	},
	{
		name: "an outer hop with a page for 503", code: "outer-pages", answer: nginxtest.Challenge,
		open: `location /x { auth_request off; proxy_intercept_errors on; error_page 503 /busy; proxy_pass http://two; }
			location = /busy { auth_request off; return 200 "busy"; }` + two,
		shut: `location /x { auth_request off; proxy_intercept_errors on; error_page 502 /busy; proxy_pass http://two; }
			location = /busy { auth_request off; return 200 "busy"; }` + two,
		show: func(w *world, shut bool) {
			if r := w.Get("/x"); strings.Contains(r.Body, "stile /challenge") != shut {
				w.t.Errorf("%d %q", r.Status, r.Body)
			}
		},
	},
	{
		name: "an outer hop that keeps refusals", code: "cached-refusal", answer: nginxtest.Challenge,
		http: "proxy_cache_path /run/stile/c keys_zone=c:1m;",
		open: `location /x { auth_request off; proxy_cache c; proxy_ignore_headers Cache-Control; proxy_cache_valid any 1m; proxy_pass http://two; }` + two,
		shut: `location /x { auth_request off; proxy_cache c; proxy_ignore_headers Cache-Control; proxy_cache_valid 200 1m; proxy_pass http://two; }` + two,
		show: func(w *world, shut bool) {
			w.expect(w.Get("/x"), 503, 1, 0)
			w.d.Always(nginxtest.Allow)
			if r := w.Get("/x"); shut {
				w.expect(r, 200, 1, 1)
			} else {
				w.expect(r, 503, 0, 0)
			}
		},
	},
	{
		name: "slashes that are not merged", code: "merge-slashes", answer: nginxtest.Allow,
		open: `merge_slashes off; location ^~ /x/ { proxy_pass http://app; } location / { auth_request off; proxy_pass http://app; }`,
		shut: `location ^~ /x/ { proxy_pass http://app; } location / { auth_request off; proxy_pass http://app; }`,
		show: func(w *world, shut bool) {
			checks := 0
			if shut {
				checks = 1
			}
			w.expect(w.Get("//x/y"), 200, checks, 1)
		},
	},
	{
		name: "a rewrite of everything", code: "rewritten", answer: nginxtest.Refuse,
		open: `} server { listen 81; if (!-e $request_filename) { rewrite ^(.*)$ /index.php?q=$1 last; }` + guarded,
		shut: `} server { listen 81; if ($uri ~ ^/\.stile/) { break; } if (!-e $request_filename) { rewrite ^(.*)$ /index.php?q=$1 last; }` + guarded,
		show: func(w *world, shut bool) {
			if r := w.at(81, "/x"); shut {
				w.expect(r, 429, 1, 0)
			} else {
				w.expect(r, 200, 0, 2) // the one that is asked, and the one that is served
			}
		},
	},
	{
		name: "a rewrite of everything, below", code: "rewritten", answer: nginxtest.Refuse,
		open: `} server { listen 81; include snippets/stile.conf; rewrite ^(.*)$ /index.php?q=$1 last; location / { proxy_pass http://app; }`,
		shut: `} server { listen 81; include snippets/stile.conf; if ($uri ~ ^/\.stile/) { break; } rewrite ^(.*)$ /index.php?q=$1 last; location / { proxy_pass http://app; }`,
		show: func(w *world, shut bool) {
			w.expect(w.at(81, "/x"), 429, 1, 0)
			if r := w.at(81, "/.stile/solve.js"); shut {
				w.expect(r, 200, 0, 0)
			} else {
				w.expect(r, 429, 1, 0)
			}
		},
	},
	{
		name: "a rewrite for some", code: "rewritten", answer: nginxtest.Refuse,
		open: `} server { listen 81; if ($http_cookie ~ mobile) { rewrite ^(.*)$ /m$1 break; }` + guarded,
		shut: `} server { listen 81; if ($uri ~ ^/\.stile/) { break; } if ($http_cookie ~ mobile) { rewrite ^(.*)$ /m$1 break; }` + guarded,
		show: func(w *world, shut bool) {
			w.expect(w.at(81, "/x"), 429, 1, 0)
			if r := w.at(81, "/x", "Cookie: mobile=1"); shut {
				w.expect(r, 429, 1, 0)
			} else {
				w.expect(r, 200, 0, 2)
			}
		},
	},
	{
		name: "a slash that is missing", code: "rewritten", answer: nginxtest.Allow,
		open: `} server { listen 81; rewrite ^(.*[^/])$ $1/ permanent;` + guarded,
		shut: `} server { listen 81; if ($uri ~ ^/\.stile/) { break; } rewrite ^(.*[^/])$ $1/ permanent;` + guarded,
		show: func(w *world, shut bool) {
			if r := w.at(81, "/x/"); shut {
				w.expect(r, 200, 1, 1)
			} else {
				w.expect(r, 500, 0, 0)
			}
		},
	},
	{
		name: "nothing but an API", code: "rewritten", answer: nginxtest.Allow,
		open: `} server { listen 81; if ($uri !~ ^/api/) { return 403; }` + guarded,
		shut: `} server { listen 81; if ($uri ~ ^/\.stile/) { break; } if ($uri !~ ^/api/) { return 403; }` + guarded,
		show: func(w *world, shut bool) {
			if r := w.at(81, "/api/x"); shut {
				w.expect(r, 200, 1, 1)
			} else {
				w.expect(r, 403, 0, 0)
			}
		},
	},
	{
		name: "a text for what is no API", code: "rewritten", answer: nginxtest.Refuse,
		open: `} server { listen 81; if ($uri !~ ^/api/) { return 200 "ok"; }` + guarded,
		shut: `} server { listen 81; if ($uri ~ ^/\.stile/) { break; } if ($uri !~ ^/api/) { return 200 "ok"; }` + guarded,
		show: func(w *world, shut bool) {
			if r := w.at(81, "/api/x"); shut {
				w.expect(r, 429, 1, 0)
			} else {
				w.expect(r, 200, 0, 1)
			}
		},
	},
	{
		name: "a cache's key that is set", code: "set-again", answer: nginxtest.Allow,
		http: "proxy_cache_path /run/stile/c keys_zone=c:1m;",
		open: `} server { listen 81; set $key $uri$is_args$args; proxy_cache_key $key; proxy_cache c; proxy_cache_valid 200 1m;` + guarded,
		shut: `} server { listen 81; if ($uri ~ ^/\.stile/) { break; } set $key $uri$is_args$args; proxy_cache_key $key; proxy_cache c; proxy_cache_valid 200 1m;` + guarded,
		show: func(w *world, shut bool) {
			w.expect(w.at(81, "/x"), 200, 1, 1)
			if r := w.at(81, "/y"); shut {
				w.expect(r, 200, 1, 1)
			} else {
				w.expect(r, 200, 1, 0) // the page of /x
			}
		},
	},
	{
		name: "a backend that a location sets", code: "set-again", answer: nginxtest.Allow,
		open: `} server { listen 81; set $to one; include snippets/stile.conf; location / { set $to two; proxy_set_header Host $to; proxy_pass http://app; }`,
		shut: `} server { listen 81; include snippets/stile.conf; set $to one; location / { set $to two; proxy_set_header Host $to; proxy_pass http://app; }`,
		show: func(w *world, shut bool) { w.expectHost(w.at(81, "/x"), "one", "two", shut) },
	},
	{
		name: "an if about the arguments", code: "set-again", answer: nginxtest.Allow,
		open: `} server { listen 81; set $skip 0; if ($query_string != "") { set $skip 1; }
			include snippets/stile.conf; location / { proxy_set_header Host skip$skip; proxy_pass http://app; }`,
		shut: `} server { listen 81; set $skip 0; if ($http_cookie != "") { set $skip 1; }
			include snippets/stile.conf; location / { proxy_set_header Host skip$skip; proxy_pass http://app; }`,
		show: func(w *world, shut bool) { w.expectHost(w.at(81, "/x?y=z", "Cookie: a=b"), "skip0", "skip1", shut) },
	},
	{
		name: "a text that grows", code: "set-again", answer: nginxtest.Allow,
		open: `} server { listen 81; if ($http_cookie) { set $t "${t}x"; } include snippets/stile.conf; location / { proxy_set_header Host t$t; proxy_pass http://app; }`,
		shut: `} server { listen 81; set $t ""; if ($http_cookie) { set $t "${t}x"; } include snippets/stile.conf; location / { proxy_set_header Host t$t; proxy_pass http://app; }`,
		show: func(w *world, shut bool) { w.expectHost(w.at(81, "/x", "Cookie: a=b"), "txx", "tx", shut) },
	},
	{
		name: "a claimed user", code: "claimed-user", answer: nginxtest.Allow,
		open: `location /x { set $stile_user $remote_user; proxy_pass http://app; }`,
		shut: `location /x { auth_basic "x"; auth_basic_user_file /run/stile/users; set $stile_user $remote_user; proxy_pass http://app; }`,
		show: func(w *world, shut bool) {
			if r := w.Get("/x", "Authorization: Basic cm9vdDpndWVzc2Vk"); shut {
				w.expect(r, 401, 0, 0)
				r = w.Get("/x", "Authorization: Basic cm9vdDpzZWNyZXQ=")
				if c := w.d.Calls("/check"); r.Status != 200 || len(c) != 1 || c[0].Header.Get("X-Stile-User") != "root" {
					w.t.Errorf("%d, stile was told %+v", r.Status, c)
				}
			} else if c := w.d.Calls("/check"); len(c) != 1 || c[0].Header.Get("X-Stile-User") != "root" {
				w.t.Errorf("%d, stile was told %+v", r.Status, c)
			}
		},
	},
	{
		name: "a user in a header", code: "claimed-user", answer: nginxtest.Allow,
		open: `set $stile_user $http_x_remote_user;`,
		shut: `set $stile_user "";`,
		show: func(w *world, shut bool) {
			w.Get("/x", "X-Remote-User: root")
			if c := w.d.Calls("/check"); len(c) != 1 || c[0].Header.Get("X-Stile-User") != "root" != shut {
				w.t.Errorf("stile was told %+v", c)
			}
		},
	},
	{
		name: "a mirror of everything", code: "mirror", answer: nginxtest.Refuse,
		open: `mirror /copy; location = /copy { internal; proxy_pass http://app$request_uri; }`,
		shut: `location /x { mirror /copy; proxy_pass http://app; } location = /copy { internal; proxy_pass http://app$request_uri; }`,
		show: func(w *world, shut bool) {
			if r := w.Get("/x"); shut {
				w.expect(r, 429, 1, 0)
			} else {
				w.expect(r, 429, 1, 1)
			}
		},
	},
	{
		name: "a post_action of everything", code: "mirror", answer: nginxtest.Refuse,
		open: `post_action /done; location = /done { internal; proxy_pass http://app; }`,
		shut: `location /x { post_action /done; proxy_pass http://app; } location = /done { internal; proxy_pass http://app; }`,
		show: func(w *world, shut bool) {
			w.Get("/x")
			await(w.t, func() bool { return shut || len(w.app.Hits()) > 0 })
			if (len(w.app.Hits()) == 0) != shut {
				w.t.Errorf("%+v", w.app.Hits())
			}
		},
	},
	{
		name: "a body of the site's own", code: "daemon-body", answer: nginxtest.Challenge,
		open: `proxy_set_body "a=$request_id";`,
		shut: `location /x { proxy_set_body "a=$request_id"; proxy_pass http://app; }`,
		show: func(w *world, shut bool) {
			if r := w.Get("/x"); shut {
				w.expect(r, 503, 1, 0)
			} else {
				w.expect(r, 400, 1, 0)
			}
		},
	},
	{
		name: "a request's name of the client's making", code: "check-request-id", answer: nginxtest.Allow,
		replace: []string{"X-Request-ID                  $request_id", "X-Request-ID                  $http_x_request_id"},
		show: func(w *world, shut bool) {
			w.Get("/x", "X-Request-ID: again")
			if c := w.d.Calls("/check"); len(c) != 1 || (c[0].Header.Get("X-Request-ID") == "again") == shut {
				w.t.Errorf("stile was told %+v", c)
			}
		},
	},
	{
		name: "a slow reader in a gate", code: "gate-slow", answer: nginxtest.Admit,
		open: `location /x { include snippets/stile-gate.conf; proxy_buffering off; proxy_pass http://app; }`,
		shut: `location /x { include snippets/stile-gate.conf; proxy_buffering on; proxy_pass http://app; }`,
		show: func(w *world, shut bool) {
			done := make(chan bool, 1)
			w.app.Handle(func(rw http.ResponseWriter, r *http.Request) {
				_, err := rw.Write(make([]byte, 32<<20))
				done <- err == nil
			})
			c := w.Dial(80)
			defer c.Close()
			if _, err := io.WriteString(c, nginxtest.Request("GET", "/x", "")); err != nil {
				w.t.Fatal(err)
			}
			if shut { // nobody reads, and the backend has ended
				select {
				case ok := <-done:
					if !ok {
						w.t.Error("the answer was not taken")
					}
				case <-time.After(20 * time.Second):
					w.t.Error("the backend still waits for the client")
				}
				return
			}
			await(w.t, func() bool { return len(w.app.Hits()) == 1 })
			select {
			case <-done:
				w.t.Error("the backend did not wait for the client")
			case <-time.After(time.Second):
			}
		},
	},
}

// guarded is the rest of a server on port 81.
const guarded = ` include snippets/stile.conf; location / { proxy_pass http://app; }`

// at is Get for another port.
func (w *world) at(port int, target string, headers ...string) *nginxtest.Response {
	w.t.Helper()
	return w.Raw(port, nginxtest.Request("GET", target, "", headers...))
}

// expectHost: the application was asked by a name.
func (w *world) expectHost(r *nginxtest.Response, open, shut string, isShut bool) {
	w.t.Helper()
	if isShut {
		open = shut
	}
	if hits := w.app.Hits(); r.Status != 200 || len(hits) != 1 || hits[0].Host != open {
		w.t.Errorf("%d, %+v, want %s", r.Status, hits, open)
	}
}

// two is an upstream of two protected servers.
const two = `
	} upstream two { server 127.0.0.1:81; server 127.0.0.1:82; }
	server { listen 81; set_real_ip_from 127.0.0.1; include snippets/stile.conf; location / { proxy_pass http://app; } }
	server { listen 82; set_real_ip_from 127.0.0.1; include snippets/stile.conf; location / { proxy_pass http://app; }`

// showLease: the end of a request at /x is told, or is not. That of the one after it always is.
func showLease(w *world, shut bool) {
	w.Get("/x")
	w.Get("/y")
	want := 1
	if shut {
		want = 2
	}
	if lines := w.log.Wait(want); len(lines) != want {
		w.t.Errorf("%d lines in the lease log, want %d", len(lines), want)
	}
}

func showInjection(w *world, shut bool) {
	w.Get("/x%0d%0aX-User:%20root")
	hits := w.app.Hits()
	if len(hits) != 1 || (hits[0].Header.Get("X-User") == "") != shut {
		w.t.Errorf("%+v", hits)
	}
}

func await(t *testing.T, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			return
		}
	}
}

func TestHoles(t *testing.T) {
	for _, h := range holes {
		for _, shut := range []bool{false, true} {
			name := h.name
			if shut {
				name += ", closed"
			}
			t.Run(name, func(t *testing.T) {
				o := nginxtest.Options{HTTP: h.http, Files: map[string]string{"answer.txt": "text\n", "users": "root:{PLAIN}secret\n"}}
				more := h.open
				if shut {
					more = h.shut
				} else {
					o.Replace = h.replace
				}
				root := "location / { proxy_pass http://app; }"
				if strings.Contains(more, "location / {") && h.code == "merge-slashes" {
					root = ""
				}
				if strings.Contains(h.http, "proxy_cache c;") {
					root = "location / { proxy_cache off; proxy_pass http://app; }"
				}
				o.Site = "upstream app { server 127.0.0.1:8080; }\nserver {\nlisten 80;\nserver_name site.example;\ninclude snippets/stile.conf;\n" + root + "\n" + more + "\n}\n"
				w := start(t, o)
				w.d.Always(h.answer)
				w.app.Handle(func(rw http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(rw, "app") })
				h.show(w, shut)
				if found := w.found(h.code, h.toml); found == shut {
					t.Errorf("found: %v", found)
				}
			})
		}
	}
}
