package nginx_test

import (
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"stile/nginx/nginxtest"
)

// N4: a request that a gate has let in sends one line when it ends, and nobody else does.
func TestLeaseLines(t *testing.T) {
	w := start(t, plain(`location /gated/ { include snippets/stile-gate.conf; proxy_pass http://app; }`))
	l := nginxtest.StartLeaseLog(t, w.LeaseSocket())
	for _, a := range []*nginxtest.Answer{nginxtest.Allow, nginxtest.Challenge, nginxtest.Refuse, nginxtest.Deny, nginxtest.Full} {
		w.d.Always(a)
		w.Get("/gated/x")
	}
	w.d.Reset()
	w.app.Reset()
	w.d.Always(nginxtest.Admit)
	r := w.Get("/gated/last", "X-Stile-Lease: 1", "X-Stile-Cost: 1")
	header(t, r, "X-Stile-Lease", "")
	id := w.d.Calls("/check")[0].Header.Get("X-Request-Id")
	w.expect("let in", r, 200, 1, 1)
	w.Get("/.stile/x")
	if got := l.Wait(1); len(got) != 1 || got[0].ID != id || got[0].Status != "200" || !got[0].Done || got[0].Cost != "-" {
		t.Errorf("lines: %+v", got)
	}
	w.AccessLines(6) // the site's own log has them all
	w.noErrors()
}

