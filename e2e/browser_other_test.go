package e2e

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/target"
	"github.com/chromedp/chromedp"
)

// frame is the page from another site inside the tab's.
func (v *tab) frame() *tab {
	v.Helper()
	var id target.ID
	v.wait("a frame of another site", func() bool {
		targets, err := chromedp.Targets(v.ctx)
		if err != nil {
			v.Fatal(err)
		}
		i := slices.IndexFunc(targets, func(x *target.Info) bool {
			return x.Type == "iframe" && x.BrowserContextID == chromedp.FromContext(v.life).BrowserContextID
		})
		if i >= 0 {
			id = targets[i].TargetID
		}
		return i >= 0
	})
	return newTab(v.TB, v.life, "", chromedp.WithTargetID(id))
}

// clickAway clicks on what opens a new tab, and is that tab.
func (v *tab) clickAway(opener *tab, selector string) *tab {
	v.Helper()
	opened := chromedp.WaitNewTarget(opener.ctx, func(x *target.Info) bool { return x.Type == "page" })
	v.click(selector)
	select {
	case id, ok := <-opened:
		if !ok {
			v.Fatal("no new tab")
		}
		return newTab(v.TB, v.life, "", chromedp.WithTargetID(id))
	case <-v.ctx.Done():
		v.Fatalf("no new tab: %s", v.text())
		return nil
	}
}

// C069: arriving by a link from another site. A pass is sent along; without one the
// challenge is solved once, as ever.
func TestBrowserC069ComingFromAnotherSite(t *testing.T) {
	t.Parallel()
	s := open(t, houseRules, "")
	link := func(target string) string { return fmt.Sprintf("<a id=a href='%s'>a</a>", s.at("gate.test", target)) }
	s.pages(map[string]string{"/open/1": link("/heavy/1?x=%26"), "/open/2": link("/heavy/2?y")})
	v := s.tab("")
	v.open(s.at("other.test", "/open/1"))
	v.click("#a")
	v.inside(s.at("gate.test", "/heavy/1?x=%26"))
	s.counted(1, 1)
	v.open(s.at("other.test", "/open/2"))
	v.click("#a")
	v.inside(s.at("gate.test", "/heavy/2?y"))
	s.counted(1, 1)
	if got := v.eval("document.referrer"); got != s.at("other.test", "/") {
		t.Errorf("the visitor came from %q", got)
	}
}

// C071: in a frame on another site, where the browser keeps no cookies for it, and is not
// to work for it either. The page offers a new tab, and does not go round in circles.
func TestBrowserC071ForeignFrame(t *testing.T) {
	t.Parallel()
	s := open(t, houseRules, "")
	x := s.wire(80, nil)
	s.pages(map[string]string{"/open/frame": fmt.Sprintf("<iframe src='%s' width=600 height=500></iframe>", x.at("gate.test", "/heavy/x?y=%26"))})
	for _, blocked := range []bool{true, false} {
		v := s.tab("")
		call(v, network.SetCookieControls, network.SetCookieControlsParams{EnableThirdPartyCookieRestriction: blocked})
		v.open(x.at("other.test", "/open/frame"))
		frame := v.frame()
		frame.says("frame")
		v.picture(fmt.Sprintf("frame-%v", blocked))
		frame.after(20 * time.Second)
		frame.says("frame")
		fresh := frame.clickAway(v, "a.act")
		fresh.inside(x.at("gate.test", "/heavy/x?y=%26"))
	}
	s.counted(4, 2) // two in frames, two in tabs
	if n := len(x.of("/heavy/")); n != 6 {
		t.Errorf("nginx was asked %d times, want 6", n)
	}
}

