package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"stile/nginx/nginxtest"
)

// Browsers whose owners allow no site any cookie, or any JavaScript.
const (
	noCookies = `{"profile":{"default_content_setting_values":{"cookies":2}}}`
	noScripts = `{"profile":{"default_content_setting_values":{"javascript":2}}}`
	neither   = `{"profile":{"default_content_setting_values":{"cookies":2,"javascript":2}}}`
)

// tabOf opens a window of a browser with preferences of its own.
func (s *site) tabOf(preferences string) *tab {
	s.t.Helper()
	return newTab(s.t, useChromium(s.t, preferences), "", chromedp.WithNewBrowserContext())
}

// lightRules ask for the lowest level, which waiting earns, too.
const lightRules = "include = []\n" + easy + `
[[rule]]
name = "light"
path = "/light/**"
do = "challenge"
level = 1
[[rule]]
name = "strict"
path = "/strict/**"
do = "challenge"
level = 2
`

// C062: cookies are blocked. The puzzle is solved once, then the page says what is
// wrong, and nothing happens by itself any more.
func TestBrowserC062CookiesBlocked(t *testing.T) {
	t.Parallel()
	s := open(t, houseRules, "")
	s.pages(nil)
	v := s.tabOf(noCookies)
	v.open(s.at("gate.test", "/heavy/x"))
	v.says("cookies")
	v.picture("cookies")
	s.counted(1, 1)
	v.after(20 * time.Second)
	s.counted(1, 1)
	v.says("cookies")
	if log := s.Access(); strings.Count(log, "GET /heavy/x") != 1 || !strings.Contains(log, `"GET /heavy/x HTTP/1.1" 503`) {
		t.Errorf("nginx was asked:\n%s", log)
	}

	// Each press of the button is one more try, and no more.
	v = s.tabOf(noCookies)
	v.open(s.at("gate.test", "/heavy/y"))
	v.says("cookies")
	v.click("button")
	eventually(t, "another challenge", func() bool { return s.daemon.metric("stile_challenges_solved_total", "") == 3 })
	v.says("cookies")
	v.after(20 * time.Second)
	s.counted(3, 3)
	if got := s.targets(); len(got) > 0 {
		t.Errorf("the application was asked for %q", got)
	}
}

// C092: without JavaScript the page's refresh leads in after the wait, to the same
// address but for the fragment, which no server is told.
func TestBrowserC092WithoutJavaScript(t *testing.T) {
	t.Parallel()
	s := build(t, lightRules, nginxtest.Options{})
	now := &clock{t: time.Now()}
	s.inside(now.now)
	s.pages(nil)
	v := s.tabOf(noScripts)
	address := s.at("gate.test", "/light/s?a=%26&b=+&c=;d&e=")
	v.open(address)
	v.picture("nojs")
	if wait := v.text(); !strings.Contains(wait, "10\u00a0s") && !strings.Contains(wait, "11\u00a0s") {
		t.Errorf("the wait is not told: %s", wait)
	}
	now.step(11 * time.Second)
	v.hurry()
	v.inside(address)
	s.counted(1, 1)

	// The same by a link from another site, with what a browser tells of that.
	v = s.tabOf(noScripts)
	address = s.at("127.0.0.1", "/light/s?from=other")
	s.pages(map[string]string{"/open/start": "<a id=a href='" + address + "'>a</a>"})
	v.open(s.at("gate.test", "/open/start"))
	v.click("#a")
	v.says("wait_link")
	now.step(11 * time.Second)
	v.hurry()
	v.inside(address)

	// Where more than waiting is asked for, it says that.
	v = s.tabOf(noScripts)
	v.open(s.at("gate.test", "/strict/x"))
	v.says("need_js")
	v.picture("nojs-needed")
}

