package lint_test

import (
	"stile/nginx/nginxtest"
)

// What a server's rewrite phase does when it runs again for the question to stile.
var again = []hole{
	{
		name: "a rewrite of everything", code: "rewritten", answer: nginxtest.Refuse,
		open: `} server { listen 81; if (!-e $request_filename) { rewrite ^(.*)$ /index.php?q=$1 last; }` + guarded,
		shut: `} server { listen 81; if ($uri ~ ^/\.stile/) { break; } if (!-e $request_filename) { rewrite ^(.*)$ /index.php?q=$1 last; }` + guarded,
		show: get81("/x", "200 0 2", "429 1 0"), // the one that is asked, and the one that is served
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
		show: get81("/x/", "500 0 0", "200 1 1"),
	},
	{
		name: "nothing but an API", code: "rewritten", answer: nginxtest.Allow,
		open: `} server { listen 81; if ($uri !~ ^/api/) { return 403; }` + guarded,
		shut: `} server { listen 81; if ($uri ~ ^/\.stile/) { break; } if ($uri !~ ^/api/) { return 403; }` + guarded,
		show: get81("/api/x", "403 0 0", "200 1 1"),
	},
	{
		name: "a text for what is no API", code: "rewritten", answer: nginxtest.Refuse,
		open: `} server { listen 81; if ($uri !~ ^/api/) { return 200 "ok"; }` + guarded,
		shut: `} server { listen 81; if ($uri ~ ^/\.stile/) { break; } if ($uri !~ ^/api/) { return 200 "ok"; }` + guarded,
		show: get81("/api/x", "200 0 1", "429 1 0"),
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
}
