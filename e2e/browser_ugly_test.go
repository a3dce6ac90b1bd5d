package e2e

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"stile/key"
	"stile/network"
	"stile/nginx/nginxtest"
	"stile/pow"
)

// A hold keeps requests for a path waiting until it is let go.
type hold struct {
	path string
	came chan struct{} // one for each request that waits
	free chan struct{}
	let  func()
}

func newHold(path string) *hold {
	h := &hold{path: path, came: make(chan struct{}, 100), free: make(chan struct{})}
	h.let = sync.OnceFunc(func() { close(h.free) })
	return h
}

func (h *hold) meddle(w http.ResponseWriter, r *http.Request, pass http.Handler) {
	if r.URL.Path == h.path {
		// Only when it has been read does the server notice that the client is gone.
		body, err := io.ReadAll(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		h.came <- struct{}{}
		select {
		case <-h.free:
		case <-r.Context().Done():
		}
	}
	pass.ServeHTTP(w, r)
}

// waits waits until a request is held.
func (v *tab) waits(h *hold) {
	v.Helper()
	select {
	case <-h.came:
	case <-v.ctx.Done():
		v.Fatalf("%s is never asked for: %s", h.path, v.text())
	}
}

// C065: a picture that was asked for before the pass came is answered after it: the
// refusal takes nothing away.
func TestBrowserC065LateRefusalTakesNothing(t *testing.T) {
	t.Parallel()
	s := open(t, houseRules, "")
	late := make(chan struct{})
	let := sync.OnceFunc(func() { close(late) })
	t.Cleanup(let)
	x := s.wire(80, func(w http.ResponseWriter, r *http.Request, pass http.Handler) {
		if r.URL.Path != "/heavy/late" {
			pass.ServeHTTP(w, r)
			return
		}
		// nginx answers at once; the answer is what comes late.
		answer := &slowWriter{ResponseWriter: w, until: late}
		pass.ServeHTTP(answer, r)
	})
	s.pages(map[string]string{"/open/page": "<img src='/heavy/late?1' alt=''><script>fetch('/heavy/late?2').then(r => document.title = r.status)</script>"})
	v := s.tab("")
	v.start(fmt.Sprintf("location.href = %q", x.at("gate.test", "/open/page")))
	v.wait("the refusals", func() bool { return len(x.of("/heavy/late")) == 2 })
	other := v.another("")
	other.open(x.at("gate.test", "/heavy/x"))
	other.inside(x.at("gate.test", "/heavy/x"))
	before := other.pass(x.at("gate.test", "/"))
	let()
	v.until("document.title === '503'")
	if after := other.pass(x.at("gate.test", "/")); before == nil || after == nil || after.Value != before.Value {
		t.Errorf("the pass was %v and is %v", before, after)
	}
	other.open(x.at("gate.test", "/heavy/y"))
	other.inside(x.at("gate.test", "/heavy/y"))
	s.counted(1, 1)
}

// slowWriter writes nothing before its time.
type slowWriter struct {
	http.ResponseWriter
	until chan struct{}
}

func (w *slowWriter) WriteHeader(status int) {
	<-w.until
	w.ResponseWriter.WriteHeader(status)
}

// C074: the visitor's clock is three hours ahead of the server's, or behind it.
func TestBrowserC074ClocksHoursApart(t *testing.T) {
	t.Parallel()
	for _, apart := range []time.Duration{3 * time.Hour, -3 * time.Hour} {
		s := build(t, houseRules, nginxtest.Options{})
		s.inside(func() time.Time { return time.Now().Add(apart) })
		s.pages(nil)
		x := s.wire(80, nil)
		x.answer = func(r *http.Response) {
			r.Header.Set("Date", time.Now().Add(apart).UTC().Format(http.TimeFormat))
		}
		v := s.tab("")
		v.open(x.at("gate.test", "/heavy/x"))
		v.inside(x.at("gate.test", "/heavy/x"))
		v.open(x.at("gate.test", "/heavy/y"))
		v.inside(x.at("gate.test", "/heavy/y"))
		s.counted(1, 1)
		if c := v.pass(x.at("gate.test", "/")); c == nil {
			t.Error("no pass")
		} else if left := time.Until(time.Unix(int64(c.Expires), 0)); left < 20*time.Hour || left > 28*time.Hour {
			t.Errorf("%v apart, the browser keeps the pass for %v", apart, left)
		}
	}
}

// C084: the daemon is killed while the browser solves, and comes back. What was solved
// counts.
func TestBrowserC084DaemonRestarts(t *testing.T) {
	t.Parallel()
	s := open(t, houseRules, "")
	s.pages(nil)
	h := newHold("/.stile/proof")
	x := s.wire(80, h.meddle)
	v := s.tab("")
	address := x.at("gate.test", "/heavy/x?y=%26#z")
	v.open(address)
	v.waits(h)
	s.daemon.kill(syscall.SIGKILL)
	h.let()
	v.wait("an answer without a daemon", func() bool {
		posted := x.of("/.stile/proof")
		return len(posted) > 0 && posted[0].Status == 503
	})
	s.daemon.start()
	v.inside(address)
	s.counted(0, 1) // of the new one
}

// The puzzle is handed in too late: the laptop slept, perhaps. The page gets a new one.
func TestBrowserExpired(t *testing.T) {
	t.Parallel()
	s := build(t, houseRules, nginxtest.Options{})
	now := &clock{t: time.Now()}
	s.inside(now.now)
	s.pages(nil)
	h := newHold("/.stile/proof")
	x := s.wire(80, h.meddle)
	v := s.tab("")
	address := x.at("gate.test", "/heavy/x?y=%26#z")
	v.open(address)
	v.waits(h)
	now.step(6 * time.Minute)
	h.let()
	v.inside(address)
	s.counted(2, 1)
	if got := s.daemon.metric("stile_challenges_failed_total", "expired"); got != 1 {
		t.Errorf("%v proofs came too late", got)
	}
}

// C090: of what the page needs every other request is lost, and what comes takes a second.
func TestBrowserC090HalfIsLost(t *testing.T) {
	t.Parallel()
	s := open(t, houseRules, "")
	s.pages(nil)
	var mu sync.Mutex
	count, lost := map[string]int{}, 0
	x := s.wire(80, func(w http.ResponseWriter, r *http.Request, pass http.Handler) {
		if !strings.HasPrefix(r.URL.Path, "/.stile/") {
			pass.ServeHTTP(w, r)
			return
		}
		time.Sleep(time.Second) // the network's latency
		mu.Lock()
		count[r.URL.Path]++
		drop := count[r.URL.Path]%2 == 1
		if drop {
			lost++
		}
		mu.Unlock()
		if drop {
			panic(http.ErrAbortHandler) // the connection breaks
		}
		pass.ServeHTTP(w, r)
	})
	v := s.tab("")
	began := time.Now()
	v.open(x.at("gate.test", "/heavy/x?y#z"))
	v.inside(x.at("gate.test", "/heavy/x?y#z"))
	t.Logf("inside after %v; %d of %v were lost", time.Since(began).Round(100*time.Millisecond), lost, count)
	if lost < 3 {
		t.Errorf("only %d requests were lost", lost)
	}
	s.counted(1, 1)
}

// C098: over every limit there is, the way in is open.
func TestBrowserC098OverTheLimit(t *testing.T) {
	t.Parallel()
	s := open(t, houseRules, "")
	s.pages(nil)
	other := s.visitorFrom("127.0.0.1", firefox...)
	for range 20 {
		other.get("/metered/page")
	}
	s.app.Reset()
	v := s.tab("")
	for i := range 3 {
		v.open(s.at("gate.test", fmt.Sprintf("/metered/%d", i)))
		v.inside(s.at("gate.test", fmt.Sprintf("/metered/%d", i)))
	}
	s.counted(21-3, 1) // of those 20 three were allowed
	if got := len(s.targets()); got != 3 {
		t.Errorf("the application was asked %d times, want 3", got)
	}

	// Over the limit of a pass another proof would not help, and none is asked for.
	for i := range 4 {
		v.open(s.at("gate.test", fmt.Sprintf("/metered/more-%d", i)))
	}
	v.says("limit_heading")
	v.says("again")
	s.counted(21-3, 1)
	v.picture("limit")
}

// While the browser solves, many passes go to its network: the price has risen when it is
// done, and it goes on until that is paid, too.
func TestBrowserPriceRises(t *testing.T) {
	t.Parallel()
	s := open(t, houseRules, "")
	s.pages(nil)
	first, second := newHold("/.stile/proof"), newHold("/.stile/proof")
	var posts atomic.Int32
	x := s.wire(80, func(w http.ResponseWriter, r *http.Request, pass http.Handler) {
		switch {
		case r.URL.Path != "/.stile/proof":
			pass.ServeHTTP(w, r)
		case posts.Add(1) == 1:
			first.meddle(w, r, pass)
		default:
			second.meddle(w, r, pass)
		}
	})
	v := s.tab(`addEventListener('DOMContentLoaded', () => {
		window.said = [];
		const area = document.getElementById('js');
		if (area) new MutationObserver(() => said.push(area.firstChild.textContent)).observe(area, {subtree: true, childList: true});
	});`)
	address := x.at("gate.test", "/heavy/x?y=%26#z")
	v.open(address)
	v.waits(first)
	passes := 0
	for s.visitorFrom("127.0.0.1", firefox...).cheapPass() {
		passes++
	}
	if passes < 16 || passes > 20 {
		t.Errorf("the price rose after %d passes", passes)
	}
	first.let()
	v.waits(second)
	v.until(fmt.Sprintf("said.includes(%q)", english(t, "more")))
	v.picture("price")
	// The bar alone is seen, and starts again from what there is to do; the percentage is
	// for those who only hear it, now and then.
	if seen := v.eval("[...document.querySelectorAll('#js p')].filter(p => p.offsetHeight > 1).length"); seen != "1" {
		t.Errorf("more is seen than a sentence and a bar: %s", v.eval("document.getElementById('js').innerText"))
	}
	if max := v.eval("document.querySelector('progress').max"); max != "64" {
		t.Errorf("the bar goes to %s parts, want 64", max)
	}
	second.let()
	v.inside(address)
	if n := posts.Load(); n != 2 {
		t.Errorf("the browser handed in %d times", n)
	}
	s.counted(1, float64(passes+1))
}

// cheapPass earns a pass with a puzzle that only whoever has the site's key can make so
// easy. It is worth the base price; when that has risen there is none.
func (v *visitor) cheapPass() bool {
	v.t.Helper()
	ring, err := key.Load(v.s.daemon.dir + "/key")
	if err != nil {
		v.t.Fatal(err)
	}
	c := pow.Challenge{
		Algorithm: pow.SHA256, Kind: pow.Work, Level: 2, Bits: 4, Parts: 32, Network: network.Of(netip.MustParseAddr(v.from)),
		Issued: uint32(time.Now().Unix()), Expires: uint32(time.Now().Add(time.Hour).Unix()),
	}
	rand.Read(c.ID[:])
	token := string(pow.NewIssuer(ring).Append(nil, &c))
	p := puzzle{Token: token, Bits: c.Bits, Parts: int(c.Parts)}
	r := v.ask("POST", "/.stile/proof", proofText(token, p.solve(0, p.Parts)), v.fetchHeaders()...)
	if r.Status != http.StatusOK && r.Status != http.StatusPaymentRequired {
		v.t.Fatalf("an easy puzzle: %d %s", r.Status, r.Body)
	}
	return r.Status == http.StatusOK
}

// A network has had its passes of the day.
func TestBrowserCeiling(t *testing.T) {
	t.Parallel()
	s := open(t, houseRules+"[pass]\nper_network_day = 1\n", "")
	s.pages(nil)
	v := s.tab("")
	v.open(s.at("gate.test", "/heavy/x"))
	v.inside(s.at("gate.test", "/heavy/x"))
	other := s.tab("")
	other.open(s.at("gate.test", "/heavy/x"))
	other.says("ceiling")
	other.picture("ceiling")
	other.after(20 * time.Second)
	s.counted(2, 1)
	v.open(s.at("gate.test", "/heavy/y"))
	v.inside(s.at("gate.test", "/heavy/y"))
}
