package pow

import (
	"context"
	"encoding/base64"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"stile/internal/chromium"
)

// site serves /page and /stile.js, each with the policy in its query.
type site struct {
	*httptest.Server
	gone atomic.Bool // workers get 404
}

func newSite(t testing.TB) *site {
	s := &site{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if policy := r.URL.Query().Get("csp"); policy != "" {
			w.Header().Set("Content-Security-Policy", policy)
		}
		w.Header().Set("Cache-Control", "no-store")
		switch r.URL.Path {
		case "/page":
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprint(w, `<!doctype html><title>t</title><script src="/stile.js"></script>`)
		case "/stile.js":
			if r.URL.Query().Has("worker") && s.gone.Load() {
				http.NotFound(w, r)
				return
			}
			w.Header().Set("Content-Type", "text/javascript")
			w.Write(Script())
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *site) page(host, policy string) string {
	_, port, _ := net.SplitHostPort(s.Listener.Addr().String())
	return "http://" + host + ":" + port + "/page?" + url.Values{"csp": {policy}}.Encode()
}

func TestSolverInChromium(t *testing.T) {
	ctx, stop := chromium.Start(t, "")
	t.Cleanup(stop)
	s := newSite(t)
	issuer := testIssuer(t)

	const strict = "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; worker-src 'self'"
	const noWasm = "delete WebAssembly.Module;"
	const noWorker = "delete window.Worker;"
	threads := func(value string) string {
		return "Object.defineProperty(Navigator.prototype, 'hardwareConcurrency', {get: () => " + value + "});"
	}
	for _, x := range []struct {
		name         string
		host         string // default: gate.test
		csp          string // of the page
		workerCSP    string
		first        string // runs before the page
		gone         bool
		workers      int // that are made
		wasm         bool
		onThisThread bool
	}{
		{name: "ordinary", host: "127.0.0.1", workers: 2, wasm: true},
		{name: "plain http", workers: 2, wasm: true},
		{name: "strict policy", csp: strict, workerCSP: strict, workers: 2, wasm: true},
		{name: "policy without WebAssembly", csp: "script-src 'self'", workerCSP: "script-src 'self'", workers: 2},
		{name: "policy without workers", csp: "script-src 'self' 'wasm-unsafe-eval'; worker-src 'none'", workers: 2, wasm: true, onThisThread: true},
		{name: "policy without either", csp: "script-src 'self'; worker-src 'none'", workers: 2, onThisThread: true},
		{name: "trusted types", csp: "require-trusted-types-for 'script'", wasm: true, onThisThread: true},
		{name: "no Worker", first: noWorker, wasm: true, onThisThread: true},
		{name: "Worker that throws", first: "window.Worker = function() { throw new Error('no') };", wasm: true, onThisThread: true},
		{name: "no Worker, no WebAssembly", first: noWorker + noWasm, onThisThread: true},
		{name: "no WebAssembly at all", first: noWorker + "delete window.WebAssembly;", onThisThread: true},
		{name: "no BigInt, no crypto", first: "delete window.BigInt; delete window.crypto;", workers: 2, wasm: true},
		{name: "worker script is gone", gone: true, workers: 2, wasm: true, onThisThread: true},
		{name: "undefined threads", first: threads("undefined"), workers: 2, wasm: true},
		{name: "0 threads", first: threads("0"), workers: 2, wasm: true},
		{name: "1.5 threads", first: threads("1.5"), workers: 1, wasm: true},
		{name: "3 threads", first: threads("3"), workers: 3, wasm: true},
		{name: "512 threads", first: threads("512"), workers: 8, wasm: true},
	} {
		t.Run(x.name, func(t *testing.T) {
			tab, cancel := chromedp.NewContext(ctx)
			defer cancel()
			tab, cancel = context.WithTimeout(tab, time.Minute)
			defer cancel()
			host := x.host
			if host == "" {
				host = "gate.test"
			}
			first := x.first
			if !strings.Contains(first, "hardwareConcurrency") {
				first += threads("2")
			}
			first += `
				window.made = 0;
				if (window.Worker) window.Worker = class extends Worker {
					constructor(url) { super(url); window.made++; }
				};
				// A page whose thread is held in one piece ticks once or not at all.
				window.ticks = 0;
				setInterval(() => window.ticks++, 5);`
			s.gone.Store(x.gone)

			c := testChallenge(testNow)
			c.Bits = 12
			token := string(issuer.Append(nil, &c))
			if err := chromedp.Do(tab,
				chromedp.Func(func(ctx context.Context, tab *chromedp.Target) error {
					_, err := cdp.Call(ctx, tab, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: first})
					return err
				}),
				chromedp.Navigate(s.page(host, x.csp)),
			); err != nil {
				t.Fatal(err)
			}
			result, err := chromedp.Run(tab, chromedp.Evaluate[struct {
				Solution string `json:"solution"`
				Progress []int  `json:"progress"`
				Secure   bool   `json:"secure"`
				Wasm     bool   `json:"wasm"`
				Made     int    `json:"made"`
				Channels int    `json:"channels"`
				Ticks    int    `json:"ticks"`
			}](fmt.Sprintf(`(async () => {
					let channels = 0;
					const Channel = MessageChannel;
					window.MessageChannel = function() { channels++; return new Channel(); };
					const progress = [];
					const solution = await stile.solve({
						algorithm: 1, token: %q, bits: %d, parts: %d, script: %q,
						onprogress: done => progress.push(done),
					});
					let wasm = true;
					try { stile.solvers[1].ways[0](); } catch (e) { wasm = false; }
					return {
						solution: btoa(String.fromCharCode(...solution)).replace(/\+/g, '-').replace(/\//g, '_').replace(/=/g, ''),
						progress, wasm, channels, made, secure: isSecureContext, ticks,
					};
				})()`, token, c.Bits, c.Parts, "/stile.js?"+url.Values{"worker": {""}, "csp": {x.workerCSP}}.Encode()),
				chromedp.EvalAwaitPromise))
			if err != nil {
				t.Fatal(err)
			}
			solution, err := base64.RawURLEncoding.DecodeString(result.Solution)
			if err != nil {
				t.Fatal(err)
			}
			var seed [32]byte
			if err := issuer.Parse([]byte(token), testNow, &c, &seed); err != nil {
				t.Fatal(err)
			}
			if err := Verify(&c, &seed, int(c.Parts), solution); err != nil {
				t.Error(err)
			}
			if len(result.Progress) != 32 || result.Progress[0] != 1 || result.Progress[31] != 32 {
				t.Errorf("progress was %v", result.Progress)
			}
			if result.Made != x.workers {
				t.Errorf("%d workers were made, want %d", result.Made, x.workers)
			}
			if result.Wasm != x.wasm {
				t.Errorf("WebAssembly works: %v, want %v", result.Wasm, x.wasm)
			}
			// The other way round is no fault: where workers are slow to start, it helps.
			if x.onThisThread && result.Channels == 0 {
				t.Error("not solved on the page's thread, but nobody else was there")
			}
			if secure := host == "127.0.0.1"; result.Secure != secure {
				t.Errorf("secure context: %v, want %v", result.Secure, secure)
			}
			if x.onThisThread && !x.wasm && result.Ticks < 2 {
				t.Errorf("the page has ticked %d times: it was not alive", result.Ticks)
			}
			// Chromium takes its time to end a worker, up to a few seconds when it is busy.
			for began := time.Now(); workers(t, tab) > 0; {
				if time.Since(began) > 10*time.Second {
					t.Errorf("%d workers are left over", workers(t, tab))
					break
				}
			}
		})
	}
}

// workers counts those that are alive.
func workers(t *testing.T, tab context.Context) (n int) {
	t.Helper()
	targets, err := chromedp.Targets(tab)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range targets {
		if x.Type == "worker" {
			n++
		}
	}
	return n
}

// go test ./pow -run '^$' -bench Chromium -benchtime 1x
//
// The two ratios of one thread, in turn, as bench.mjs has them for node. A page's own
// thread on localhost, where there is crypto.subtle.
func BenchmarkChromium(b *testing.B) {
	ctx, stop := chromium.Start(b, "")
	b.Cleanup(stop)
	s := newSite(b)
	type rates struct {
		Wasm   float64 `json:"wasm"`
		Plain  float64 `json:"plain"`
		Subtle float64 `json:"subtle"`
	}
	var result rates
	for b.Loop() {
		if err := chromedp.Do(ctx, chromedp.Navigate(s.page("127.0.0.1", ""))); err != nil {
			b.Fatal(err)
		}
		var err error
		result, err = chromedp.Run(ctx, chromedp.Evaluate[rates](`(async () => {
				const [wasm, plain] = stile.solvers[1].ways.map(make => make());
				const seed = crypto.getRandomValues(new Uint8Array(32));
				const rate = (search, count) => {
					const began = performance.now();
					for (let done = 0; done < count;) {
						const n = search(seed, 24, 1, done, count - done);
						done = n < 0 ? count : n + 1;
					}
					return count / (performance.now() - began) * 1000;
				};
				const subtleRate = async count => {
					const message = new Uint8Array(40);
					const began = performance.now();
					for (let n = 0; n < count; n++) {
						message[39] = n;
						await crypto.subtle.digest('SHA-256', message);
					}
					return count / (performance.now() - began) * 1000;
				};
				const a = [], b = [], c = [];
				for (let i = -10; i < 200; i++) {
					const turn = [rate(wasm, 150000), rate(plain, 30000), await subtleRate(500)];
					if (i >= 0) [a, b, c].forEach((list, n) => list.push(turn[n]));
				}
				const undisturbed = list => [...list].sort((x, y) => x - y)[Math.floor(list.length * 0.9)];
				const [fast, slow, subtle] = [a, b, c].map(undisturbed);
				return {wasm: fast, plain: slow, subtle};
			})()`, chromedp.EvalAwaitPromise))
		if err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(result.Wasm/1e6, "wasm-MH/s")
	b.ReportMetric(result.Plain/1e6, "js-MH/s")
	b.ReportMetric(result.Subtle/1e6, "subtle-MH/s")
	b.ReportMetric(result.Wasm/result.Plain, "wasm/js")
	b.ReportMetric(result.Plain/result.Subtle, "js/subtle")
}
