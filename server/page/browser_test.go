package page

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/cdproto/animation"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	cdpage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"stile/internal/chromium"
)

// need finds a program. Where it is missing, CI fails and a laptop skips.
func need(t testing.TB, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err == nil {
		return path
	}
	if os.Getenv("CI") == "true" {
		t.Fatalf("%s is missing, and CI must have it: ./deploy.sh test installs what the tests need", name)
	}
	t.Skipf("%s is not installed", name)
	return ""
}

// A tab is one visitor's. first runs in each of its pages before their own scripts.
type tab struct {
	testing.TB
	ctx context.Context
}

func newTab(t testing.TB, browser context.Context, first string, options ...chromedp.ContextOption) tab {
	t.Helper()
	ctx, cancel := chromedp.NewContext(browser, options...)
	t.Cleanup(cancel)
	ctx, cancel = context.WithTimeout(ctx, time.Minute)
	t.Cleanup(cancel)
	v := tab{t, ctx}
	if first != "" {
		call(v, cdpage.AddScriptToEvaluateOnNewDocument, cdpage.AddScriptToEvaluateOnNewDocumentParams{Source: first})
	}
	return v
}

// visitor is a tab with cookies of its own.
func visitor(t testing.TB, browser context.Context, first string) tab {
	t.Helper()
	return newTab(t, browser, first, chromedp.WithNewBrowserContext())
}

func call[P, R any](v tab, command cdp.Command[P, R], params P) R {
	v.Helper()
	r, err := chromedp.Call(v.ctx, command, params)
	if err != nil {
		v.Fatal(err)
	}
	return r
}

func (v tab) open(address string) {
	v.Helper()
	if err := chromedp.Do(v.ctx, chromedp.Navigate(address)); err != nil {
		v.Fatal(err)
	}
}

func (v tab) eval(expression string) string {
	v.Helper()
	s, err := chromedp.Run(v.ctx, chromedp.Evaluate[string]("String("+expression+")", chromedp.EvalAwaitPromise))
	if err != nil {
		v.Fatalf("%s: %v", expression, err)
	}
	return s
}

// until waits for an expression to hold. Pages may come and go meanwhile.
func (v tab) until(expression string) {
	v.Helper()
	for {
		yes, err := chromedp.Run(v.ctx, chromedp.Evaluate[bool]("Boolean("+expression+")"))
		if err == nil && yes {
			return
		}
		if v.ctx.Err() != nil {
			v.Fatalf("never so: %s\npage: %s", expression, v.text())
		}
	}
}

// text is what the tab shows, for messages.
func (v tab) text() string {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(v.ctx), 5*time.Second)
	defer cancel()
	text, err := chromedp.Run(ctx, chromedp.Evaluate[string]("location.href + ' ' + document.documentElement.innerText"))
	if err != nil {
		return err.Error()
	}
	return text
}

// says waits for a message.
func (v tab) says(text string) {
	v.Helper()
	v.until(fmt.Sprintf("document.body && document.body.innerText.includes(%q)", text))
}

// enters waits for the visitor to be let in, and returns the target that was served.
func (v tab) enters(s *site) string {
	v.Helper()
	select {
	case target := <-s.entered:
		v.until("document.title === 'inside'")
		return target
	case <-v.ctx.Done():
		v.Fatalf("never let in: %+v\npage: %s", s.counts(), v.text())
		return ""
	}
}

// Injected before a page's own scripts.
const (
	fastTimers = `{
		const timeout = setTimeout, interval = setInterval;
		window.setTimeout = (f, ms, ...a) => timeout(f, ms / 40, ...a);
		window.setInterval = (f, ms, ...a) => interval(f, ms / 40, ...a);
	}`
	noStorage = `Object.defineProperty(window, 'sessionStorage', {get() { throw new DOMException('no', 'SecurityError'); }});`
	hidden    = `Object.defineProperty(Document.prototype, 'hidden', {get: () => !window.shown});`
)