// C077: the browser is updated, or set to another language, between solving and coming
// back: the pass is still good.
func TestBrowserC077AnotherBrowserVersion(t *testing.T) {
	t.Parallel()
	s := open(t, houseRules, "")
	s.pages(nil)
	v := s.tab("")
	v.open(s.at("gate.test", "/heavy/x"))
	v.inside(s.at("gate.test", "/heavy/x"))
	call(v, emulation.SetUserAgentOverride, emulation.SetUserAgentOverrideParams{
		UserAgent: "Mozilla/5.0 (X11; Linux x86_64; rv:141.0) Gecko/20100101 Firefox/141.0", AcceptLanguage: "fa,de;q=0.5",
	})
	call(v, network.SetExtraHTTPHeaders, network.SetExtraHTTPHeadersParams{Headers: network.Headers{"DNT": "1", "Sec-GPC": "1"}})
	v.open(s.at("gate.test", "/heavy/y"))
	v.inside(s.at("gate.test", "/heavy/y"))
	s.counted(1, 1)
	hits := s.app.Hits()
	if last := hits[len(hits)-1]; last.Header.Get("DNT") != "1" || !strings.Contains(last.Header.Get("User-Agent"), "Firefox") {
		t.Errorf("the browser did not change: %v", last.Header)
	}
}

// C103: a form of 5 KB is sent without a pass, or with one that has expired. It is
// refused with a page that leads to the check in another tab; Back has the form as it
// was; sent again, it reaches the application once.
func TestBrowserC103FormIsNotLost(t *testing.T) {
	t.Parallel()
	s := open(t, houseRules, "")
	s.pages(map[string]string{"/open/form": `
		<form method=post action='/heavy/post?topic=%26'>
			<textarea name=text rows=10 cols=60></textarea> <input name=title> <button>Send</button>
		</form>`})
	text := strings.Repeat("Zwölf Boxkämpfer & 'Viktor' + <b>?; ", 140)
	for _, expired := range []bool{false, true} {
		v := s.tab("")
		if expired {
			call(v, network.SetCookie, network.SetCookieParams{URL: s.at("gate.test", "/"), Name: "stile", Value: s.daemon.makePass(2, -time.Hour)})
		}
		s.app.Reset()
		v.open(s.at("gate.test", "/open/form"))
		v.eval(fmt.Sprintf("(document.querySelector('textarea').value = %q, document.querySelector('input').value = 'a title')", text))
		v.click("button")
		v.says("unsafe_heading")
		v.picture("unsafe")
		other := v.clickAway(v, "a.act")
		other.says("proved")
		other.picture("proved")
		if got := other.eval("document.querySelectorAll('progress').length"); got != "0" {
			t.Error("it still looks busy")
		}
		call(v, page.BringToFront, cdp.Empty{})
		v.start("history.back()")
		v.inside(s.at("gate.test", "/open/form"))
		if got := v.eval(fmt.Sprintf("document.querySelector('textarea').value === %q && document.querySelector('input').value", text)); got != "a title" {
			t.Fatalf("the form has been lost: %s", v.eval("document.querySelector('textarea').value.length"))
		}
		v.click("button")
		v.inside(s.at("gate.test", "/heavy/post?topic=%26"))
		want := "text=" + url.QueryEscape(text) + "&title=a+title"
		sum := sha256.Sum256([]byte(want))
		posts := 0
		for _, h := range s.app.Hits() {
			if h.Method == "POST" {
				posts++
				if h.Target != "/heavy/post?topic=%26" || h.SHA256 != hex.EncodeToString(sum[:]) {
					t.Errorf("%s of %d bytes reached the application, which are not those of the form", h.Target, h.Length)
				}
			}
		}
		if posts != 1 {
			t.Errorf("%d posts reached the application, want 1", posts)
		}
	}
}

