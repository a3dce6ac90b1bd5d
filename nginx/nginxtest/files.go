package nginxtest

import (
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"stile/nginx"
)

// prepare writes all files, and opens the sockets that nginx will listen on. nginx gets them as they
// are, as from an older nginx that is being replaced, so no other process can take a port in between.
func prepare(t testing.TB, o Options) (*Nginx, []*net.TCPListener) {
	t.Helper()
	n := &Nginx{t: t, dir: shortDir(t), warns: o.Warns, addrs: make(map[int]string)}
	files := nginx.Files(n.dir)
	site := o.Site
	if strings.HasSuffix(site, ".conf") {
		text, ok := files["sites/"+site]
		if !ok {
			t.Fatalf("nginxtest: there is no shipped site %q", site)
		}
		site = text
	}
	site = strings.ReplaceAll(site, nginx.Prefix, n.dir)
	for name := range files {
		if strings.HasPrefix(name, "sites/") {
			delete(files, name)
		}
	}
	files["sites/site.conf"] = site
	for i := 0; i+1 < len(o.Replace); i += 2 {
		found := false
		for name, text := range files {
			if strings.Contains(text, o.Replace[i]) {
				found = true
				files[name] = strings.ReplaceAll(text, o.Replace[i], o.Replace[i+1])
			}
		}
		if !found {
			t.Fatalf("nginxtest: Replace: %q is in none of the files", o.Replace[i])
		}
	}
	app := o.App
	if app == "" {
		app = "127.0.0.1:1"
	}
	var listeners []*net.TCPListener
	files["sites/site.conf"], listeners = n.ports(files["sites/site.conf"], app)
	files["nginx.conf"] = n.mainFile(o)
	maps.Copy(files, o.Files)
	for name, text := range files {
		name = filepath.Join(n.dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatalf("nginxtest: %s", err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatalf("nginxtest: %s", err)
		}
	}
	return n, listeners
}

var portInText = regexp.MustCompile(`\blisten (\d+)([ ;])|\b127\.0\.0\.1:(\d+)\b`)

// ports puts a listener's address in place of every port in the text.
func (n *Nginx) ports(text, app string) (string, []*net.TCPListener) {
	var listeners []*net.TCPListener
	text = portInText.ReplaceAllStringFunc(text, func(found string) string {
		m := portInText.FindStringSubmatch(found)
		port, err := strconv.Atoi(m[1] + m[3])
		if err != nil {
			n.t.Fatalf("nginxtest: port in %q: %s", found, err)
		}
		if port == 8080 && m[1] == "" {
			return app
		}
		if n.addrs[port] == "" {
			l, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
			if err != nil {
				n.t.Fatalf("nginxtest: %s", err)
			}
			listeners = append(listeners, l)
			n.addrs[port] = l.Addr().String()
		}
		if m[1] != "" {
			return "listen " + n.addrs[port] + m[2]
		}
		return n.addrs[port]
	})
	return text, listeners
}

func (n *Nginx) mainFile(o Options) string {
	user := ""
	if os.Geteuid() == 0 {
		user = "user root;" // or the workers could not use a socket that a test has made
	}
	workers, connections := o.Workers, o.Connections
	if workers == 0 {
		workers = 1
	}
	if connections == 0 {
		connections = 1024
	}
	shutdown := o.Shutdown
	if shutdown == 0 {
		shutdown = time.Second
	}
	files := connections + 128 // for logs, sockets and temporary files
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err == nil && limit.Max < uint64(files) {
		n.t.Fatalf("nginxtest: this machine allows a process %d open files, and nginx wants %d", limit.Max, files)
	}
	return fmt.Sprintf(`%[1]s
daemon off;
worker_processes %[2]d;
worker_shutdown_timeout %[7]dms;
worker_rlimit_nofile %[3]d;
pid       %[4]s/nginx.pid;
lock_file %[4]s/nginx.lock;
error_log %[4]s/error.log info;
events { worker_connections %[5]d; }
http {
    client_body_temp_path %[4]s/temp/body;
    proxy_temp_path       %[4]s/temp/proxy;
    fastcgi_temp_path     %[4]s/temp/fastcgi;
    uwsgi_temp_path       %[4]s/temp/uwsgi;
    scgi_temp_path        %[4]s/temp/scgi;
    access_log %[4]s/access.log combined;
    keepalive_requests 100000;
%[6]s
    include conf.d/stile.conf;
    include sites/site.conf;
}
`, user, workers, files, n.dir, connections, strings.ReplaceAll(o.HTTP, nginx.Prefix, n.dir), shutdown.Milliseconds())
}

// shortDir is a temporary directory in which the path of a unix socket is short enough (the kernel allows 107 bytes) and
// has no comma (which ends a parameter of syslog's).
func shortDir(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	if len(dir) <= 60 && !strings.Contains(dir, ",") {
		return dir
	}
	dir, err := os.MkdirTemp("/tmp", "stile")
	if err != nil {
		t.Fatalf("nginxtest: %s", err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Errorf("nginxtest: %s", err)
		}
	})
	return dir
}
