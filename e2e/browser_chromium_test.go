package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"stile/internal/chromium"
)

// browser is one that runs. Tests that run at the same time share it, each with windows
// of its own that know nothing of the others' cookies.
type browser struct {
	ctx   context.Context
	stop  func()
	users int
}

var browsers = struct {
	sync.Mutex
	by map[string]*browser // by their preferences
}{by: map[string]*browser{}}

// useChromium returns a browser that has been set up with preferences (JSON, as in a
// profile's file of that name; "" for the usual ones), until the end of the test.
func useChromium(t testing.TB, preferences string) context.Context {
	t.Helper()
	browsers.Lock()
	defer browsers.Unlock()
	b := browsers.by[preferences]
	if b == nil {
		b = &browser{}
		b.ctx, b.stop = chromium.Start(t, preferences)
		browsers.by[preferences] = b
	}
	b.users++
	t.Cleanup(func() {
		browsers.Lock()
		defer browsers.Unlock()
		if b.users--; b.users == 0 {
			delete(browsers.by, preferences)
			b.stop()
		}
	})
	return b.ctx
}

// A tab is one of a visitor's. Its methods fail the test rather than return an error.
type tab struct {
	testing.TB
	ctx  context.Context // ends a minute after the tab was opened
	life context.Context // of the tab

	mu   sync.Mutex
	seen []string // uncaught exceptions
}

// tab opens a window of somebody who has never been here. first is run in each of its
// pages before their own scripts.
func (s *site) tab(first string) *tab {
	s.t.Helper()
	return newTab(s.t, useChromium(s.t, ""), first, chromedp.WithNewBrowserContext())
}

// another is one more tab of the same visitor.
func (v *tab) another(first string) *tab {
	v.Helper()
	return newTab(v.TB, v.life, first)
}

func newTab(t testing.TB, parent context.Context, first string, options ...chromedp.ContextOption) *tab {
	t.Helper()
	life, cancel := chromedp.NewContext(parent, options...)
	t.Cleanup(cancel)
	v := &tab{TB: t, life: life}
	if err := chromedp.Listen(life, func(event any) {
		if e, ok := event.(*runtime.EventExceptionThrown); ok && e.ExceptionDetails != nil {
			text := e.ExceptionDetails.Text
			if x := e.ExceptionDetails.Exception; x != nil {
				text += " " + x.Description
			}
			v.mu.Lock()
			v.seen = append(v.seen, text)
			v.mu.Unlock()
		}
	}); err != nil {
		t.Fatal(err)
	}
	v.ctx, cancel = context.WithTimeout(life, time.Minute)
	t.Cleanup(cancel)
	t.Cleanup(func() {
		v.mu.Lock()
		defer v.mu.Unlock()
		for _, text := range v.seen {
			t.Errorf("an exception that no script caught: %s", text)
		}
		if t.Failed() {
			v.picture(fmt.Sprintf("failed-%p", v))
		}
	})
	if first != "" {
		call(v, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: first})
	}
	return v
}

// call sends a command of the browser's protocol.
func call[P, R any](v *tab, command cdp.Command[P, R], params P) R {
	v.Helper()
	r, err := chromedp.Call(v.ctx, command, params)
	if err != nil {
		v.Fatalf("%s: %v", command.Method, err)
	}
	return r
}

func (v *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	v.Helper()
	if err := chromedp.Do(v.ctx, steps...); err != nil {
		v.Fatal(err)
	}
}

func (v *tab) open(address string) {
	v.Helper()
	v.do(chromedp.Navigate(address))
}

// eval is the value of an expression, or what it promises, as text.
func (v *tab) eval(expression string) string {
	v.Helper()
	s, err := chromedp.Run(v.ctx, chromedp.Evaluate[string]("(async () => String(await ("+expression+")))()", chromedp.EvalAwaitPromise))
	if err != nil {
		v.Fatalf("%s: %v", expression, err)
	}
	return s
}

// start evaluates an expression that leads away from the page, so has no value.
func (v *tab) start(expression string) {
	v.Helper()
	v.eval("setTimeout(() => { " + expression + " }) && ''")
}