// One line a request, at its real end, whatever becomes of it within nginx. The check is asked again after an internal
// redirect, and may then say anything: the lease is remembered.
func TestLeaseLineOfEveryEnd(t *testing.T) {
	w := start(t, plain(`
	location /gated/ { include snippets/stile-gate.conf; proxy_pass http://app; }
	location /errors/ {
		include snippets/stile-gate.conf;
		error_page 404 500 /own;
		error_page 403 = @stile_refused;
		include snippets/stile-guard.conf;
		proxy_intercept_errors on;
		proxy_pass http://app;
	}
	location = /own { proxy_pass http://app; }
	location /inner/ { internal; auth_request off; alias /run/stile/pages/; }
	location /inner-asked/ { internal; alias /run/stile/pages/; }
	location /static/ { alias /run/stile/pages/; index index.html; }
	location /try/ { auth_request off; root /run/stile/pages; try_files $uri @miss; }
	location @miss { include snippets/stile-gate.conf; proxy_pass http://app; }
	location /dead/ { include snippets/stile-gate.conf; proxy_pass http://127.0.0.1:1; }
	location /slow/ { include snippets/stile-gate.conf; proxy_read_timeout 100ms; proxy_pass http://app; }
	location /quiet/ { error_page 404 /silent; include snippets/stile-guard.conf; proxy_intercept_errors on; proxy_pass http://app; }
	location = /silent { access_log off; return 404; }
	location /moved/ { proxy_pass http://app; auth_request_set $x $upstream_http_x; return 302 /elsewhere; }
	location /ssi/ { ssi on; ssi_types text/plain; include snippets/stile-gate.conf; proxy_pass http://app; }
	`))
	write(t, w, "pages/there", "0123456789")
	write(t, w, "pages/index.html", "an index")
	write(t, w, "pages/try/there", "a page")
	l := nginxtest.StartLeaseLog(t, w.LeaseSocket())
	hang := make(chan struct{})
	t.Cleanup(func() { close(hang) })
	w.app.Handle(func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Last-Modified", "Mon, 02 Jan 2006 15:04:05 GMT")
		status, body := 200, "body"
		switch _, last, _ := strings.Cut(r.URL.Path[1:], "/"); last {
		case "304":
			rw.WriteHeader(304)
			return
		case "401":
			status = 401
		case "403":
			status = 403
		case "404":
			status = 404
		case "500":
			status = 500
		case "206":
			rw.Header().Set("Content-Range", "bytes 0-3/10")
			status = 206
		case "accel":
			rw.Header().Set("X-Accel-Redirect", "/inner/there")
		case "accel-asked":
			rw.Header().Set("X-Accel-Redirect", "/inner-asked/there")
		case "cost":
			rw.Header().Set("X-Stile-Cost", "4194304")
		case "no-cost":
			rw.Header().Set("X-Stile-Cost", "4 MiB")
		case "hang":
			select {
			case <-hang:
			case <-r.Context().Done():
			}
		case "parts":
			body = `<!--# include virtual="/gated/part1" --><!--# include virtual="/gated/part2" -->`
		}
		rw.Header().Set("Content-Type", "text/plain")
		rw.WriteHeader(status)
		io.WriteString(rw, body)
	})
	forgets := false
	w.d.Script(func(c nginxtest.Call) *nginxtest.Answer {
		switch {
		case c.Target != "/check":
			return nil
		case forgets && len(w.d.Calls("/check")) > 1:
			return nginxtest.Refuse
		}
		return nginxtest.Admit
	})
	sent := 0
	f := func(r *nginxtest.Response, status int, want nginxtest.LeaseLine) {
		t.Helper()
		sent++
		lines := l.Wait(sent)
		got := lines[len(lines)-1]
		calls := w.d.Calls("/check")
		if len(calls) == 0 || got.ID != calls[0].Header.Get("X-Request-Id") {
			t.Errorf("the line is %+v, the check was %+v", got, calls)
		}
		w.d.Reset()
		got.ID, got.Time = "", ""
		if want.Bytes == "" && got.Bytes != "-" {
			got.Bytes = ""
		}
		if r.Status != status || len(lines) != sent || got != want {
			t.Errorf("the client got %d, the log %d lines, the last %+v; want %d, %d, %+v", r.Status, len(lines), got, status, sent, want)
		}
	}
	done := func(status string) nginxtest.LeaseLine {
		return nginxtest.LeaseLine{Status: status, Cost: "-", Done: true}
	}
	unsent := func(status string) nginxtest.LeaseLine { // no backend was asked
		return nginxtest.LeaseLine{Status: status, Bytes: "-", Cost: "-", Done: true}
	}
	cost := done("200")
	cost.Cost = "4194304"

	f(w.Get("/gated/x"), 200, done("200"))
	f(w.Do("HEAD", "/gated/x"), 200, done("200"))
	f(w.Raw(80, nginxtest.Request("POST", "/gated/x", "abc")), 200, done("200"))
	f(w.Get("/gated/304"), 304, done("304"))
	f(w.Get("/gated/206", "Range: bytes=0-3"), 206, done("206"))
	f(w.Get("/gated/500"), 500, done("500"))
	f(w.Get("/gated/403"), 403, done("403"))
	f(w.Get("/gated/cost"), 200, cost)
	f(w.Get("/gated/no-cost"), 200, done("200"))
	f(w.Get("/gated/accel"), 200, done("200"))
	f(w.Get("/gated/accel-asked"), 200, done("200"))
	f(w.Get("/errors/404"), 404, done("404"))
	f(w.Get("/errors/500"), 500, done("500"))
	f(w.Get("/errors/401"), 401, done("401"))
	f(w.Get("/errors/403"), 403, done("403"))
	there := w.Get("/static/there")
	f(there, 200, unsent("200"))
	f(w.Get("/static/there", "If-None-Match: "+there.Header.Get("ETag")), 304, unsent("304"))
	f(w.Do("HEAD", "/static/there"), 200, unsent("200"))
	f(w.Get("/static/there", "Range: bytes=0-3"), 206, unsent("206"))
	f(w.Get("/static/there", "Range: bytes=20-30"), 416, unsent("416"))
	f(w.Get("/static/missing"), 404, unsent("404"))
	f(w.Get("/static/"), 200, unsent("200"))
	f(w.Get("/try/missing"), 200, done("200"))
	f(w.Get("/dead/x"), 502, done("502"))
	f(w.Get("/slow/hang"), 504, done("504")) // the end of nginx's patience, and not of the work
	f(w.Get("/ssi/parts"), 200, done("200"))

	forgets = true
	f(w.Get("/errors/404"), 403, done("403")) // the second check refuses; the line still comes
	f(w.Get("/static/"), 429, done("429"))    // with the bytes of stile's own page
	forgets = false

	// No check, no line; and none from a location whose log is off.
	w.Get("/try/there")
	w.Get("/moved/x")
	if calls := w.d.Calls("/check"); len(calls) != 0 {
		t.Errorf("checks: %+v", calls)
	}
	w.Get("/quiet/404")
	w.d.Reset()
	f(w.Get("/gated/x"), 200, done("200"))
}

// A check that cannot be asked again (an error page, while the daemon is gone) takes no lease away.
func TestLeaseLineAfterTheDaemonHasGone(t *testing.T) {
	w := start(t, plain(`
	location /errors/ { error_page 404 /own; include snippets/stile-guard.conf; proxy_intercept_errors on; proxy_pass http://app; }
	location = /own { return 404 "own"; }
	`))
	l := nginxtest.StartLeaseLog(t, w.LeaseSocket())
	w.d.Always(nginxtest.Admit)
	w.app.Handle(func(rw http.ResponseWriter, r *http.Request) {
		w.d.Stop()
		rw.WriteHeader(404)
	})
	w.Get("/errors/x")
	if got := l.Wait(1)[0]; got.Status != "404" || got.Bytes == "-" {
		t.Errorf("the line: %+v", got)
	}
}