// C044: a page's scripts ask for parts of pages that are challenged. Nothing that they
// get is HTML, so no library can put our page into theirs.
func TestBrowserC044NothingToSwapIn(t *testing.T) {
	t.Parallel()
	s := open(t, houseRules, "")
	x := s.wire(80, nil)
	s.pages(nil)
	const ask = `(async () => {
		const get = async (name, options) => {
			const r = await fetch('/heavy/' + name, options);
			return name + ': ' + r.status + ' ' + r.headers.get('content-type') + ' ' + await r.text();
		};
		const xhr = (name, header) => new Promise(done => {
			const r = new XMLHttpRequest();
			r.open('GET', '/heavy/' + name);
			for (const k in header) r.setRequestHeader(k, header[k]);
			r.onloadend = () => done(name + ': ' + r.status + ' ' + r.getResponseHeader('content-type') + ' ' + r.responseText);
			r.send();
		});
		const element = (tag, attributes) => new Promise(done => {
			const e = Object.assign(document.createElement(tag), attributes);
			e.onload = e.onerror = e => done(tag + ': ' + e.type);
			document.body.append(e);
		});
		const events = new Promise(done => {
			const e = new EventSource('/heavy/events');
			e.onerror = () => done('events: ' + (e.readyState == EventSource.CLOSED ? 'closed' : 'again'));
		});
		return (await Promise.all([
			get('fetch'), get('json', {headers: {Accept: 'application/json'}}), get('post', {method: 'POST', body: 'x'}),
			xhr('htmx', {'HX-Request': 'true', 'HX-Current-URL': location.href}),
			xhr('jquery', {'X-Requested-With': 'XMLHttpRequest', Accept: 'text/html, */*; q=0.01'}),
			xhr('turbo', {'Turbo-Frame': 'list', Accept: 'text/html, application/xhtml+xml'}),
			element('img', {src: '/heavy/img'}), element('script', {src: '/heavy/script'}),
			element('link', {rel: 'stylesheet', href: '/heavy/style'}), element('video', {src: '/heavy/video'}),
			element('link', {rel: 'prefetch', href: '/heavy/prefetch'}), element('link', {rel: 'modulepreload', href: '/heavy/module'}),
			events,
		])).join('\n');
	})()`
	for _, host := range []string{"gate.test", "127.0.0.1"} {
		v := s.tab("")
		v.open(x.at(host, "/open/app"))
		got := v.eval(ask)
		if strings.Contains(got, "<") || strings.Contains(got, "html") {
			t.Errorf("on %s a script got\n%s", host, got)
		}
		for _, want := range []string{"htmx: 503 ", "jquery: 503 application/json ", "turbo: 503 text/plain", "fetch: 503 text/plain", "json: 503 application/json {", "post: 429 text/plain", "script: error", "img: error", "events: closed"} {
			if !strings.Contains(got, want) {
				t.Errorf("on %s: no %q in\n%s", host, want, got)
			}
		}
	}
	asked := x.of("/heavy/")
	if len(asked) < 2*13 {
		t.Errorf("%d requests were made", len(asked))
	}
	for _, p := range asked {
		if strings.Contains(p.Type, "html") || strings.Contains(p.Body, "<") || len(p.Body) > 300 {
			t.Errorf("%s %s was answered %d %s %q", p.Method, p.Target, p.Status, p.Type, p.Body)
		}
	}
	if got := s.targets(); len(got) != 2 {
		t.Errorf("the application was asked for %q", got)
	}
	s.counted(0, 0)
}

// The browser fetches, or even shows in secret, the page that it thinks is next. What it
// gets is no page, so it asks again when the visitor really goes there.
func TestBrowserPrefetch(t *testing.T) {
	t.Parallel()
	for _, way := range []string{"prefetch", "prerender"} {
		s := open(t, houseRules, "")
		x := s.wire(80, nil)
		s.pages(map[string]string{"/open/start": fmt.Sprintf(
			`<script type=speculationrules>{%q: [{"source": "list", "urls": ["/heavy/next?a=%%26"], "eagerness": "immediate"}]}</script>
			<a id=a href='/heavy/next?a=%%26'>next</a>`, way)})
		v := s.tab("")
		v.open(x.at("127.0.0.1", "/open/start"))
		v.wait("a request in advance", func() bool { return len(x.of("/heavy/next")) > 0 })
		first := x.of("/heavy/next")[0]
		if !strings.HasPrefix(first.Header.Get("Sec-Purpose"), "prefetch") || first.Status != 503 || !strings.HasPrefix(first.Type, "text/plain") {
			t.Errorf("%s: %+v", way, first)
		}
		s.counted(0, 0)
		v.click("#a")
		v.inside(x.at("127.0.0.1", "/heavy/next?a=%26"))
		s.counted(1, 1)
	}
}