// until waits for an expression to hold. Pages may come and go meanwhile.
func (v *tab) until(expression string) {
	v.Helper()
	v.wait(expression, func() bool {
		yes, err := chromedp.Run(v.ctx, chromedp.Evaluate[bool]("Boolean("+expression+")"))
		return err == nil && yes
	})
}

// wait polls, while the tab has its time.
func (v *tab) wait(what string, ok func() bool) {
	v.Helper()
	for !ok() {
		if v.ctx.Err() != nil {
			v.Fatalf("never so: %s\n%s", what, v.text())
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// text is what the tab shows, for messages.
func (v *tab) text() string {
	ctx, cancel := context.WithTimeout(v.life, 5*time.Second)
	defer cancel()
	text, err := chromedp.Run(ctx, chromedp.Evaluate[string]("location.href + ' ' + document.documentElement.innerText"))
	if err != nil {
		return err.Error()
	}
	return text
}

// says waits for words of ours, by their name in the language's file.
func (v *tab) says(word string) {
	v.Helper()
	v.until(fmt.Sprintf("document.body && document.body.innerText.includes(%q)", english(v, word)))
}

// english are our words.
func english(t testing.TB, name string) string {
	t.Helper()
	var words map[string]any
	text, err := os.ReadFile("../server/page/languages/en.json")
	if err == nil {
		err = json.Unmarshal(text, &words)
	}
	word, ok := words[name].(string)
	if err != nil || !ok {
		t.Fatalf("the word %q: %v", name, err)
	}
	return word
}

// inside waits until the application's own page is there, at an address.
func (v *tab) inside(address string) {
	v.Helper()
	v.until(fmt.Sprintf("document.title === 'inside' && document.readyState === 'complete' && location.href === %q", address))
}

// click clicks in the middle of an element, as the visitor's mouse does.
func (v *tab) click(selector string) {
	v.Helper()
	v.until(fmt.Sprintf("document.querySelector(%q)", selector))
	var x, y float64
	middle := v.eval(fmt.Sprintf(`(() => {
		const e = document.querySelector(%q);
		e.scrollIntoView({block: 'nearest'});
		const r = e.getBoundingClientRect();
		return (r.left + r.right) / 2 + ' ' + (r.top + r.bottom) / 2;
	})()`, selector))
	if _, err := fmt.Sscan(middle, &x, &y); err != nil {
		v.Fatalf("%s is at %s", selector, middle)
	}
	v.do(chromedp.MouseClickXY(x, y))
}

// pass is the cookie of ours in the visitor's jar; nil if there is none.
func (v *tab) pass(address string) *network.Cookie {
	v.Helper()
	var found *network.Cookie
	for _, c := range call(v, network.GetCookies, network.GetCookiesParams{URLs: []string{address}}).Cookies {
		if c.Name == "stile" {
			if found != nil {
				v.Errorf("two cookies: %v, %v", *found, *c)
			}
			found = c
		}
	}
	return found
}

// after lets time pass for the tab, in which it does whatever it has planned, and returns
// at the end of it. No time passes for anybody else. From then on the tab waits for what
// it has asked the network for, and for nothing else.
func (v *tab) after(d time.Duration) {
	v.Helper()
	ctx, cancel := context.WithCancel(v.ctx)
	defer cancel()
	expired := chromedp.Events(ctx, emulation.VirtualTimeBudgetExpired)
	began := v.eval("Date.now()")
	budget := float64(d.Milliseconds())
	call(v, emulation.SetVirtualTimePolicy, emulation.SetVirtualTimePolicyParams{Policy: emulation.VirtualTimePolicyAdvance, Budget: &budget})
	for _, err := range expired {
		if err != nil {
			v.Fatalf("%s of virtual time do not end: %v", d, err)
		}
		break
	}
	if passed := v.eval(fmt.Sprintf("Date.now() - %s >= %d", began, d.Milliseconds())); passed != "true" {
		v.Fatalf("%s of virtual time did not pass", d)
	}
}

// hurry makes the tab's time pass as fast as there is nothing to do in it, from now on.
func (v *tab) hurry() {
	v.Helper()
	call(v, emulation.SetVirtualTimePolicy, emulation.SetVirtualTimePolicyParams{Policy: emulation.VirtualTimePolicyAdvance})
}

// picture keeps what the tab shows.
func (v *tab) picture(name string) {
	v.Helper()
	ctx, cancel := context.WithTimeout(v.life, 5*time.Second)
	defer cancel()
	png, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
	if err == nil {
		err = os.WriteFile(filepath.Join(v.ArtifactDir(), name+".png"), png, 0o644)
	}
	if err != nil {
		v.Logf("no picture of %s: %v", name, err)
	}
}

// at is an address on the site, by one of the names that browsers know.
func (s *site) at(host, target string) string { return on(host, s.Addr(80), target) }

func on(host, addr, target string) string {
	_, port, _ := net.SplitHostPort(addr)
	return "http://" + host + ":" + port + target
}

// pages makes the application answer with HTML: a page titled "inside", with a body by path.
func (s *site) pages(bodies map[string]string) {
	s.app.Handle(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/favicon.ico" {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		fmt.Fprintf(w, "<!doctype html><html lang=en><title>inside</title><p>The page itself.</p>%s", bodies[r.URL.Path])
	})
}

// targets are those that reached the application, but for the browser's own favicon.
func (s *site) targets() (targets []string) {
	for _, h := range s.app.Hits() {
		if h.Target != "/favicon.ico" {
			targets = append(targets, h.Method+" "+h.Target)
		}
	}
	return targets
}

// counted checks how many challenges were made, and how many were solved or waited for.
func (s *site) counted(issued, solved float64) {
	s.t.Helper()
	if got := s.daemon.metric("stile_challenges_issued_total", "pow"); got != issued {
		s.t.Errorf("%v challenges were made, want %v", got, issued)
	}
	if got := s.daemon.metric("stile_challenges_solved_total", ""); got != solved {
		s.t.Errorf("%v challenges were solved, want %v", got, solved)
	}
	if got := s.daemon.metric("stile_panics_total", ""); got != 0 {
		s.t.Errorf("%v panics", got)
	}
}

// A wire is between a browser and nginx. It writes down what passes.
type wire struct {
	*httptest.Server
	answer func(*http.Response) // changes each, if set before use
	mu     sync.Mutex
	seen   []passed
}

// passed is a request with its answer.
type passed struct {
	Method, Target string
	Header         http.Header
	Status         int
	Type           string
	Body           string // of answers that are no success
}

// wire opens one to a port of the site. meddle may do something else with a request than
// pass it on, or something more; nil passes on.
func (s *site) wire(port int, meddle func(w http.ResponseWriter, r *http.Request, pass http.Handler)) *wire {
	s.t.Helper()
	x := &wire{}
	pass := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(&url.URL{Scheme: "http", Host: s.Addr(port)})
			r.Out.Host, r.Out.URL.RawQuery = r.In.Host, r.In.URL.RawQuery
		},
		ModifyResponse: func(r *http.Response) error {
			p := passed{
				Method: r.Request.Method, Target: r.Request.URL.RequestURI(), Header: r.Request.Header,
				Status: r.StatusCode, Type: r.Header.Get("Content-Type"),
			}
			if r.StatusCode >= 300 {
				body, err := io.ReadAll(r.Body)
				if err != nil {
					return err
				}
				p.Body = string(body)
				r.Body = io.NopCloser(strings.NewReader(p.Body))
			}
			if x.answer != nil {
				x.answer(r)
			}
			x.mu.Lock()
			defer x.mu.Unlock()
			x.seen = append(x.seen, p)
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	}
	x.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if meddle != nil {
			meddle(w, r, pass)
		} else {
			pass.ServeHTTP(w, r)
		}
	}))
	s.t.Cleanup(func() {
		x.CloseClientConnections()
		x.Close()
	})
	return x
}

func (x *wire) at(host, target string) string { return on(host, x.Listener.Addr().String(), target) }

// of are the requests whose target begins so.
func (x *wire) of(prefix string) (list []passed) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, p := range x.seen {
		if strings.HasPrefix(p.Target, prefix) {
			list = append(list, p)
		}
	}
	return list
}
