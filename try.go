package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"stile/config"
	"stile/nginx"
	"stile/server"
)

// tryPolicy protects the demo site: tight enough to see everything within a minute.
const tryPolicy = `
[[meter]]
name = "demo"
window = "1m"
stranger = 3
pass = 30
[[meter]]
name = "renders"
window = "1m"
stranger = 60
pass = 60
[[gate]]
name = "render"
budget = 1
[[rule]]
name = "renders"
path = "/render/**"
do = "meter"
meter = ["renders"]
gate = "render"
[[rule]]
name = "the slow page"
path = "/slow/**"
do = "meter"
meter = ["demo"]
[[rule]]
name = "members"
path = "/proof/**"
do = "challenge"
[[rule]]
name = "closed"
path = "/closed/**"
do = "deny"
`

func try(args []string) int {
	f := flags("try", "[--listen ADDR]", `Starts a protected demo site with a deliberately slow page, behind the nginx that is on this
machine, and says what to open and what to try with curl. It needs no root, installs nothing,
and Ctrl-C leaves nothing behind.
`)
	listen := f.String("listen", "127.0.0.1:8480", "`address` of the demo site; loopback unless you mean it")
	if status, done := parse(f, args); done {
		return status
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	if err := demo(ctx, *listen); err != nil {
		return fail(err)
	}
	return 0
}

// demo runs the demo site until ctx ends.
func demo(ctx context.Context, listen string) error {
	program, err := findNginx()
	if err != nil {
		return err
	}
	if ln, err := net.Listen("tcp", listen); err != nil {
		return fmt.Errorf("the demo site cannot listen there: %w (choose another with --listen)", err)
	} else if err := ln.Close(); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "stile-try-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil { // nginx's workers may be another user
		return err
	}

	backend, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	site := &http.Server{Handler: demoSite(), ReadHeaderTimeout: 10 * time.Second}
	go site.Serve(backend)
	defer site.Close()

	daemon, err := demoDaemon(dir)
	if err != nil {
		return err
	}
	check, err := net.Listen("unix", filepath.Join(dir, "stile.sock"))
	if err != nil {
		return err
	}
	if err := os.Chmod(filepath.Join(dir, "stile.sock"), 0o666); err != nil { // nginx's workers again
		return err
	}
	admin, err := net.Listen("unix", filepath.Join(dir, "admin.sock"))
	if err != nil {
		return err
	}
	leases := filepath.Join(dir, "lease.sock")
	lease, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: leases, Net: "unixgram"})
	if err != nil {
		return err
	}
	if err := os.Chmod(leases, 0o666); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan error, 1)
	go func() {
		done <- daemon.Serve(ctx, server.Listeners{Check: check, Admin: admin, Lease: lease}, nil, nil)
	}()

	cmd, err := startNginx(program, dir, listen, backend.Addr().String())
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	if err := waitFor(ctx, listen, ended, cmd); err != nil {
		return err
	}
	fmt.Printf(tryText, listen)
	select {
	case <-ctx.Done():
		fmt.Println("\nstopping; nothing is left behind")
		err = nil
	case err = <-ended:
		return fmt.Errorf("nginx has ended: %v", err)
	case err = <-done:
	}
	cancel()
	cmd.Process.Signal(syscall.SIGTERM)
	<-ended
	return err
}

const tryText = `
A site that stile protects is on http://%[1]s/

  open   http://%[1]s/             free for all
  open   http://%[1]s/slow/        takes 2 s; three a minute, then your browser is asked for a proof
  open   http://%[1]s/render/      takes 2 s, and the server makes one at a time: the others wait their turn
  open   http://%[1]s/proof/       asks for a proof at once
  open   http://%[1]s/closed/      refused

  curl -i http://%[1]s/proof/      a program gets a line of text and 503, never a page
  for i in 1 2 3 4 5; do curl -s -o /dev/null -w '%%{http_code}\n' http://%[1]s/slow/; done
  for i in 1 2 3 4 5; do curl -s -o /dev/null -w '%%{http_code} after %%{time_total} s\n' http://%[1]s/render/ & done; wait

Ctrl-C ends it.
`

