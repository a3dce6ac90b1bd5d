package nginx_test

import (
	"net/http"
	"testing"

	"stile/nginx/nginxtest"
)

// cacheInFront is a site behind a second nginx that keeps whatever it may keep.
const cacheInFront = `
proxy_cache_path /run/stile/outer keys_zone=outer:1m use_temp_path=off;
server {
    listen 81;
    location / {
        proxy_cache outer;
        proxy_cache_key $request_uri;
        proxy_cache_valid any 1m;
        proxy_set_header Host site.example;
        proxy_pass http://127.0.0.1:80;
        add_header X-Cache $upstream_cache_status always;
    }
}
`

// C131, C132: nothing that stile says is kept by a cache in front; what the application says is.
func TestCacheInFront(t *testing.T) {
	o := plain(`location /denied/ { deny all; proxy_pass http://app; }`)
	o.Site += cacheInFront
	w := start(t, o)
	ask := func(target string) *nginxtest.Response {
		t.Helper()
		return w.Raw(81, nginxtest.Request("GET", target, ""))
	}
	for _, a := range []*nginxtest.Answer{nginxtest.Challenge, nginxtest.Refuse, nginxtest.Deny, nginxtest.Full} {
		w.d.Always(a)
		first, second := ask("/x"), ask("/x")
		if first.Body == second.Body || first.Status != second.Status {
			t.Errorf("%s: two clients got %q and %q", a.Verdict, first.Body, second.Body)
		}
		header(t, second, "X-Cache", "MISS")
		w.expectCounts(a.Verdict, 2, 0)
	}
	w.d.Always(nginxtest.Allow)
	w.expect("a page", ask("/x"), 200, 1, 1)
	w.expect("a page from the cache", ask("/x"), 200, 0, 0)

	// stile's public answers are kept as the daemon says: by default not at all.
	ask("/.stile/pass")
	header(t, ask("/.stile/pass"), "X-Cache", "MISS")

	// Nor is anything kept that nginx says for a daemon that is gone.
	w.d.Always(&nginxtest.Answer{Status: 431})
	ask("/y")
	w.d.Always(nginxtest.Allow)
	w.expect("after an odd answer", ask("/y"), 200, 2, 1)
	w.d.Stop()
	ask("/.stile/proof")
	w.d = nginxtest.StartDaemon(t, w.Socket())
	if r := ask("/.stile/proof"); r.Status != 200 {
		t.Errorf("a public file after the daemon was gone: %d", r.Status)
	}
}

// N12: nginx asks before it looks into a cache, so a page from the cache is asked about as well.
func TestCacheInTheSameLocation(t *testing.T) {
	o := plain(`
	proxy_cache_valid 200 1m;
	location /cached/ { proxy_cache own; proxy_cache_key $request_uri; proxy_pass http://app; }
	`)
	o.HTTP = "proxy_cache_path /run/stile/own keys_zone=own:1m use_temp_path=off;"
	w := start(t, o)
	w.expect("a miss", w.Get("/cached/x"), 200, 1, 1)
	w.expect("a hit", w.Get("/cached/x"), 200, 1, 0)
	w.d.Always(nginxtest.Challenge)
	w.expect("a hit for a stranger", w.Get("/cached/x"), 503, 1, 0)
}

// N12: the shipped ways to ask about misses only.
func TestSiteTryFilesCache(t *testing.T) {
	w := start(t, nginxtest.Options{Site: "try-files-cache.conf"})
	write(t, w, "pages/there.html", "from a file")
	w.d.Always(nginxtest.Challenge)
	r := w.Get("/there")
	if r.Body != "from a file" {
		t.Errorf("the page: %q", r.Body)
	}
	w.expect("a page that is there", r, 200, 0, 0)
	w.expect("a page that is not", w.Get("/elsewhere?x=1"), 503, 1, 0)
	w.expect("a form for a page that is not", w.Raw(80, nginxtest.Request("POST", "/elsewhere", "a=b")), 503, 1, 0)
	w.expect("a target above the pages", w.Get("/../nginx.conf"), 400, 0, 0)
	w.expect("a directory", w.Get("/"), 503, 1, 0)
	w.d.Always(nginxtest.Allow)
	w.expect("allowed", w.Get("/elsewhere"), 200, 1, 1)
	w.d.Stop()
	w.d = nil
	w.expect("no daemon", w.Get("/elsewhere"), 200, 0, 1)
}

func TestSiteProxyCacheTwoHop(t *testing.T) {
	w := start(t, nginxtest.Options{Site: "proxy-cache-two-hop.conf"})
	w.app.Handle(func(rw http.ResponseWriter, r *http.Request) { rw.Write([]byte("page " + r.RequestURI)) })
	const evil = "X-Real-IP: 192.0.2.66"
	w.d.Always(nginxtest.Challenge)
	w.expect("a stranger, a miss", w.Get("/x?a=%26"), 503, 1, 0)
	w.expect("a stranger again", w.Get("/x?a=%26"), 503, 1, 0)
	w.d.Always(nginxtest.Allow)
	r := w.Get("/x?a=%26", evil, "X-Forwarded-Proto: https")
	for _, c := range w.d.Calls("/check") {
		for name, want := range map[string]string{"X-Real-Ip": "127.0.0.1", "X-Forwarded-Proto": "http",
			"X-Forwarded-Host": "site.example", "X-Original-Uri": "/x?a=%26"} {
			if got := c.Header.Values(name); len(got) != 1 || got[0] != want {
				t.Errorf("the inner hop told %s: %q, want %q", name, got, want)
			}
		}
	}
	if hits := w.app.Hits(); len(hits) == 1 && (hits[0].Target != "/x?a=%26" || hits[0].Host != "site.example") {
		t.Errorf("the application got %+v", hits[0])
	}
	w.expect("with a pass, a miss", r, 200, 1, 1)
	w.d.Always(nginxtest.Challenge)
	w.expect("a stranger, a hit", w.Get("/x?a=%26"), 200, 0, 0)
	w.expect("another target", w.Get("/x?a=b"), 503, 1, 0)
	w.expect("a form", w.Raw(80, nginxtest.Request("POST", "/x?a=%26", "a=b")), 503, 1, 0)
	r = w.Raw(80, nginxtest.Request("POST", "/.stile/proof", "{}"))
	if calls := w.d.Calls("/.stile/proof"); len(calls) != 1 || calls[0].Method != "POST" || calls[0].Header.Get("X-Real-IP") != "127.0.0.1" {
		t.Errorf("a proof arrived as %+v", calls)
	}
	w.expect("a proof", r, 200, 0, 0)
	w.d.Stop()
	w.d = nil
	w.expect("no daemon", w.Get("/z"), 200, 0, 1)
}