// C062, C092: neither cookies nor JavaScript. One wait, then it says what is wrong.
func TestBrowserC062NeitherCookiesNorJavaScript(t *testing.T) {
	t.Parallel()
	s := build(t, lightRules, nginxtest.Options{})
	now := &clock{t: time.Now()}
	s.inside(now.now)
	s.pages(nil)
	v := s.tabOf(neither)
	address := s.at("gate.test", "/light/x?y")
	v.open(address)
	now.step(11 * time.Second)
	v.hurry()
	v.says("cookies")
	v.picture("nojs-cookies")
	v.after(20 * time.Second)
	v.says("cookies")
	s.counted(2, 1)
	if n := strings.Count(s.Access(), "GET /light/x?y"); n != 2 {
		t.Errorf("nginx was asked %d times:\n%s", n, s.Access())
	}
}

// In a browser that lacks something, the page finds another way to solve.
func TestBrowserC087WithoutWorkersOrWebAssembly(t *testing.T) {
	t.Parallel()
	s := open(t, houseRules, "")
	s.pages(nil)
	for _, x := range []struct{ name, first string }{
		{"no workers", "delete window.Worker;"},
		{"workers that throw", "window.Worker = function() { throw new Error('no') };"},
		{"workers that never answer", "window.Worker = function() { this.postMessage = this.terminate = () => {} };"},
		{"no WebAssembly", "delete window.WebAssembly;"},
		{"WebAssembly that throws", "WebAssembly.Module = function() { throw new WebAssembly.CompileError('no') };"},
		{"neither", "delete window.Worker; delete window.WebAssembly;"},
		{"no storage", "Object.defineProperty(window, 'sessionStorage', {get() { throw new DOMException('no', 'SecurityError'); }});"},
		{"no BroadcastChannel", "delete window.BroadcastChannel;"},
		{"nothing that is newer than 2017", "delete window.BigInt; delete window.crypto; delete window.globalThis; delete window.queueMicrotask; delete window.structuredClone; delete Array.prototype.flat; delete Array.prototype.at; delete Object.fromEntries; delete String.prototype.matchAll; delete Promise.allSettled; delete Promise.any;"},
	} {
		v := s.tab("if (location.pathname.startsWith('/heavy/')) {" + x.first + "}")
		began := time.Now()
		address := s.at("gate.test", "/heavy/"+strings.ReplaceAll(x.name, " ", "-"))
		v.open(address)
		v.inside(address)
		t.Logf("%s: inside after %v", x.name, time.Since(began).Round(time.Millisecond))
	}
	s.counted(9, 9)
}

// C086: odd numbers of processors.
func TestBrowserC086OddProcessors(t *testing.T) {
	t.Parallel()
	s := open(t, houseRules, "")
	s.pages(nil)
	counts := []string{"undefined", "0", "1", "3", "1.5", "512", "NaN"}
	for i, n := range counts {
		v := s.tab("Object.defineProperty(Navigator.prototype, 'hardwareConcurrency', {get: () => " + n + "});")
		address := s.at("gate.test", fmt.Sprintf("/heavy/%d", i))
		v.open(address)
		v.inside(address)
		if got := v.eval("navigator.hardwareConcurrency"); got != n {
			t.Errorf("the browser has %s processors, want %s", got, n)
		}
	}
	s.counted(float64(len(counts)), float64(len(counts)))
}

