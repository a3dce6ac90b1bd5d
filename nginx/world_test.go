package nginx_test

import (
	"fmt"
	"strings"
	"testing"

	"stile/nginx/nginxtest"
)

// plainSite is an ordinary protected server; %s is the place for more of it. HTTP/2 is on port 82.
const plainSite = `
upstream app { server 127.0.0.1:8080; keepalive 32; }
server {
    listen 80;
    listen 82 http2;
    server_name site.example;
    include snippets/stile.conf;
    location / {
        client_max_body_size 50m;
        proxy_http_version 1.1;
        proxy_set_header Connection "";
        proxy_set_header Host $host;
        proxy_pass http://app;
    }
    %s
}
`

// world is nginx between an application and a scripted daemon.
type world struct {
	*nginxtest.Nginx
	t   *testing.T
	app *nginxtest.App
	d   *nginxtest.Daemon
}

// start starts a world in which the daemon allows everything until it is told otherwise.
func start(t *testing.T, o nginxtest.Options) *world {
	t.Helper()
	w := startWithoutDaemon(t, o)
	w.d = nginxtest.StartDaemon(t, w.Socket())
	return w
}

func startWithoutDaemon(t *testing.T, o nginxtest.Options) *world {
	t.Helper()
	w := &world{t: t, app: nginxtest.StartApp(t)}
	o.App = w.app.Addr
	w.Nginx = nginxtest.Start(t, o)
	return w
}

// plain is a world around plainSite with more text in its server.
func plain(more string) nginxtest.Options {
	return nginxtest.Options{Site: fmt.Sprintf(plainSite, more)}
}

// expect checks a client's status, and how often the daemon was asked and the application was hit since the last expect.
func (w *world) expect(what string, r *nginxtest.Response, status, checks, hits int) {
	w.t.Helper()
	if r.Status != status {
		w.t.Errorf("%s: the client got %d, want %d; body %.100q", what, r.Status, status, r.Body)
	}
	w.expectCounts(what, checks, hits)
}

func (w *world) expectCounts(what string, checks, hits int) {
	w.t.Helper()
	if w.d != nil {
		if got := w.d.Checks(); got != checks {
			w.t.Errorf("%s: %d checks, want %d", what, got, checks)
		}
		w.d.Reset()
	}
	if got := w.app.Hits(); len(got) != hits {
		w.t.Errorf("%s: %d hits in the application, want %d: %+v", what, len(got), hits, got)
	}
	w.app.Reset()
}

// noErrors checks that nothing of weight is in the error log.
func (w *world) noErrors() {
	w.t.Helper()
	for line := range strings.Lines(w.Errors()) {
		for _, level := range []string{"[warn]", "[error]", "[crit]", "[alert]", "[emerg]"} {
			if strings.Contains(line, level) {
				w.t.Errorf("error log: %s", line)
			}
		}
	}
}

// header checks one header of a response: that it is there once, with that value. "" means absent.
func header(t *testing.T, r *nginxtest.Response, name, want string) {
	t.Helper()
	got := r.Header.Values(name)
	if want == "" && len(got) == 0 {
		return
	}
	if len(got) != 1 || got[0] != want {
		t.Errorf("%s: %q, want once %q", name, got, want)
	}
}
