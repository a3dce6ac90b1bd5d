package lint_test

import (
	"strings"

	"stile/nginx/nginxtest"
)

// Ways around, hops in front, and who somebody is.
var around = []hole{
	{
		name: "the same backend by another port", code: "bypass", answer: nginxtest.Refuse,
		open: `} server { listen 81; listen unix:/run/stile/w.sock; listen *:1; server_name site.example; location / { proxy_pass http://app; }`,
		shut: `} server { listen 81; listen unix:/run/stile/w.sock; server_name site.example; include snippets/stile.conf; location / { proxy_pass http://app; }`,
		show: get81("/x", "200 0 1", "429 1 0"),
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
		show: showCopy,
	},
	{
		name: "a post_action of everything", code: "mirror", answer: nginxtest.Refuse,
		open: `post_action /done; location = /done { internal; proxy_pass http://app; }`,
		shut: `location /x { post_action /done; proxy_pass http://app; } location = /done { internal; proxy_pass http://app; }`,
		show: showCopy,
	},
	{
		name: "a name that is taken", code: "name-taken", answer: nginxtest.Refuse, warns: "conflicting server name",
		open: `} server { listen 81 default_server; return 404; }
			server { listen 81; server_name site.example; location / { proxy_pass http://app; } }
			server { listen 81; server_name site.example;` + guarded,
		shut: `} server { listen 81 default_server; return 404; }
			server { listen 81; server_name site.example;` + guarded + `}
			server { listen 81; server_name site.example; location / { proxy_pass http://app; }`,
		show: get81("/x", "200 0 1", "429 1 0"),
	},
	{
		name: "a head that is longer than the daemon reads", code: "large-head", answer: nginxtest.Allow,
		open: `large_client_header_buffers 4 64k;`,
		shut: `large_client_header_buffers 4 16k;`,
		show: func(w *world, shut bool) {
			w.d.Script(func(c nginxtest.Call) *nginxtest.Answer {
				if len(c.Header.Get("Cookie")) > 48<<10 {
					return &nginxtest.Answer{Status: 431} // as the daemon does
				}
				return nil
			})
			if r := w.Get("/x", "Cookie: a="+strings.Repeat("x", 50<<10)); shut {
				w.expect(r, 400, 0, 0) // nginx's own word, which says why
			} else {
				w.expect(r, 403, 1, 0)
			}
		},
	},
}

// showCopy: the application works for a request that is refused. nginx asks it aside, maybe after the answer.
func showCopy(w *world, shut bool) {
	if r := w.Get("/x"); r.Status != 429 {
		w.t.Errorf("%d", r.Status)
	}
	await(w.t, func() bool { return shut || len(w.app.Hits()) > 0 })
	if (len(w.app.Hits()) == 0) != shut {
		w.t.Errorf("%+v", w.app.Hits())
	}
}