// demoDaemon is stile with the demo's rules, and everything it writes in dir.
func demoDaemon(dir string) (*server.Server, error) {
	text := fmt.Sprintf("include = []\n[listen]\ncheck = %q\nadmin = %q\nlease = %q\n[key]\nfile = %q\n[state]\ndir = %q\n%s",
		"unix:"+filepath.Join(dir, "stile.sock"), "unix:"+filepath.Join(dir, "admin.sock"), "unix:"+filepath.Join(dir, "lease.sock"), filepath.Join(dir, "key"), dir, tryPolicy)
	cfg, err := config.Parse("try", []byte(text))
	if err != nil {
		return nil, err
	}
	return server.New(cfg, server.Options{Version: version, Log: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))})
}

func findNginx() (string, error) {
	for _, name := range []string{"nginx", "/usr/sbin/nginx", "/usr/local/sbin/nginx", "/usr/local/nginx/sbin/nginx"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errors.New("there is no nginx on this machine; './deploy.sh try' in a checkout installs it first")
}

// startNginx writes a configuration around the shipped files and starts nginx with it.
func startNginx(program, dir, listen, backend string) (*exec.Cmd, error) {
	for name, text := range nginx.Files(dir) {
		file := filepath.Join(dir, "nginx", name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return nil, err
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			return nil, err
		}
	}
	conf := filepath.Join(dir, "nginx", "nginx.conf")
	text := strings.NewReplacer("DIR", dir, "LISTEN", listen, "BACKEND", backend).Replace(`
daemon off; worker_processes 1; pid DIR/nginx.pid; error_log stderr error;
events { worker_connections 512; }
http {
  access_log DIR/access.log;
  client_body_temp_path DIR/body; proxy_temp_path DIR/proxy; fastcgi_temp_path DIR/fastcgi;
  uwsgi_temp_path DIR/uwsgi; scgi_temp_path DIR/scgi;
  include conf.d/stile.conf;
  server {
    listen LISTEN;
    include snippets/stile.conf;
    location / { proxy_pass http://BACKEND; }
    location /render/ { include snippets/stile-gate.conf; proxy_pass http://BACKEND; }
  }
}
`)
	if err := os.WriteFile(conf, []byte(text), 0o644); err != nil {
		return nil, err
	}
	cmd := exec.Command(program, "-e", "stderr", "-p", filepath.Join(dir, "nginx"), "-c", conf)
	cmd.Stderr = os.Stderr
	// Not the terminal's Ctrl-C: we end it ourselves, after the daemon has stopped asking.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting nginx: %w", err)
	}
	return cmd, nil
}

// waitFor waits until nginx accepts connections.
func waitFor(ctx context.Context, addr string, ended chan error, cmd *exec.Cmd) error {
	for range 200 {
		if c, err := net.DialTimeout("tcp", addr, time.Second); err == nil {
			return c.Close()
		}
		select {
		case err := <-ended:
			return fmt.Errorf("nginx did not start: %v", err)
		case <-ctx.Done():
			cmd.Process.Signal(syscall.SIGTERM)
			<-ended
			return ctx.Err()
		case <-time.After(25 * time.Millisecond):
		}
	}
	cmd.Process.Signal(syscall.SIGTERM)
	<-ended
	return errors.New("nginx did not accept connections within five seconds")
}

// demoSite is the site to be protected.
func demoSite() http.Handler {
	page := func(title, text string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if strings.HasPrefix(r.URL.Path, "/slow/") || strings.HasPrefix(r.URL.Path, "/render/") {
				select {
				case <-time.After(2 * time.Second): // the expensive work
				case <-r.Context().Done():
					return
				}
			}
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			fmt.Fprintf(w, "<!doctype html><html lang=en><meta name=viewport content='width=device-width'><title>%s</title><body style='font:1rem/1.5 sans-serif;max-width:40em;margin:3em auto;padding:0 1em'><h1>%s</h1><p>%s</p><p><a href=/>Start</a> · <a href=/slow/>Slow page</a> · <a href=/render/>One at a time</a> · <a href=/proof/>Proof first</a> · <a href=/closed/>Closed</a></p>", title, title, text)
		}
	}
	mux := http.NewServeMux()
	mux.Handle("/{$}", page("A small site", "This page is free for all. The others are guarded."))
	mux.Handle("/slow/", page("The slow page", "This page took two seconds of the server's time. Three a minute are free, then a proof is asked for; with it there are thirty."))
	mux.Handle("/render/", page("One at a time", "This page took two seconds, and the server makes one at a time: whoever comes meanwhile waits for a turn, four of one address at most."))
	mux.Handle("/proof/", page("You are in", "Your browser has done a second of work for this, and keeps a pass for a day."))
	return mux
}
