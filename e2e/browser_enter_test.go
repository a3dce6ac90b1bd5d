package e2e

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/security"

	"stile/nginx/nginxtest"
)

// C014, C088, C045: a first visit solves at once, and ends at the very address that was
// asked for, with its query and fragment; on localhost, and on plain http under a name.
func TestBrowserC014LandsOnItsVeryAddress(t *testing.T) {
	t.Parallel()
	for _, host := range []string{"127.0.0.1", "gate.test"} {
		s := open(t, houseRules, "")
		s.pages(nil)
		secure := host == "127.0.0.1"
		for i, target := range []string{"/heavy/s?a=%26&b=+&c=;d&e=#part-2", "/heavy//x/%E4%F6%2Fy;z=1/~?q=a%26b&?#"} {
			v := s.tab("")
			began := time.Now()
			v.open(s.at(host, target))
			v.inside(s.at(host, target))
			t.Logf("inside after %v", time.Since(began).Round(time.Millisecond))
			sent, _, _ := strings.Cut(target, "#")
			if got := s.targets(); !slices.Equal(got, []string{"GET " + sent}) {
				t.Errorf("the application was asked for %q, want %q", got, sent)
			}
			if fetch := s.app.Hits()[0].Header.Get("Sec-Fetch-Mode"); (fetch != "") != secure {
				t.Errorf("%s: Sec-Fetch-Mode %q", host, fetch)
			}
			s.app.Reset()
			s.counted(float64(i+1), float64(i+1))
			if n := v.eval("history.length"); n != "2" { // with about:blank
				t.Errorf("%s entries in the history", n)
			}
			if got := v.eval("isSecureContext"); got != strconv.FormatBool(secure) {
				t.Errorf("%s: a secure context: %s", host, got)
			}
			c := v.pass(s.at(host, "/"))
			if c == nil || !c.HTTPOnly || c.Secure || c.SameSite != "Lax" || c.Path != "/" || c.Session {
				t.Errorf("the pass: %+v", c)
			} else if left := time.Until(time.Unix(int64(c.Expires), 0)); left < 23*time.Hour || left > 24*time.Hour {
				t.Errorf("the pass is kept for %v", left)
			}
		}
	}
}

// C072: over https and HTTP/2, as most sites are.
func TestBrowserC072HTTPS(t *testing.T) {
	t.Parallel()
	certificate, private := selfSigned(t)
	s := build(t, houseRules, nginxtest.Options{
		Site: `
server {
    listen 443 ssl http2;
    ssl_certificate     site.pem;
    ssl_certificate_key site.key;
    include snippets/stile.conf;
    location / { proxy_pass http://127.0.0.1:8080; }
}
`,
		Files: map[string]string{"site.pem": certificate, "site.key": private},
	})
	s.daemon.start()
	s.pages(nil)
	v := s.tab("")
	call(v, security.SetIgnoreCertificateErrors, security.SetIgnoreCertificateErrorsParams{Ignore: true})
	address := strings.Replace(on("gate.test", s.Addr(443), "/heavy/s?a=%26&b=+&c=;d&e=#part-2"), "http:", "https:", 1)
	v.open(address)
	v.inside(address)
	s.counted(1, 1)
	if c := v.pass(address); c == nil || !c.HTTPOnly || !c.Secure || c.SameSite != "Lax" {
		t.Errorf("the pass: %+v", c)
	}
	if protocol := v.eval("performance.getEntriesByType('navigation')[0].nextHopProtocol"); protocol != "h2" {
		t.Errorf("the protocol was %s", protocol)
	}
}

// C064: five tabs at once, and a page whose ten pictures are challenged, too. Each tab
// ends at its own address, and together they do not solve more than they must.
func TestBrowserC064FiveTabs(t *testing.T) {
	t.Parallel()
	s := open(t, houseRules, "")
	pictures := ""
	for i := range 10 {
		pictures += fmt.Sprintf("<img src='/heavy/part?%d' alt=''>", i)
	}
	s.pages(map[string]string{"/open/gallery": pictures, "/heavy/0": pictures})
	gallery := s.tab("")
	gallery.open(s.at("gate.test", "/open/gallery"))
	gallery.inside(s.at("gate.test", "/open/gallery"))
	tabs := []*tab{gallery}
	for len(tabs) < 6 {
		tabs = append(tabs, gallery.another(""))
	}
	address := func(i int) string { return s.at("gate.test", fmt.Sprintf("/heavy/%d?tab=%d&b=%%26#there", i, i)) }
	for i, v := range tabs[1:] {
		v.start(fmt.Sprintf("location.href = %q", address(i)))
	}
	for i, v := range tabs[1:] {
		v.inside(address(i))
	}
	solved := s.daemon.metric("stile_challenges_solved_total", "")
	t.Logf("solved %v times", solved)
	if issued := s.daemon.metric("stile_challenges_issued_total", "pow"); issued > 5 || solved < 1 || solved > 5 {
		t.Errorf("%v challenges were made and %v solved for five tabs", issued, solved)
	}
	gallery.pass(s.at("gate.test", "/"))
	tabs[1].open(address(0))
	tabs[1].until("[...document.images].length == 10 && [...document.images].every(i => i.complete)")
	parts := 0
	for _, target := range s.targets() {
		if strings.HasPrefix(target, "GET /heavy/part?") {
			parts++
		}
	}
	if parts < 10 {
		t.Errorf("%d of ten pictures came with a pass", parts)
	}
}