// The lease log stands beside the site's own logs, in whatever way those are kept.
func TestLeaseLogBesideTheSites(t *testing.T) {
	o := plain(`
	location /inherited/ { proxy_pass http://app; }
	location /own/ { access_log /run/stile/own.log combined; proxy_pass http://app; }
	location /both/ { access_log /run/stile/both.log combined; include snippets/stile-lease.conf; proxy_pass http://app; }
	location /off/ { access_log off; proxy_pass http://app; }
	location /off-and-lease/ { access_log off; include snippets/stile-lease.conf; proxy_pass http://app; }
	location /lease/ { include snippets/stile-lease.conf; proxy_pass http://app; }
	location /gated/ { access_log /run/stile/gated.log combined if=$arg_log; include snippets/stile-lease.conf; proxy_pass http://app; }
	`)
	w := start(t, o)
	l := nginxtest.StartLeaseLog(t, w.LeaseSocket())
	w.d.Always(nginxtest.Admit)
	for _, target := range []string{"/inherited/x", "/own/x", "/both/x", "/off/x", "/off-and-lease/x", "/lease/x", "/gated/x", "/gated/x?log=1", "/last"} {
		w.Get(target)
	}
	w.AccessLines(2)
	var targets []string
	for _, line := range l.Wait(6) {
		for _, c := range w.d.Calls("/check") {
			if c.Header.Get("X-Request-Id") == line.ID {
				targets = append(targets, c.Header.Get("X-Original-URI"))
			}
		}
	}
	if got, want := strings.Join(targets, " "), "/inherited/x /both/x /lease/x /gated/x /gated/x?log=1 /last"; got != want {
		t.Errorf("lines of %s, want %s", got, want)
	}
	f := func(name string, want ...string) {
		t.Helper()
		text, err := os.ReadFile(filepath.Join(w.Dir(), name))
		lines := strings.SplitAfter(string(text), "\n")
		if err != nil || len(lines) != len(want)+1 {
			t.Errorf("%s: %v, %d lines, want %d:\n%s", name, err, len(lines)-1, len(want), text)
			return
		}
		for i, target := range want {
			if !strings.Contains(lines[i], `"GET `+target+` HTTP/1.1" 200`) {
				t.Errorf("%s: line %q, want %s", name, lines[i], target)
			}
		}
	}
	f("access.log", "/inherited/x", "/last")
	f("own.log", "/own/x")
	f("both.log", "/both/x")
	f("gated.log", "/gated/x?log=1")
	w.noErrors()
}

// The server that a request is for is named by the configuration, and not by the client.
func TestServerName(t *testing.T) {
	w := start(t, plain(`
	}
	server {
	listen 81;
	include snippets/stile.conf;
	location / { proxy_pass http://app; }
	`))
	f := func(port int, want ...string) {
		t.Helper()
		w.d.Reset()
		w.Raw(port, "GET /x HTTP/1.1\r\nHost: other.example\r\nX-Stile-Server: forged\r\n\r\n")
		for _, c := range w.d.Calls("/check") {
			if got := c.Header.Values("X-Stile-Server"); strings.Join(got, "|") != strings.Join(want, "|") {
				t.Errorf("port %d: %q, want %q", port, got, want)
			}
		}
	}
	f(80, "site.example")
	f(81) // a server without a name
}

// A reload while requests wait in the check, and while leases are in flight: the old worker goes on with both, and
// its lines arrive.
func TestReloadWithLeasesInFlight(t *testing.T) {
	o := plain(workshopLocations())
	o.Shutdown = time.Minute
	w := start(t, o)
	l := nginxtest.StartLeaseLog(t, w.LeaseSocket())
	asked, admit := make(chan nginxtest.Call, 1), make(chan struct{})
	w.d.Script(func(c nginxtest.Call) *nginxtest.Answer {
		if c.Header.Get("X-Original-URI") == "/proxy/gated/waits" {
			asked <- c
			<-admit
		}
		return nginxtest.Admit
	})
	s := startWorkshop(t, w.Nginx, 0)
	stays := w.visit(s, 0, "/proxy/gated/stays", "")
	leaves := w.visit(s, 0, "/proxy/gated/leaves", "")
	leaves.leave()
	w.Get("/.stile/barrier")
	waiting := make(chan *http.Response, 1)
	go func() {
		if resp, err := w.Client(80).Get("http://site.example/proxy/gated/waits"); err == nil {
			waiting <- resp
		}
	}()
	c := receive(t, "the check", asked)
	w.Reload()
	w.Get("/.stile/barrier") // from the new worker
	if lines := l.Lines(); len(lines) != 0 {
		t.Errorf("lines at the reload: %+v", lines)
	}
	close(admit)
	waits := receive(t, "the hit of one who waited", s.begun)
	for _, k := range []*work{stays.work, leaves.work, waits} {
		if err := k.write("done"); err != nil {
			t.Errorf("%s: %s", k.target, err)
		}
		close(k.finish)
	}
	if resp := receive(t, "an answer", waiting); resp.StatusCode != 200 {
		t.Errorf("who waited got %d", resp.StatusCode)
	} else {
		resp.Body.Close()
	}
	l.Wait(3)
	for _, id := range []string{stays.id, leaves.id, c.Header.Get("X-Request-Id")} {
		if line, ok := lineOf(l, id); !ok || line.Status != "200" {
			t.Errorf("%+v", line)
		}
	}
	w.noErrors()
}

