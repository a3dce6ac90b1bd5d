package lint_test

import (
	"strings"

	"stile/nginx/nginxtest"
)

// Locations where nobody is asked, or where the answer gets lost.
var asked = []hole{
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
		show: get81("/x", "401 2 0", "503 1 0"), // the page itself is asked about
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
		show:    get("/x", "401 2 0", "503 1 0"),
	},
	{
		name: "an auth_request_set of its own", code: "auth-request-set", answer: nginxtest.Challenge,
		open: `location /x { auth_request_set $mine $upstream_http_x_mine; proxy_pass http://app; }`,
		shut: `location /x { auth_request_set $mine $upstream_http_x_mine; auth_request_set $stile_verdict $upstream_http_x_stile_verdict;
			auth_request_set $stile_status $upstream_status; auth_request_set $stile_lease $stile_lease_said; proxy_pass http://app; }`,
		show: get("/x", "401 1 0", "503 1 0"),
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
			w.showSecond("/x%20HTTP/1.1%0d%0aHost:%20a%0d%0a%0d%0aGET%20/expensive", shut)
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
			w.showSecond("/files/x%20HTTP/1.1%0d%0aHost:%20a%0d%0a%0d%0aGET%20/expensive", shut)
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
		show: get("/expensive/page/x.css", "200 0 1", "429 1 0"),
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
		name: "a body of the site's own", code: "daemon-body", answer: nginxtest.Challenge,
		open: `proxy_set_body "a=$request_id";`,
		shut: `location /x { proxy_set_body "a=$request_id"; proxy_pass http://app; }`,
		show: get("/x", "400 1 0", "503 1 0"),
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
}
