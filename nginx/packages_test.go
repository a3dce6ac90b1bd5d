package nginx_test

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	"stile/config"
	"stile/decide"
	"stile/nginx/nginxtest"
)

// sites/packages.toml is a valid configuration, and its own expectations hold.
func TestSitePackagesRules(t *testing.T) {
	text, err := os.ReadFile("sites/packages.toml")
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Parse("packages.toml", text)
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range decide.Expectations(cfg) {
		t.Error(err)
	}
	gated := 0
	for _, r := range cfg.Rules {
		if r.Gate > 0 && cfg.Gates[r.Gate-1].Name == "decode" {
			gated++
			if strings.Join(r.Match.Path, " ") != "/packages/**" {
				t.Errorf("rule %q is gated", r.Name)
			}
		}
	}
	if gated != 2 {
		t.Errorf("%d rules are gated, want 2", gated)
	}
	// Both files speak of the same folder.
	site, err := os.ReadFile("sites/packages.conf")
	if err != nil {
		t.Fatal(err)
	}
	if folder := "/run/stile/packages/"; !strings.Contains(string(text), folder) || !strings.Contains(string(site), "alias "+folder) {
		t.Errorf("packages.conf and packages.toml look into different folders")
	}
}

// Every route of sites/packages.conf, with a stand-in for the daemon whose gate is on /packages/.
func TestSitePackages(t *testing.T) {
	w := start(t, nginxtest.Options{Site: "packages.conf"})
	l := nginxtest.StartLeaseLog(t, w.LeaseSocket())
	write(t, w, "pages/packages/halogen/1.2.0.html", "<h1>halogen 1.2.0</h1>")
	write(t, w, "packages/halogen/1.2.0.json", `{"name":"halogen"}`)
	write(t, w, "packages/halogen/1.2.0.tar.gz", "0123456789")

	gated := func(c nginxtest.Call) *nginxtest.Answer {
		if c.Target != "/check" {
			return nil
		}
		if strings.HasPrefix(c.Header.Get("X-Original-URI"), "/packages/") {
			return nginxtest.Admit
		}
		return nginxtest.Allow
	}
	w.d.Script(gated)
	w.app.Handle(func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Vary", "Accept")
		fmt.Fprintf(rw, "rendered %s for %s", r.RequestURI, r.Header.Get("Accept"))
	})
	lines := 0
	// f walks one route: who answers, whether stile was asked, and whether a lease has ended.
	f := func(r *nginxtest.Response, status int, body string, checks, hits, leases int) {
		t.Helper()
		if r.Body != body {
			t.Errorf("the client got %q, want %q", r.Body, body)
		}
		w.expect("the route", r, status, checks, hits)
		lines += leases
		if got := l.Wait(lines); len(got) != lines || lines > 0 && !got[lines-1].Done {
			t.Errorf("%d lines, want %d; the last is %+v", len(got), lines, got[len(got)-1])
		}
	}
	const page, kept = "/packages/halogen/1.2.0", "<h1>halogen 1.2.0</h1>"

	// A kept page, for whoever wants HTML.
	for _, accept := range []string{
		"text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8",
		"text/html, text/plain, text/sgml, */*;q=0.01",
		"application/xhtml+xml, text/html",
		"application/xhtml+xml,text/html , */*;q=0.1",
		"text/html",
		"*/*",
		"",
	} {
		var headers []string
		if accept != "" {
			headers = []string{"Accept: " + accept}
		}
		r := w.Get(page, headers...)
		header(t, r, "Content-Type", "text/html")
		header(t, r, "Vary", "Accept")
		f(r, 200, kept, 0, 0, 0)
		f(w.Do("HEAD", page, headers...), 200, "", 0, 0, 0)
	}
	f(w.Get(page+"?"), 200, kept, 0, 0, 0)
	f(w.Get("/packages/./x/../halogen//1.2%2E0"), 200, kept, 0, 0, 0)
	there := w.Get(page)
	f(w.Get(page, "If-None-Match: "+there.Header.Get("ETag")), 304, "", 0, 0, 0)
	f(w.Get(page, "Range: bytes=4-10"), 206, "halogen", 0, 0, 0)

	// The same page for those who want something else, or may: the application decides, in its turn.
	for _, accept := range []string{
		"application/json, text/html;q=0.9",
		"application/json",
		"APPLICATION/JSON",
		"text/html, application/json;q=0.1",
		"application/vnd.index+json, text/html",
		"text/html;q=0.5, */*",
		"text/html;q=0, */*",
		"text/htmlx",
		"x-text/html",
		"text/plain",
		"image/avif,image/webp,*/*",
		"*/*;q=0.1",
	} {
		r := w.Get(page, "Accept: "+accept)
		header(t, r, "Vary", "Accept")
		f(r, 200, "rendered "+page+" for "+accept, 1, 1, 1)
		f(w.Do("HEAD", page, "Accept: "+accept), 200, "", 1, 1, 1)
	}
	f(w.Get(page+"?tab=files", "Accept: text/html"), 200, "rendered "+page+"?tab=files for text/html", 1, 1, 1)
	f(w.Raw(80, nginxtest.Request("POST", page, "a=b", "Accept: text/html")), 200, "rendered "+page+" for text/html", 1, 1, 1)

	// Pages that are not there.
	for _, target := range []string{"/packages/", "/packages/halogen", "/packages/halogen/", page + "/", page + "/files", page + ".html",
		page + ".app", "/packages/halogen/2.0.0", "/packages/other/1.2.0", "/packages/halogen/..%2fhalogen%2f1.2.1"} {
		f(w.Get(target, "Accept: text/html"), 200, "rendered "+target+" for text/html", 1, 1, 1)
	}

	// Searches and the rest, uploads, downloads: asked about, and no lease.
	f(w.Get("/search?q=lens", "Accept: text/html"), 200, "rendered /search?q=lens for text/html", 1, 1, 0)
	f(w.Get("/", "Accept: */*"), 200, "rendered / for */*", 1, 1, 0)
	f(w.Get("/packages", "Accept: */*"), 200, "rendered /packages for */*", 1, 1, 0)
	for _, method := range []string{"POST", "PUT"} {
		f(w.Raw(80, nginxtest.Request(method, "/upload/halogen/1.2.1", strings.Repeat("x", 3<<20))), 200, "rendered /upload/halogen/1.2.1 for ", 1, 1, 0)
	}
	f(w.Get("/download/halogen/1.2.0.json"), 200, `{"name":"halogen"}`, 1, 0, 0)
	f(w.Get("/download/halogen/1.2.0.tar.gz", "Range: bytes=2-4"), 206, "234", 1, 0, 0)
	f(w.Get("/download/halogen/1.2.0.tar.gz", "Range: bytes=-1"), 206, "9", 1, 0, 0)
	f(w.Do("HEAD", "/download/halogen/1.2.0.tar.gz"), 200, "", 1, 0, 0)
	if r := w.Get("/download/halogen/9.json"); r.Status != 404 {
		t.Errorf("a missing file: %d", r.Status)
	}
	w.expectCounts("a missing file", 1, 0)

	// An upload streams: the application reads it while it comes.
	reading := make(chan struct{})
	w.d.Script(func(c nginxtest.Call) *nginxtest.Answer {
		if c.Target == "/check" {
			close(reading)
		}
		return gated(c)
	})
	c := w.Dial(80)
	io.WriteString(c, "PUT /upload/halogen/1.2.1 HTTP/1.1\r\nHost: site.example\r\nContent-Length: 4\r\n\r\nab")
	receive(t, "the check, before the body is whole", reading)
	w.d.Script(gated)
	io.WriteString(c, "cd")
	r, err := c.Answer("PUT")
	if err != nil {
		t.Fatal(err)
	}
	f(r, 200, "rendered /upload/halogen/1.2.1 for ", 1, 1, 0)

	// A full gate refuses misses alone.
	w.d.Script(func(c nginxtest.Call) *nginxtest.Answer {
		if a := gated(c); a != nginxtest.Admit {
			return a
		}
		return nginxtest.Full
	})
	r = w.Get(page, "Accept: application/json")
	header(t, r, "Retry-After", "3")
	w.expect("a miss", r, 503, 1, 0)
	f(w.Get(page, "Accept: text/html"), 200, kept, 0, 0, 0)
	f(w.Get("/search?q=lens"), 200, "rendered /search?q=lens for ", 1, 1, 0)
	f(w.Raw(80, nginxtest.Request("PUT", "/upload/x", "abc")), 200, "rendered /upload/x for ", 1, 1, 0)
	f(w.Get("/download/halogen/1.2.0.json"), 200, `{"name":"halogen"}`, 1, 0, 0)

	// A stranger who has to prove something first: misses alone again.
	w.d.Always(nginxtest.Challenge)
	w.expect("a miss", w.Get(page+"/files"), 503, 1, 0)
	f(w.Get(page), 200, kept, 0, 0, 0)
	w.d.Stop()
	w.d = nil
	w.expect("no daemon", w.Get(page+"/files"), 200, 0, 1)
}
