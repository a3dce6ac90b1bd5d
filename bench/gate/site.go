package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"stile/bench/child"
	"stile/cookie"
	"stile/key"
	"stile/nginx"
)

const nginxConf = `
daemon off; worker_processes 1; WORKERS pid DIR/nginx.pid; error_log DIR/error.log error; worker_rlimit_nofile 16384;
events { worker_connections 16000; }
http {
  client_body_temp_path DIR/t1; proxy_temp_path DIR/t2; fastcgi_temp_path DIR/t3; uwsgi_temp_path DIR/t4; scgi_temp_path DIR/t5;
  include conf.d/stile.conf;
  upstream site { server unix:DIR/backend.sock; }
  server {
    listen 127.0.0.1:PORT1;
    server_name gated.example;
    include snippets/stile.conf;
    location / {
      include snippets/stile-gate.conf;
      proxy_read_timeout 5m;
      proxy_set_header X-Real-IP $remote_addr;
      proxy_pass http://site;
    }
  }
  server {
    listen 127.0.0.1:PORT2;
    location / {
      proxy_read_timeout 5m;
      proxy_set_header X-Real-IP $remote_addr;
      proxy_pass http://site;
    }
  }
}
`

const listen = `
include = []
[listen]
check = "unix:DIR/stile.sock"
lease = "unix:DIR/lease.sock"
admin = "unix:DIR/admin.sock"
group = "GROUP"
[key]
file = "DIR/key"
[state]
dir = "DIR/state"
[challenge]
status = 429
`

// site is nginx, and stile or what takes its place. gated and open are the ports of the
// same site with and without it.
type site struct {
	dir         string
	gated, open int
	passes      *cookie.Passes
	programs    child.Group
}

// startSite starts everything but the backend, which listens at dir/backend.sock. Each
// old, new pair is replaced in the shipped files first. Without a policy the caller
// stands in for stile.
func startSite(dir, policy string, replace ...string) (s *site, err error) {
	s = &site{dir: dir}
	defer func() {
		if err != nil {
			s.stop()
		}
	}()
	if s.gated, s.open, err = freePorts(); err != nil {
		return nil, err
	}
	if err := s.makeKey(); err != nil {
		return nil, err
	}
	files := nginx.Files(dir)
	for i := 0; i < len(replace); i += 2 {
		found := false
		for name, text := range files {
			found = found || strings.Contains(text, replace[i])
			files[name] = strings.ReplaceAll(text, replace[i], replace[i+1])
		}
		if !found {
			return nil, fmt.Errorf("no shipped file says %q", replace[i])
		}
	}
	files["nginx.conf"] = s.expand(nginxConf)
	for name, text := range files {
		name = filepath.Join(dir, "nginx", name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return nil, err
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			return nil, err
		}
	}
	if policy != "" {
		if err := s.startStile(policy); err != nil {
			return nil, err
		}
	}
	if err := s.run(child.Nginx(), "-e", dir+"/error.log", "-p", dir+"/nginx", "-c", dir+"/nginx/nginx.conf"); err != nil {
		return nil, err
	}
	return s, child.Listening("tcp", s.address(true))
}

func (s *site) startStile(policy string) error {
	// What an earlier run has learned in a directory that was kept would be known here.
	if err := os.RemoveAll(s.dir + "/state"); err != nil {
		return err
	}
	if err := os.MkdirAll(s.dir+"/state", 0o755); err != nil {
		return err
	}
	file := s.dir + "/stile.toml"
	if err := os.WriteFile(file, []byte(s.expand(listen+policy)), 0o644); err != nil {
		return err
	}
	if err := s.run(*stile, "serve", "-c", file); err != nil {
		return err
	}
	return child.Listening("unix", s.dir+"/stile.sock")
}

func (s *site) expand(text string) string {
	directive, group := child.Workers()
	return strings.NewReplacer("DIR", s.dir, "PORT1", strconv.Itoa(s.gated), "PORT2", strconv.Itoa(s.open), "WORKERS", directive, "GROUP", group).Replace(text)
}

func freePorts() (a, b int, err error) {
	var ports [2]int
	for i := range ports {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return 0, 0, err
		}
		defer ln.Close()
		ports[i] = ln.Addr().(*net.TCPAddr).Port
	}
	return ports[0], ports[1], nil
}

func (s *site) makeKey() error {
	file := s.dir + "/key"
	if err := key.Create(file); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	ring, err := key.Load(file)
	if err != nil {
		return err
	}
	s.passes = cookie.New(ring)
	return nil
}

// pass is a cookie that another visitor would have earned, the same for the same number.
func (s *site) pass(n uint64) string {
	p := cookie.Pass{Level: 2, Expires: uint32(time.Now().Add(24 * time.Hour).Unix())}
	rnd := rand.New(rand.NewPCG(n, 1))
	for i := range p.ID {
		p.ID[i] = byte(rnd.Uint32())
	}
	return "stile=" + string(s.passes.Append(nil, &p))
}

func (s *site) address(gated bool) string {
	port := s.open
	if gated {
		port = s.gated
	}
	return fmt.Sprintf("127.0.0.1:%d", port)
}

func (s *site) run(program string, args ...string) error {
	log, err := os.Create(filepath.Join(s.dir, filepath.Base(program)+".log"))
	if err != nil {
		return err
	}
	defer log.Close()
	_, err = s.programs.Start(log, program, args...)
	return err
}

func (s *site) stop() { s.programs.Stop() }

// metrics is what stile counts, by name and labels: `stile_gate_leases{gate="decode"}`.
func (s *site) metrics() (map[string]float64, error) {
	c := http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", s.dir+"/admin.sock")
		},
		DisableKeepAlives: true,
	}}
	resp, err := c.Get("http://stile/metrics")
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	all := map[string]float64{}
	for _, m := range reMetric.FindAllSubmatch(text, -1) {
		x, err := strconv.ParseFloat(string(m[2]), 64)
		if err != nil {
			return nil, err
		}
		all[string(m[1])] = x
	}
	return all, nil
}

var reMetric = regexp.MustCompile(`(?m)^(stile_\S+) (\S+)$`)