// C087, N13: policies of the site's own. What the site's nginx says of its own pages does
// not reach ours; what another proxy adds to every page, ours can mostly live with.
func TestBrowserC087PoliciesOfTheSite(t *testing.T) {
	t.Parallel()
	outer := []struct {
		policy string
		forbid string // what it keeps our page from, as the browser reports it
	}{
		{"worker-src 'none'", "worker-src"},
		{"script-src 'self'", "script-src"},
		{"script-src 'self'; worker-src 'none'", "worker-src"},
		{"default-src 'self'", "style-src-elem"},
		{"default-src 'none'; script-src 'self'; connect-src 'self'", "style-src-elem"},
		{"require-trusted-types-for 'script'", "require-trusted-types-for"},
	}
	conf := `
add_header Content-Security-Policy "default-src 'none'" always;
server {
    listen 80;
    include snippets/stile.conf;
    add_header Content-Security-Policy "default-src 'none'" always;
    location / { proxy_pass http://127.0.0.1:8080; }
}
`
	for i, x := range outer {
		conf += fmt.Sprintf(`
server {
    listen %d;
    add_header Content-Security-Policy %q always;
    location / { proxy_pass http://127.0.0.1:80; proxy_set_header Host $http_host; }
}
`, 9001+i, x.policy)
	}
	s := open(t, houseRules, conf)
	s.pages(nil)
	const watch = `addEventListener('securitypolicyviolation', e => sessionStorage.forbidden = (sessionStorage.forbidden || '') + e.effectiveDirective + ' ');`
	f := func(what, address, forbid string) {
		t.Helper()
		v := s.tab(watch)
		began := time.Now()
		v.open(address)
		v.inside(address)
		t.Logf("%s: inside after %v", what, time.Since(began).Round(time.Millisecond))
		if got := v.eval("sessionStorage.forbidden || ''"); forbid == "" && got != "" || !strings.Contains(got, forbid) {
			t.Errorf("%s: forbidden was %q, want %q", what, got, forbid)
		}
	}
	f("of the site's nginx", s.at("gate.test", "/heavy/x"), "")
	for i, x := range outer {
		f(x.policy, on("gate.test", s.Addr(9001+i), "/heavy/x"), x.forbid)
	}
	s.counted(float64(1+len(outer)), float64(1+len(outer)))
}

// Policies that forbid our script, or it to speak to the site, added by another proxy: the
// page's link leads in all the same.
func TestBrowserScriptForbidden(t *testing.T) {
	t.Parallel()
	s := build(t, lightRules, nginxtest.Options{Site: plainSite + `
server {
    listen 81;
    add_header Content-Security-Policy "default-src 'none'" always;
    location / { proxy_pass http://127.0.0.1:80; proxy_set_header Host $http_host; }
}
server {
    listen 82;
    add_header Content-Security-Policy "default-src 'none'; script-src 'self'; style-src 'self'" always;
    location / { proxy_pass http://127.0.0.1:80; proxy_set_header Host $http_host; }
}
`})
	now := &clock{t: time.Now()}
	s.inside(now.now)
	s.pages(nil)
	for _, port := range []int{81, 82} {
		v := s.tab(`const timeout = setTimeout; window.setTimeout = (f, ms, ...a) => timeout(f, ms / 40, ...a);`)
		address := on("gate.test", s.Addr(port), fmt.Sprintf("/light/x?port=%d", port))
		v.open(address)
		if port == 82 {
			v.says("network") // as far as the script can tell
		}
		v.says("wait_link")
		v.picture(fmt.Sprintf("forbidden-%d", port))
		now.step(11 * time.Second)
		v.click("a.act")
		v.inside(address)
	}
}

// The slowest way there is, in plain JavaScript on the page's own thread: the page still
// paints its progress and answers to clicks.
func TestBrowserSlowSolvePaints(t *testing.T) {
	t.Parallel()
	s := open(t, houseRules, "")
	s.pages(nil)
	v := s.tab(`if (location.pathname.startsWith('/heavy/')) {
		delete window.Worker;
		delete window.WebAssembly;
		window.clicks = 0;
		addEventListener('click', () => clicks++);
		const painted = new Set();
		requestAnimationFrame(function frame() {
			const bar = document.querySelector('progress');
			if (bar) sessionStorage.painted = painted.add(bar.value).size;
			requestAnimationFrame(frame);
		});
	}`)
	address := s.at("gate.test", "/heavy/x")
	v.open(address)
	v.until("document.querySelector('progress').value >= 3")
	v.do(chromedp.MouseClickXY(20, 20))
	if clicks, done := v.eval("window.clicks"), v.eval("document.querySelector('progress').position"); clicks != "1" {
		t.Errorf("%s clicks were noticed with %s of the work done", clicks, done)
	}
	v.picture("solving")
	v.inside(address)
	if n := v.eval("sessionStorage.painted >= 10"); n != "true" {
		t.Errorf("%s states of the bar were painted", v.eval("sessionStorage.painted"))
	}
}
