package lint_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"stile/config"
	"stile/nginx/lint"
	"stile/nginx/nginxtest"
)

// world is a real nginx between an application and a scripted daemon.
type world struct {
	*nginxtest.Nginx
	t   *testing.T
	app *nginxtest.App
	d   *nginxtest.Daemon
	log *nginxtest.LeaseLog
}

func start(t *testing.T, o nginxtest.Options) *world {
	t.Helper()
	w := &world{t: t, app: nginxtest.StartApp(t)}
	o.App = w.app.Addr
	w.Nginx = nginxtest.Start(t, o)
	w.d = nginxtest.StartDaemon(t, w.Socket())
	w.log = nginxtest.StartLeaseLog(t, w.LeaseSocket())
	return w
}

// found tells whether the real nginx's own -T leads to a finding of that kind.
func (w *world) found(code, toml string) bool {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	bin, err := exec.LookPath("nginx")
	if err != nil {
		bin = "/usr/sbin/nginx"
	}
	out, err := exec.CommandContext(ctx, bin, "-T", "-p", w.Dir(), "-c", filepath.Join(w.Dir(), "nginx.conf"), "-e", "stderr").Output()
	if err != nil {
		w.t.Fatalf("nginx -T: %v", err)
	}
	c, err := config.Parse("stile.toml", fmt.Appendf(nil, "include = []\n[listen]\ncheck = \"unix:%s\"\nlease = \"unix:%s\"\n%s", w.Socket(), w.LeaseSocket(), toml))
	if err != nil {
		w.t.Fatal(err)
	}
	r, err := lint.Check(out, lint.Options{Stile: c})
	if err != nil {
		w.t.Fatal(err)
	}
	for _, f := range r.Findings {
		if f.Code == code {
			return true
		}
	}
	return false
}

// expect is what a client gets, and how often the daemon was asked and the application was hit for it.
func (w *world) expect(r *nginxtest.Response, status, checks, hits int) {
	w.t.Helper()
	if got := fmt.Sprint(r.Status, w.d.Checks(), len(w.app.Hits())); got != fmt.Sprint(status, checks, hits) {
		w.t.Errorf("status, checks and hits: got %s, want %d %d %d; body %.100q", got, status, checks, hits, r.Body)
	}
	w.d.Reset()
	w.app.Reset()
}

// hole is shown by a real nginx, found, closed by the line that the finding wants written, and shown to be closed.
type hole struct {
	name, code string
	http       string   // at the http level, in both
	replace    []string // in stile's own files, with the hole
	open, shut string   // text for the server, with the hole and without
	toml       string   // rules
	warns      string   // what nginx -t warns of
	answer     *nginxtest.Answer
	show       func(w *world, shut bool)
}

// holes is all of them, by what they are about.
func holes() []hole { return slices.Concat(asked, again, around, gates) }

// guarded is the rest of a server on port 81.
const guarded = ` include snippets/stile.conf; location / { proxy_pass http://app; }`

// get shows a hole by one request to port 80: its status, and how often the daemon was asked and the application was hit,
// while it is open and when it is shut.
func get(target, open, shut string) func(*world, bool) { return ask(80, target, open, shut) }

// get81 is get for port 81.
func get81(target, open, shut string) func(*world, bool) { return ask(81, target, open, shut) }

func ask(port int, target, open, shut string) func(*world, bool) {
	return func(w *world, isShut bool) {
		want := open
		if isShut {
			want = shut
		}
		r := w.at(port, target)
		var status, checks, hits int
		if _, err := fmt.Sscan(want, &status, &checks, &hits); err != nil {
			w.t.Fatal(err)
		}
		w.expect(r, status, checks, hits)
	}
}

// showSecond: a request does not make a second one, of which nobody was asked.
func (w *world) showSecond(target string, shut bool) {
	w.t.Helper()
	w.Get(target)
	var second bool
	await(w.t, func() bool {
		for _, h := range w.app.Hits() {
			second = second || h.Target == "/expensive"
		}
		return shut && len(w.app.Hits()) > 0 || second
	})
	if second == shut || w.d.Checks() != 1 {
		w.t.Errorf("%d checks, hits %+v", w.d.Checks(), w.app.Hits())
	}
}

// at is Get for another port.
func (w *world) at(port int, target string, headers ...string) *nginxtest.Response {
	w.t.Helper()
	return w.Raw(port, nginxtest.Request("GET", target, "", headers...))
}

// expectHost: the application was asked by a name.
func (w *world) expectHost(r *nginxtest.Response, open, shut string, isShut bool) {
	w.t.Helper()
	if isShut {
		open = shut
	}
	if hits := w.app.Hits(); r.Status != 200 || len(hits) != 1 || hits[0].Host != open {
		w.t.Errorf("%d, %+v, want %s", r.Status, hits, open)
	}
}

// two is an upstream of two protected servers.
const two = `
	} upstream two { server 127.0.0.1:81; server 127.0.0.1:82; }
	server { listen 81; set_real_ip_from 127.0.0.1; include snippets/stile.conf; location / { proxy_pass http://app; } }
	server { listen 82; set_real_ip_from 127.0.0.1; include snippets/stile.conf; location / { proxy_pass http://app; }`

// showLease: the end of a request at /x is told, or is not. That of the one after it always is.
func showLease(w *world, shut bool) {
	w.Get("/x")
	w.Get("/y")
	want := 1
	if shut {
		want = 2
	}
	if lines := w.log.Wait(want); len(lines) != want {
		w.t.Errorf("%d lines in the lease log, want %d", len(lines), want)
	}
}

func showInjection(w *world, shut bool) {
	w.Get("/x%0d%0aX-User:%20root")
	hits := w.app.Hits()
	if len(hits) != 1 || (hits[0].Header.Get("X-User") == "") != shut {
		w.t.Errorf("%+v", hits)
	}
}

func await(t *testing.T, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			return
		}
	}
}

func TestHoles(t *testing.T) {
	for _, h := range holes() {
		for _, shut := range []bool{false, true} {
			name := h.name
			if shut {
				name += ", closed"
			}
			t.Run(name, func(t *testing.T) {
				o := nginxtest.Options{HTTP: h.http, Warns: h.warns, Files: map[string]string{"answer.txt": "text\n", "users": "root:{PLAIN}secret\n"}}
				more := h.open
				if shut {
					more = h.shut
				} else {
					o.Replace = h.replace
				}
				root := "location / { proxy_pass http://app; }"
				if strings.Contains(more, "location / {") && h.code == "merge-slashes" {
					root = ""
				}
				if strings.Contains(h.http, "proxy_cache c;") {
					root = "location / { proxy_cache off; proxy_pass http://app; }"
				}
				o.Site = "upstream app { server 127.0.0.1:8080; }\nserver {\nlisten 80;\nserver_name site.example;\ninclude snippets/stile.conf;\n" + root + "\n" + more + "\n}\n"
				w := start(t, o)
				w.d.Always(h.answer)
				w.app.Handle(func(rw http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(rw, "app") })
				h.show(w, shut)
				if found := w.found(h.code, h.toml); found == shut {
					t.Errorf("found: %v", found)
				}
			})
		}
	}
}