// Back and Forward, before, during and after.
func TestBrowserBackAndForward(t *testing.T) {
	t.Parallel()
	s := open(t, houseRules, "")
	s.pages(map[string]string{
		"/open/start": "<a id=a href='/heavy/a?x=%26#there'>a</a>",
		"/heavy/a":    "<a id=b href='/heavy/b'>b</a>",
	})
	h := newHold("/.stile/proof")
	x := s.wire(80, h.meddle)
	start, a, b := x.at("gate.test", "/open/start"), x.at("gate.test", "/heavy/a?x=%26#there"), x.at("gate.test", "/heavy/b")
	v := s.tab("")
	v.open(start)
	v.click("#a")
	v.waits(h) // it has solved
	v.start("history.back()")
	v.inside(start)
	s.counted(1, 0)
	v.start("history.forward()")
	v.waits(h)
	h.let()
	v.inside(a)
	solved := s.daemon.metric("stile_challenges_solved_total", "")
	if solved > 2 {
		t.Errorf("%v were solved", solved)
	}
	v.click("#b")
	v.inside(b)
	for _, step := range []struct{ where, address string }{
		{"back", a}, {"back", start}, {"forward", a}, {"forward", b}, {"back", a}, {"back", start},
	} {
		v.start("history." + step.where + "()")
		v.inside(step.address)
	}
	if n := v.eval("history.length"); n != "4" {
		t.Errorf("%s entries in the history, want about:blank and three pages", n)
	}
	s.counted(2, solved)

	// Back from the browser's own store of pages, which keeps them as they were left: the
	// application's, and ours, half-way.
	h = newHold("/.stile/proof")
	x = s.wire(80, h.meddle)
	v = s.tab("")
	v.open(x.at("gate.test", "/.stile/prove"))
	v.waits(h)
	v.start("location.href = '/open/start'")
	v.inside(x.at("gate.test", "/open/start"))
	v.eval("window.left = true")
	h.let()
	v.start("history.back()")
	v.says("proved")
	v.start("history.forward()")
	v.inside(x.at("gate.test", "/open/start"))
	t.Logf("the application's page was kept: %s", v.eval("window.left === true"))
}

// A page that asks for more than the pass is worth: one more challenge, once, and the
// other pages still take the pass.
func TestBrowserC076StepUp(t *testing.T) {
	t.Parallel()
	s := open(t, strings.Replace(houseRules, "[[rule]]\nname = \"heavy\"", "[[rule]]\nname = \"top\"\npath = \"/top/**\"\ndo = \"challenge\"\nlevel = 3\n[[rule]]\nname = \"heavy\"", 1), "")
	s.pages(nil)
	v := s.tab("")
	for i, target := range []string{"/heavy/x", "/top/y?z=%26#there", "/heavy/x", "/top/x"} {
		v.open(s.at("gate.test", target))
		v.inside(s.at("gate.test", target))
		s.counted(float64(min(i+1, 2)), float64(min(i+1, 2)))
	}
}

// C097, C098: the browser asks for the site's icon meanwhile, and everything is
// challenged, always: the visitor ends at the page.
func TestBrowserC097IconIsNoPage(t *testing.T) {
	t.Parallel()
	s := open(t, "include = []\n"+easy+"[[rule]]\nname = \"all\"\npath = \"/**\"\ndo = \"challenge\"\n", "")
	s.app.Handle(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, "<!doctype html><title>inside</title><link rel=icon href=/favicon.ico><link rel=apple-touch-icon href=/apple-touch-icon.png>")
	})
	icon := make(chan struct{}, 10)
	x := s.wire(80, func(w http.ResponseWriter, r *http.Request, pass http.Handler) {
		pass.ServeHTTP(w, r)
		if r.URL.Path == "/favicon.ico" {
			icon <- struct{}{}
		}
	})
	v := s.tab("if (!document.title) fetch('/apple-touch-icon.png')")
	v.open(x.at("gate.test", "/page?x"))
	v.inside(x.at("gate.test", "/page?x"))
	<-icon
	s.counted(1, 1)
	for _, p := range slices.Concat(x.of("/favicon.ico"), x.of("/apple-touch-icon.png")) {
		if p.Status != 200 && (p.Status != 503 || strings.Contains(p.Body, "<")) {
			t.Errorf("%s was answered %d %s %q", p.Target, p.Status, p.Type, p.Body)
		}
	}
}

// A site whose pages go through a service worker of its own, which hands a navigation on
// as it is, or makes a request of its own from it.
func TestBrowserServiceWorker(t *testing.T) {
	t.Parallel()
	s := open(t, houseRules, "")
	x := s.wire(80, nil)
	for i, ask := range []string{"fetch(e.request)", "fetch(new Request(e.request, {cache: 'reload'}))"} {
		s.app.Handle(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/open/worker.js" {
				w.Header().Set("Content-Type", "text/javascript")
				w.Header().Set("Service-Worker-Allowed", "/")
				fmt.Fprintf(w, `
					addEventListener('install', () => skipWaiting());
					addEventListener('activate', e => e.waitUntil(clients.claim()));
					addEventListener('fetch', e => e.respondWith(%s));`, ask)
				return
			}
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprint(w, "<!doctype html><title>inside</title>")
		})
		v := s.tab("")
		v.open(x.at("127.0.0.1", "/open/start"))
		v.eval("navigator.serviceWorker.register('/open/worker.js', {scope: '/'}).then(() => 0)")
		v.until("navigator.serviceWorker.controller")
		target := fmt.Sprintf("/heavy/%d?a=%%26", i)
		v.open(x.at("127.0.0.1", target+"#b"))
		v.inside(x.at("127.0.0.1", target+"#b"))
		if asked := x.of(target); len(asked) == 0 || asked[0].Header.Get("Sec-Fetch-Dest") != "empty" {
			t.Errorf("%s: it did not go through the service worker: %v", ask, asked)
		}
		s.counted(float64(i+1), float64(i+1))
	}
}