func TestPageInChromium(t *testing.T) {
	browser, stop := chromium.Start(t, "")
	t.Cleanup(stop)
	en := english.words
	check := func(t *testing.T, what string, got, want any) {
		t.Helper()
		if got != want {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	sound := func(t *testing.T, s *site) {
		t.Helper()
		if c := s.counts(); len(c.wrong) > 0 {
			t.Errorf("the page sent what it should not: %q", c.wrong)
		}
	}

	t.Run("solves and reloads", func(t *testing.T) {
		for _, host := range []string{"127.0.0.1", "gate.test"} {
			s := newSite(t, siteWays{})
			v := visitor(t, browser, "")
			address := s.at(host, "/s?q=a%26b&b=2&c=3;d&e=&f=+%2B#part-2")
			v.open(address)
			check(t, "target", v.enters(s), "/s?q=a%26b&b=2&c=3;d&e=&f=+%2B")
			check(t, "address", v.eval("location.href"), address)
			c := s.counts()
			check(t, "challenges", c.challenges, 1)
			check(t, "proofs", c.proofs, 1)
			check(t, "entries in the history", v.eval("history.length"), "2") // with about:blank
			sound(t, s)
		}
	})

	// Whatever is missing, the solver finds a way; here that the page lets it.
	t.Run("without", func(t *testing.T) {
		for name, first := range map[string]string{
			"workers":           "delete window.Worker;",
			"WebAssembly":       "delete window.WebAssembly;",
			"either":            "delete window.Worker; delete window.WebAssembly;",
			"storage":           noStorage,
			"BroadcastChannel":  "delete window.BroadcastChannel;",
			"locks":             "delete Navigator.prototype.locks;",
			"usable locks":      "LockManager.prototype.request = () => Promise.reject(new DOMException('no', 'SecurityError'));",
			"localStorage":      "Object.defineProperty(window, 'localStorage', {get() { throw new DOMException('no', 'SecurityError'); }});",
			"locks and storage": noStorage + "delete Navigator.prototype.locks; Object.defineProperty(window, 'localStorage', {get: () => null});",
			"locks that answer": fastTimers + "LockManager.prototype.request = () => new Promise(() => {});",
			"sane tabs":         "delete Navigator.prototype.locks; localStorage.setItem('stile-leader', 'x 9e99'); localStorage.setItem('stile-pass', 9e99);",
			"currentScript":     "Object.defineProperty(Document.prototype, 'currentScript', {get: () => null});",
			"a usable Storage":  "sessionStorage.setItem('stile', '{\"loops\":7,\"expired\":[]}');",
			"sane session data": "sessionStorage.setItem('stile', 'nonsense');",
		} {
			t.Run(name, func(t *testing.T) {
				s := newSite(t, siteWays{})
				v := visitor(t, browser, first)
				v.open(s.at("127.0.0.1", "/x"))
				v.enters(s)
				sound(t, s)
			})
		}
	})

	t.Run("under a stricter policy", func(t *testing.T) {
		for _, policy := range []string{
			"default-src 'self'", "script-src 'self'", "script-src 'self'; worker-src 'none'",
			"default-src 'none'; script-src 'self'; connect-src 'self'", "require-trusted-types-for 'script'",
		} {
			t.Run(policy, func(t *testing.T) {
				s := newSite(t, siteWays{csp: policy})
				v := visitor(t, browser, "")
				v.open(s.at("gate.test", "/x"))
				v.enters(s)
				sound(t, s)
			})
		}
	})

	t.Run("cookies blocked", func(t *testing.T) {
		s := newSite(t, siteWays{keepsNoCookies: true})
		v := visitor(t, browser, "")
		v.open(s.at("127.0.0.1", "/x"))
		v.says(en.Cookies)
		check(t, "bars", v.eval("document.querySelectorAll('progress').length"), "0")
		c := s.counts()
		check(t, "challenges", c.challenges, 1)
		check(t, "proofs", c.proofs, 1)
		check(t, "checks", c.checks, 1)

		// The visitor allows cookies and presses the button.
		s.set(func(w *siteWays) { w.keepsNoCookies = false })
		v.eval("document.querySelector('button').click()")
		v.enters(s)
		check(t, "challenges", s.counts().challenges, 2)
	})

	t.Run("never in circles", func(t *testing.T) {
		for name, first := range map[string]string{"with storage": "", "without storage": noStorage} {
			t.Run(name, func(t *testing.T) {
				s := newSite(t, siteWays{stubborn: true})
				v := visitor(t, browser, first)
				v.open(s.at("127.0.0.1", "/x?y"))
				v.says(en.Loop)
				c := s.counts()
				check(t, "challenges", c.challenges, LOOPS+1)
				check(t, "proofs", c.proofs, LOOPS)
				// The pass is there, but looking at it again would begin anew.
				v.eval("document.dispatchEvent(new Event('visibilitychange'))")

				s.set(func(w *siteWays) { w.stubborn = false })
				v.eval("document.querySelector('button').click()")
				check(t, "target", v.enters(s), "/x?y")
			})
		}
	})

	t.Run("the price has risen", func(t *testing.T) {
		s := newSite(t, siteWays{answers: []answer{
			{402, `{"error":"price","parts":16}`}, {402, `{"error":"price","parts":64}`},
		}})
		v := visitor(t, browser, "")
		v.open(s.at("127.0.0.1", "/x"))
		v.enters(s)
		check(t, "challenges", s.counts().challenges, 1)
		check(t, "proofs", s.counts().proofs, 3)
		sound(t, s)
	})

	t.Run("a price that makes no sense", func(t *testing.T) {
		for _, body := range []string{`{"error":"price","parts":8}`, `{"error":"price","parts":4000}`, `{"error":"price"}`, `{"parts":"9e9"}`} {
			s := newSite(t, siteWays{always: &answer{402, body}})
			v := visitor(t, browser, "")
			v.open(s.at("127.0.0.1", "/x"))
			v.says(en.Failed)
			check(t, "proofs", s.counts().proofs, 1)
		}
	})

	t.Run("expired", func(t *testing.T) {
		s := newSite(t, siteWays{answers: []answer{{410, `{"error":"expired"}`}}})
		v := visitor(t, browser, "")
		v.open(s.at("127.0.0.1", "/x"))
		v.enters(s)
		check(t, "challenges", s.counts().challenges, 2)

		s = newSite(t, siteWays{always: &answer{410, `{"error":"expired"}`}})
		v = visitor(t, browser, "")
		v.open(s.at("127.0.0.1", "/x"))
		v.says(en.Failed)
		check(t, "challenges of one that always expires", s.counts().challenges, 2)
	})

	t.Run("ceiling", func(t *testing.T) {
		s := newSite(t, siteWays{always: &answer{429, `{"error":"ceiling","retry":7201}`}})
		v := visitor(t, browser, "")
		v.open(s.at("127.0.0.1", "/x"))
		v.says(en.Ceiling + " Waiting time: 3\u00a0h")
		check(t, "proofs", s.counts().proofs, 1)
	})

	t.Run("refused proof", func(t *testing.T) {
		s := newSite(t, siteWays{always: &answer{403, `{"error":"origin"}`}, options: Challenge{WaitToken: []byte("w"), WaitSeconds: 10}})
		v := visitor(t, browser, "")
		v.open(s.at("127.0.0.1", "/x"))
		v.says(en.Failed)
		v.says("wait 10\u00a0s") // there is another way
		check(t, "proofs", s.counts().proofs, 1)
		check(t, "challenges", s.counts().challenges, 1)
	})

	t.Run("network errors", func(t *testing.T) {
		bad := answer{502, "<html>Bad Gateway"}
		s := newSite(t, siteWays{answers: []answer{bad, {200, "not JSON"}, bad}})
		v := visitor(t, browser, fastTimers)
		v.open(s.at("127.0.0.1", "/x"))
		v.enters(s)
		check(t, "proofs", s.counts().proofs, 4)

		s = newSite(t, siteWays{answers: []answer{bad, bad, bad, bad, bad}})
		v = visitor(t, browser, fastTimers)
		v.open(s.at("127.0.0.1", "/x"))
		v.says(en.Network)
		check(t, "proofs before it gives up", s.counts().proofs, 5)
		v.eval("document.querySelector('button').click()")
		v.enters(s)
		check(t, "challenges", s.counts().challenges, 1) // the solution was kept
		sound(t, s)
	})

	t.Run("in a foreign frame", func(t *testing.T) {
		s := newSite(t, siteWays{})
		host := newSite(t, siteWays{frames: s.at("127.0.0.1", "/x?y")})
		v := visitor(t, browser, "")
		v.open(host.at("localhost", "/frame"))
		frame := v.frame(s.at("127.0.0.1", "/x?y"))
		frame.says(en.Frame)
		check(t, "link", frame.eval("document.querySelector('a.act').href"), s.at("127.0.0.1", "/x?y"))
		check(t, "link opens in", frame.eval("document.querySelector('a.act').target"), "_blank")
		idle(t, s)

		// Back, or Forward, does not set it to work either.
		frame.eval("dispatchEvent(new PageTransitionEvent('pageshow', {persisted: true}))")
		for s.counts().checks == 0 && v.ctx.Err() == nil {
		}
		frame.eval("new Promise(f => setTimeout(f))")
		frame.says(en.Frame)
		idle(t, s)
	})

	// The outermost page is the site's own, but the one between is not.
	t.Run("in a foreign frame of the site", func(t *testing.T) {
		s := newSite(t, siteWays{})
		host := newSite(t, siteWays{frames: s.at("127.0.0.1", "/x")})
		s.set(func(w *siteWays) { w.frames = host.at("localhost", "/frame") })
		v := visitor(t, browser, "")
		v.open(s.at("127.0.0.1", "/frame"))
		v.frame(s.at("127.0.0.1", "/x")).says(en.Frame)
		idle(t, s)
	})

	t.Run("in a sandboxed frame", func(t *testing.T) {
		s := newSite(t, siteWays{frames: "/x"})
		v := visitor(t, browser, "")
		v.open(s.at("127.0.0.1", "/frame?with=sandbox=allow-scripts"))
		frame := v.frame(s.at("127.0.0.1", "/x"))
		frame.says(en.Frame)
		idle(t, s)
	})

	t.Run("in a frame that the server knows to be foreign", func(t *testing.T) {
		s := newSite(t, siteWays{options: Challenge{Framed: true, WaitToken: []byte("w"), WaitSeconds: 1}})
		v := visitor(t, browser, "")
		v.open(s.at("127.0.0.1", "/x?y"))
		v.says(en.Frame)
		check(t, "link", v.eval("document.querySelector('a.act').href"), s.at("127.0.0.1", "/x?y"))
		check(t, "scripts", s.counts().scripts, 0)
		idle(t, s)
	})

	t.Run("a download", func(t *testing.T) {
		s := newSite(t, siteWays{})
		v := visitor(t, browser, fastTimers)
		v.open(s.at("127.0.0.1", "/archive.tar.gz"))
		<-s.entered
		v.until("!document.querySelector('progress')") // it does not look busy for ever
		v.says(en.Done)
		check(t, "challenges", s.counts().challenges, 1)
	})

	t.Run("in a frame of the site", func(t *testing.T) {
		s := newSite(t, siteWays{frames: "/x"})
		v := visitor(t, browser, "")
		v.open(s.at("127.0.0.1", "/frame"))
		select {
		case <-s.entered:
		case <-v.ctx.Done():
			t.Error("never let in")
		}
	})

	t.Run("script fails to load", func(t *testing.T) {
		s := newSite(t, siteWays{brokenScripts: 3})
		v := visitor(t, browser, fastTimers)
		v.open(s.at("127.0.0.1", "/x"))
		v.enters(s)
		check(t, "scripts", s.counts().scripts, 4)
		sound(t, s)

		s = newSite(t, siteWays{brokenScripts: -1, options: Challenge{WaitToken: []byte("w"), WaitSeconds: 10}})
		v = visitor(t, browser, fastTimers)
		call(v, animation.Enable, cdp.Empty{})
		call(v, animation.SetPlaybackRate, animation.SetPlaybackRateParams{PlaybackRate: 40})
		v.open(s.at("127.0.0.1", "/x"))
		v.says("wait 10\u00a0s, then follow this link")
		for s.counts().scripts < 6 && v.ctx.Err() == nil {
		}
		check(t, "scripts", s.counts().scripts, 6) // the first, and five more
		v.eval("document.querySelector('a.act').click()")
		v.enters(s)
	})

	t.Run("without JavaScript", func(t *testing.T) {
		s := newSite(t, siteWays{options: Challenge{WaitToken: []byte("w"), WaitSeconds: 1}})
		v := visitor(t, browser, "")
		call(v, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
		v.open(s.at("127.0.0.1", "/x?q=a%26b"))
		check(t, "target", v.enters(s), "/x?q=a%26b")
		check(t, "waits", s.counts().waits, 1)
		sound(t, s)
	})

	t.Run("Back and Forward", func(t *testing.T) {
		// As after bfcache: the page is back as it was left, here while it was done.
		s := newSite(t, siteWays{keepsNoCookies: true})
		v := visitor(t, browser, "")
		v.open(s.at("127.0.0.1", "/x"))
		v.says(en.Cookies)
		s.set(func(w *siteWays) { w.keepsNoCookies = false })
		v.eval("dispatchEvent(new PageTransitionEvent('pageshow', {persisted: true}))")
		v.enters(s)
		check(t, "challenges", s.counts().challenges, 1)
	})

	t.Run("solved in another tab meanwhile", func(t *testing.T) {
		s := newSite(t, siteWays{keepsNoCookies: true})
		v := visitor(t, browser, "")
		v.open(s.at("127.0.0.1", "/x"))
		v.says(en.Cookies)
		s.set(func(w *siteWays) { w.keepsNoCookies = false })
		other := newTab(t, v.ctx, "")
		other.open(s.at("127.0.0.1", "/y"))
		other.enters(s) // whichever of the two
		other.enters(s)
		check(t, "proofs", s.counts().proofs, 2)
	})

	t.Run("five tabs at once", func(t *testing.T) {
		for _, host := range []string{"127.0.0.1", "gate.test"} {
			t.Run(host, func(t *testing.T) {
				var together sync.WaitGroup
				together.Add(5)
				s := newSite(t, siteWays{bits: 12, together: &together})
				first := visitor(t, browser, "")
				first.open(s.at(host, "/favicon.ico")) // so that the others are there before any is challenged
				tabs := []tab{first}
				for len(tabs) < 5 {
					tabs = append(tabs, newTab(t, first.ctx, ""))
				}
				for i, v := range tabs {
					v.eval(fmt.Sprintf("setTimeout(() => location.href = %q)", s.at(host, fmt.Sprintf("/tab-%d", i))))
				}
				want := map[string]bool{}
				for range tabs {
					want[<-s.entered] = true
				}
				check(t, "different pages", len(want), 5)
				c := s.counts()
				t.Logf("%d proofs", c.proofs)
				if c.proofs > 2 {
					t.Errorf("%d of five tabs solved in full: none has waited for another", c.proofs)
				}
				check(t, "challenges", c.challenges, 5)
				sound(t, s)
			})
		}
	})

	// Who leads may be closed, and who waits is the next. lookups are what a tab does to find out.
	t.Run("a tab is closed while others wait for it", func(t *testing.T) {
		for host, lookups := range map[string]string{"127.0.0.1": "LockManager.prototype, 'request'", "gate.test": "Storage.prototype, 'getItem'"} {
			t.Run(host, func(t *testing.T) {
				s := newSite(t, siteWays{})
				first := visitor(t, browser, `
					window.solving = 0;
					Object.defineProperty(window, 'stile', {configurable: true, set(v) {
						Object.defineProperty(window, 'stile', {value: v});
						v.solve = () => new Promise(() => solving++);
					}});`)
				first.open(s.at(host, "/favicon.ico"))
				follower := newTab(t, first.ctx, `
					window.lookups = 0;
					for (const [o, name] of [[`+lookups+`]]) {
						const f = o[name];
						o[name] = function () { lookups++; return f.apply(this, arguments); };
					}`)
				first.open(s.at(host, "/leader"))
				first.until("window.solving")
				follower.open(s.at(host, "/follower"))
				follower.until("window.lookups > 5")
				check(t, "workers", s.counts().workers, 0)
				first.open("about:blank")
				check(t, "target", follower.enters(s), "/follower")
				check(t, "proofs", s.counts().proofs, 1)
			})
		}
	})

	t.Run("a tab that was asleep while another solved", func(t *testing.T) {
		for _, host := range []string{"127.0.0.1", "gate.test"} {
			s := newSite(t, siteWays{})
			first := visitor(t, browser, "")
			first.open(s.at(host, "/favicon.ico"))
			sleeper := newTab(t, first.ctx, `
				Object.defineProperty(Document.prototype, 'readyState', {get: () => 'loading'});
				addEventListener('DOMContentLoaded', e => window.awake || e.stopImmediatePropagation(), true);`)
			sleeper.open(s.at(host, "/sleeper"))
			sleeper.until("window.stile")
			first.open(s.at(host, "/x"))
			check(t, "target", first.enters(s), "/x")
			sleeper.eval("(window.awake = true, document.dispatchEvent(new Event('DOMContentLoaded', {bubbles: true})))")
			check(t, "target", sleeper.enters(s), "/sleeper")
			check(t, "proofs", s.counts().proofs, 1)
		}
	})

	t.Run("a hidden tab lets others go first", func(t *testing.T) {
		s := newSite(t, siteWays{})
		v := visitor(t, browser, hidden)
		v.open(s.at("127.0.0.1", "/x")) // but does not wait for nobody
		v.enters(s)
	})

	t.Run("prove", func(t *testing.T) {
		s := newSite(t, siteWays{})
		v := visitor(t, browser, "")
		v.open(s.at("127.0.0.1", provePath))
		v.says(en.Proved)
		check(t, "challenges", s.counts().challenges, 1)
		check(t, "address", query(v.eval("location.href")), provePath)
		check(t, "bars", v.eval("document.querySelectorAll('progress').length"), "0")
		v.open(s.at("127.0.0.1", "/x"))
		v.enters(s)
		check(t, "challenges", s.counts().challenges, 1)
	})

	t.Run("busy", func(t *testing.T) {
		s := newSite(t, siteWays{refused: &Refused{Reason: Busy, RetrySeconds: 20}})
		v := visitor(t, browser, fastTimers+hidden)
		v.open(s.at("127.0.0.1", "/x?y"))
		v.says(en.Busy)
		s.set(func(w *siteWays) { w.refused = nil })
		v.eval("new Promise(f => setTimeout(f, 31e3))") // of fast seconds
		check(t, "pages while nobody looks", s.counts().challenges, 1)
		v.eval("(window.shown = true, document.dispatchEvent(new Event('visibilitychange')))")
		v.enters(s)
	})

	// Whoever is refused again and again comes ever later, but comes.
	t.Run("busy for long", func(t *testing.T) {
		for name, forgetful := range map[string]string{"with storage": "", "without storage": noStorage} {
			t.Run(name, func(t *testing.T) {
				s := newSite(t, siteWays{refused: &Refused{Reason: Busy, RetrySeconds: 10}})
				v := visitor(t, browser, forgetful+`{
					const timeout = setTimeout;
					window.setTimeout = (f, ms) => { window.delay = ms; window.go = f; };
					window.later = timeout;
				}`)
				v.open(s.at("127.0.0.1", "/x?y#part"))
				for i, most := range []float64{10, 20, 40, 80, 80, 80} {
					v.until("window.go")
					var delay float64
					fmt.Sscan(v.eval("delay / 1e3"), &delay)
					if delay < most || delay > 1.5*most {
						t.Errorf("try %d: after %v s, want %v s and up to half as much again", i, delay, most)
					}
					check(t, "a waiting time that is true", v.eval("!!document.getElementById('wait')"), fmt.Sprint(i == 0))
					check(t, "pages", s.counts().challenges, i+1)
					v.says(en.Busy)
					v.eval("(delete window.delay, later(go), window.go = null)")
				}
				v.until("window.go")
				check(t, "address", query(v.eval("location.href")), "/x?y#part")
				check(t, "entries in the history", v.eval("history.length"), "2") // with about:blank
			})
		}
	})

	t.Run("screen reader", func(t *testing.T) {
		s := newSite(t, siteWays{bits: 20, keepsNoCookies: true})
		v := visitor(t, browser, `
			addEventListener('DOMContentLoaded', () => {
				window.told = [];
				new MutationObserver(() => told.push(performance.now())).observe(document.getElementById('js'), {subtree: true, childList: true, characterData: true});
			});`)
		v.open(s.at("127.0.0.1", "/x"))
		v.says(en.Work)
		v.until("document.querySelector('progress').value > 0")
		roles := v.roles()
		check(t, "headings", strings.Join(roles["heading"], "|"), en.Heading)
		check(t, "progress bars", strings.Join(roles["progressbar"], "|"), en.Heading)
		check(t, "live regions", len(roles["status"]), 2)
		check(t, "landmarks", len(roles["main"]), 1)
		check(t, "language", v.eval("document.documentElement.lang"), "en")
		check(t, "direction", v.eval("document.documentElement.dir"), "ltr")
		check(t, "live", v.eval("document.querySelector('[role=status]').getAttribute('aria-live') || 'polite'"), "polite")

		s.set(func(w *siteWays) { w.bits = 6 })
		v.open(s.at("127.0.0.1", "/y"))
		v.says(en.Cookies)
		check(t, "buttons", strings.Join(v.roles()["button"], "|"), en.Again)
		v.eval("document.querySelector('button').focus()")
		check(t, "focus", v.eval("document.activeElement.tagName"), "BUTTON")
	})

	t.Run("a long solve is not chatty", func(t *testing.T) {
		// Progress is reported hundreds of times; the regions change every five seconds.
		s := newSite(t, siteWays{})
		v := visitor(t, browser, `{
			let now = Date.now();
			Date.now = () => now;
			Object.defineProperty(window, 'stile', {configurable: true, set(v) {
				Object.defineProperty(window, 'stile', {value: v});
				v.solve = o => new Promise(() => {
					window.told = [];
					new MutationObserver(list => told.push(...list.map(m => m.target.textContent)))
						.observe(document.getElementById('js'), {subtree: true, childList: true});
					for (let i = 1; i <= 1000; i++) {
						now += 20;
						o.onprogress(i, 1000);
					}
				});
			}});
		}`)
		v.open(s.at("127.0.0.1", "/x"))
		v.until("window.told && told.length")
		check(t, "what is told in 20 seconds", v.eval("told.join(' ')"), "100% 100% 100% 100%")
		check(t, "bar", v.eval("document.querySelector('progress').position"), "1")
	})
}

// idle: nobody has worked for this site, nor waited.
func idle(t *testing.T, s *site) {
	t.Helper()
	if c := s.counts(); c.challenges != 1 || c.workers != 0 || c.proofs != 0 || c.waits != 0 {
		t.Errorf("%+v, want one challenge and no work", c)
	}
}

// LOOPS as in page.js.
const LOOPS = 3

// frame is the one from another site inside the page.
func (v tab) frame(address string) tab {
	v.Helper()
	for v.ctx.Err() == nil {
		targets, err := chromedp.Targets(v.ctx)
		if err != nil {
			v.Fatal(err)
		}
		for _, x := range targets {
			if x.Type == "iframe" && x.URL == address {
				return newTab(v, v.ctx, "", chromedp.WithTargetID(x.TargetID))
			}
		}
	}
	v.Fatalf("no frame of %s", address)
	return v
}

// roles is the accessibility tree: names by role.
func (v tab) roles() map[string][]string {
	v.Helper()
	tree := call(v, accessibility.GetFullAXTree, accessibility.GetFullAXTreeParams{})
	roles := map[string][]string{}
	for _, n := range tree.Nodes {
		if n.Ignored || n.Role == nil {
			continue
		}
		role, name := strings.Trim(string(n.Role.Value), `"`), ""
		if n.Name != nil {
			name = strings.Trim(string(n.Name.Value), `"`)
		}
		roles[role] = append(roles[role], name)
	}
	return roles
}
