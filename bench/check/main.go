// Command check measures what stile costs a request, in ratios of one run. It starts
// everything itself: nginx, stile, and a bare fasthttp handler to compare with.
//
// Two runs of the same thing differ by 15 % on a shared machine, so the variants take
// turns, round after round, and what is printed is the median of the rounds' ratios.
package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"stile/bench/child"
	"stile/config"
	"stile/cookie"
	"stile/key"
	"stile/nginx"
	"stile/server"
)

var (
	rounds   = flag.Int("rounds", 15, "how many times every variant has its turn")
	length   = flag.Duration("d", 3*time.Second, "how long one turn takes")
	conns    = flag.Int("c", 32, "connections of the load generator to nginx")
	direct   = flag.Int("direct", 8, "connections of the client that speaks to the sockets directly")
	skipWrk  = flag.Bool("direct-only", false, "leave nginx out")
	bareRole = flag.String("bare", "", "internal: serve the bare handler on this socket")
	gateRole = flag.String("gate", "", "internal: serve stile with this configuration")
)

func main() {
	flag.Parse()
	var err error
	switch {
	case *bareRole != "":
		err = serveBare(*bareRole)
	case *gateRole != "":
		err = serveGate(*gateRole)
	default:
		err = measure()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// serveBare is the least that can answer nginx: a handler that says 200.
func serveBare(socket string) error {
	ln, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}
	if err := os.Chmod(socket, 0o666); err != nil {
		return err
	}
	s := &fasthttp.Server{
		Handler:        func(ctx *fasthttp.RequestCtx) { ctx.SetStatusCode(fasthttp.StatusOK) },
		ReadBufferSize: 48 << 10,
		IdleTimeout:    90 * time.Second,
	}
	return s.Serve(ln)
}

func serveGate(file string) error {
	cfg, err := config.Load(file)
	if err != nil {
		return err
	}
	s, err := server.New(cfg, server.Options{File: file, Version: "bench", Log: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))})
	if err != nil {
		return err
	}
	return s.Run(context.Background(), nil, nil)
}

const policy = `
include = []
[listen]
check = "unix:DIR/stile.sock"
admin = "unix:DIR/admin.sock"
lease = "unix:DIR/lease.sock"
group = "GROUP"
[key]
file = "DIR/key"
[state]
dir = "DIR"
[[meter]]
name = "render"
window = "1m"
stranger = 10000000
pass = 10000000
strangers = 10000000
[[rule]]
name = "closed"
path = "/closed/**"
do = "challenge"
[[rule]]
name = "metered"
path = "/**"
do = "meter"
meter = ["render"]
`

const nginxConf = `
daemon off; worker_processes 1; WORKERS pid DIR/nginx.pid; error_log DIR/error.log error;
events { worker_connections 4096; }
http {
  access_log off; keepalive_requests 1000000;
  client_body_temp_path DIR/t1; proxy_temp_path DIR/t2; fastcgi_temp_path DIR/t3; uwsgi_temp_path DIR/t4; scgi_temp_path DIR/t5;
  include conf.d/stile.conf;
  upstream bare { server unix:DIR/bare.sock; keepalive 64; }
  server { listen 127.0.0.1:PORT1; location / { root DIR/www; } }
  server { listen 127.0.0.1:PORT2; location / { auth_request /check; root DIR/www; }
           location = /check { internal; auth_request off; return 204; } }
  server { listen 127.0.0.1:PORT3; auth_request /.stile/check; location / { root DIR/www; }
           BARECHECK }
  server { listen 127.0.0.1:PORT4; include snippets/stile.conf; location / { root DIR/www; } }
}
`

// bench is everything that is running.
type bench struct {
	dir      string
	pass     string
	ports    [4]int
	programs child.Group
}

func measure() error {
	dir, err := os.MkdirTemp("", "stile-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil {
		return err
	}
	b := &bench{dir: dir}
	defer b.programs.Stop()
	if err := b.start(); err != nil {
		return err
	}
	fmt.Printf("%s, %d processors, %s; %d rounds of %s a variant\n\n", runtime.Version(), runtime.NumCPU(), runtime.GOARCH, *rounds, *length)
	if err := b.direct(); err != nil {
		return err
	}
	if *skipWrk {
		return nil
	}
	return b.throughNginx()
}

func (b *bench) expand(s string) string {
	for i, p := range b.ports {
		s = strings.ReplaceAll(s, fmt.Sprintf("PORT%d", i+1), fmt.Sprint(p))
	}
	user, group := child.Workers()
	return strings.NewReplacer("DIR", b.dir, "WORKERS", user, "GROUP", group).Replace(s)
}

func (b *bench) write(name, text string) error {
	file := filepath.Join(b.dir, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, []byte(text), 0o644)
}

func (b *bench) start() error {
	for i := range b.ports {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		b.ports[i] = ln.Addr().(*net.TCPAddr).Port
		defer ln.Close() // before nginx starts
		if i == len(b.ports)-1 {
			break
		}
	}
	if err := b.makePass(); err != nil {
		return err
	}
	files := nginx.Files(b.dir)
	// The bare handler is asked by exactly what stile is asked by: the shipped check location.
	check := strings.ReplaceAll(files["snippets/stile.d/check.conf"], "http://stile", "http://bare")
	files["nginx.conf"] = strings.ReplaceAll(b.expand(nginxConf), "BARECHECK", "location = /.stile/check {\n"+check+"\n}\nlocation @stile_deny { auth_request off; return 403; }\n")
	for name, text := range files {
		if err := b.write(filepath.Join("nginx", name), text); err != nil {
			return err
		}
	}
	if err := b.write("www/index.html", "hello\n"); err != nil {
		return err
	}
	if err := b.write("www/closed/index.html", "hello\n"); err != nil {
		return err
	}
	if err := b.write("stile.toml", b.expand(policy)); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if err := b.run(self, "-bare", filepath.Join(b.dir, "bare.sock")); err != nil {
		return err
	}
	return b.run(self, "-gate", filepath.Join(b.dir, "stile.toml"))
}

// startNginx is done only when nginx is measured.
func (b *bench) startNginx() error {
	return b.run(child.Nginx(), "-e", filepath.Join(b.dir, "error.log"), "-p", filepath.Join(b.dir, "nginx"), "-c", filepath.Join(b.dir, "nginx", "nginx.conf"))
}

func (b *bench) run(program string, args ...string) error {
	_, err := b.programs.Start(os.Stderr, program, args...)
	return err
}

// makePass is what a visitor would have earned.
func (b *bench) makePass() error {
	file := filepath.Join(b.dir, "key")
	if err := key.Create(file); err != nil {
		return err
	}
	r, err := key.Load(file)
	if err != nil {
		return err
	}
	p := cookie.Pass{Level: 2, Expires: uint32(time.Now().Add(24 * time.Hour).Unix()), ID: [cookie.IDLen]byte{1}}
	b.pass = "stile=" + string(cookie.New(r).Append(nil, &p))
	return nil
}