// An old worker that may not take its time closes everything. Its lines say that nothing was finished: the status is 000.
func TestReloadThatDoesNotWait(t *testing.T) {
	o := plain(workshopLocations())
	o.Shutdown = time.Millisecond
	w := start(t, o)
	l := nginxtest.StartLeaseLog(t, w.LeaseSocket())
	w.d.Always(nginxtest.Admit)
	s := startWorkshop(t, w.Nginx, 0)
	stays := w.visit(s, 0, "/proxy/gated/stays", "")
	leaves := w.visit(s, 0, "/proxy/gated/leaves", "")
	leaves.leave()
	w.Get("/.stile/barrier")
	w.Reload()
	l.Wait(2)
	for _, v := range []*visit{stays, leaves} {
		if line, ok := lineOf(l, v.id); !ok || line.Status != "000" || line.Done {
			t.Errorf("%+v", line)
		}
		close(v.work.finish)
	}
}

// The daemon's socket, removed and made anew: nginx sends again by itself, and what it has lost is one line.
func TestLeaseSocketMadeAnew(t *testing.T) {
	w := start(t, plain(``))
	w.d.Always(nginxtest.Admit)
	count := func(text string) int { return strings.Count(w.Errors(), text) }
	lose := func(want int) {
		t.Helper()
		w.Get("/lost")
		await(t, "a lost line", func() bool { return count("send() to syslog failed") == want })
	}
	lose(1) // nobody has ever listened
	l := nginxtest.StartLeaseLog(t, w.LeaseSocket())
	w.Get("/x")
	l.Wait(1)

	// Restarted while nothing ended: nginx learns it from the line that it loses.
	l.Stop()
	l = nginxtest.StartLeaseLog(t, w.LeaseSocket())
	lose(2)
	w.Get("/x")
	l.Wait(1)

	// Gone for a while, name and all.
	l.Stop()
	if err := os.Remove(w.LeaseSocket()); err != nil {
		t.Fatal(err)
	}
	lose(3)
	lose(4)
	lose(5)
	l2 := nginxtest.StartLeaseLog(t, w.LeaseSocket())
	w.Get("/x")
	l2.Wait(1)
	if len(l.Lines()) != 1 || len(l2.Lines()) != 1 {
		t.Errorf("lines: %d and %d, want 1 and 1", len(l.Lines()), len(l2.Lines()))
	}

	// What it costs: two lines in the error log for each line that is lost.
	if a, e := count("[alert]"), count("[error]"); a != 3 || e != 2 {
		t.Errorf("%d alerts and %d errors for five lost lines, want 3 and 2:\n%s", a, e, w.Errors())
	}
}

// A reader that does not keep up loses lines, and holds up nobody.
func TestLeaseLogIsNotRead(t *testing.T) {
	w := start(t, plain(``))
	w.d.Always(nginxtest.Admit)
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: w.LeaseSocket(), Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	await(t, "a lost line", func() bool {
		if r := w.Get("/x"); r.Status != 200 {
			t.Errorf("the client got %d", r.Status)
		}
		return strings.Contains(w.Errors(), "send() to syslog failed")
	})
	for line := range strings.Lines(w.Errors()) {
		if strings.Contains(line, "[alert]") || strings.Contains(line, "[error]") {
			t.Errorf("error log: %s", line)
		}
	}
	b := make([]byte, 4096)
	if _, err := conn.Read(b); err != nil {
		t.Fatal(err)
	}
	before := strings.Count(w.Errors(), "send() to syslog failed")
	w.Get("/x")
	w.Get("/.stile/barrier")
	if got := strings.Count(w.Errors(), "send() to syslog failed"); got != before {
		t.Errorf("a line is lost although there is room for it")
	}
}
