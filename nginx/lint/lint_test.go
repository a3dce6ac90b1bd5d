package lint

import (
	"flag"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"stile/config"
	"stile/nginx"
)

var update = flag.Bool("update", false, "write the golden reports")

// mainFile is an nginx.conf as a distribution ships it.
const mainFile = `user www-data;
worker_processes auto;
pid /run/nginx.pid;
include /etc/nginx/modules-enabled/*.conf;

events {
	worker_connections 768;
}

http {
	sendfile on;
	types_hash_max_size 2048;
	default_type application/octet-stream;
	log_format main '$remote_addr - $remote_user [$time_local] "$request" $status "$http_x_forwarded_for"';
	access_log /var/log/nginx/access.log main;
	gzip on;

	include /etc/nginx/conf.d/*.conf;
	include /etc/nginx/sites-enabled/*;
}
`

// dumped is what nginx -T writes for a site with the shipped files. A text with headers of its own is a whole configuration
// but for the shipped files.
func dumped(site string) []byte {
	shipped := nginx.Files(nginx.Prefix)
	text := site
	if !strings.HasPrefix(site, header) {
		text = header + "/etc/nginx/nginx.conf:\n" + mainFile + "\n" + header + "/etc/nginx/sites-enabled/site.conf:\n" + site
	}
	var b strings.Builder
	b.WriteString("nginx: the configuration file /etc/nginx/nginx.conf syntax is ok\nnginx: configuration file /etc/nginx/nginx.conf test is successful\n")
	b.WriteString(text)
	shipped["fastcgi_params"] = "fastcgi_param QUERY_STRING $query_string;\nfastcgi_param SCRIPT_NAME $fastcgi_script_name;\nfastcgi_param REQUEST_URI $request_uri;\n"
	for _, name := range slices.Sorted(maps.Keys(shipped)) {
		if h := header + "/etc/nginx/" + name + ":\n"; !strings.HasPrefix(name, "sites/") && !strings.Contains(text, h) {
			b.WriteString("\n" + h + shipped[name])
		}
	}
	return []byte(b.String())
}

// rules reads a stile.toml.
func rules(t *testing.T, name, text string) *config.Config {
	t.Helper()
	c, err := config.Parse(name, []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func check(t *testing.T, site string, o Options) *Report {
	t.Helper()
	o.Version, o.CPUs = "1.2.3", 2
	if o.Stile == nil {
		o.Stile = rules(t, "stile.toml", "include = []")
	}
	r, err := Check(dumped(site), o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func text(t *testing.T, r *Report) string {
	t.Helper()
	var b strings.Builder
	if err := r.Write(&b, false); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// Every shipped site comes out clean, with the rules beside it.
func TestShippedSites(t *testing.T) {
	sites := 0
	for name, site := range nginx.Files(nginx.Prefix) {
		name, ok := strings.CutPrefix(name, "sites/")
		if !ok {
			continue
		}
		sites++
		t.Run(name, func(t *testing.T) {
			o := Options{Stile: rules(t, "stile.toml", "")}
			if b, err := os.ReadFile(filepath.Join("..", "sites", strings.TrimSuffix(name, ".conf")+".toml")); err == nil {
				o.Stile = rules(t, "stile.toml", string(b))
			}
			r := check(t, site, o)
			if len(r.Findings) > 0 {
				t.Errorf("\n%s", text(t, r))
			}
			protected := false
			for _, s := range r.Servers {
				protected = protected || s.Protected
			}
			if !protected {
				t.Errorf("no server is protected:\n%s", text(t, r))
			}
		})
	}
	if sites < 4 {
		t.Errorf("%d sites", sites)
	}
}

// Configurations in the shape of public ones, with stile in them: nothing is wrong there, so nothing is found.
func TestOrdinary(t *testing.T) {
	files, err := filepath.Glob("testdata/ordinary-*.conf")
	if err != nil || len(files) < 3 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, toml := range []string{"", "include = []", "include = [\"preset:forge\"]"} {
			r := check(t, string(b), Options{Stile: rules(t, "stile.toml", toml)})
			if r.Count(Error)+r.Count(Warning) > 0 {
				t.Errorf("%s with %q:\n%s", file, toml, text(t, r))
			}
		}
	}
}

// The golden reports: testdata/NAME.conf is a site, or a whole configuration, NAME.toml its rules if there are any, and
// NAME.txt the report. -update writes them.
func TestReports(t *testing.T) {
	files, err := filepath.Glob("testdata/*.conf")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".conf")
		t.Run(name, func(t *testing.T) {
			site, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var o Options
			if b, err := os.ReadFile("testdata/" + name + ".toml"); err == nil {
				o.Stile = rules(t, "stile.toml", string(b))
			}
			got := text(t, check(t, string(site), o))
			golden := "testdata/" + name + ".txt"
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("%s: got\n%s\nwant\n%s", golden, got, want)
			}
		})
	}
}

const here = `server {
    listen 80;
    server_name a.example;
    include snippets/stile.conf;
    location / { proxy_pass http://localhost:3000; }
    location /b { proxy_pass http://192.0.2.9:3000; }
}
`

// What the machine itself says: who else listens, which addresses are its own, how long the kernel's queue is.
func TestThisMachine(t *testing.T) {
	f := func(o Options, want ...string) {
		t.Helper()
		var got []string
		for _, x := range check(t, here, o).Findings {
			got = append(got, x.Severity.String()+" "+x.Code+": "+x.Says)
		}
		if !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	at := netip.MustParseAddrPort
	f(Options{})
	f(Options{Listening: []netip.AddrPort{at("127.0.0.1:3000"), at("[::1]:3000"), at("0.0.0.0:3001")}})
	f(Options{Listening: []netip.AddrPort{at("0.0.0.0:3000"), at("[::]:3000")}},
		"warning reach: something listens on 0.0.0.0:3000, and the backend is asked at port 3000")
	f(Options{Addresses: []netip.Addr{netip.MustParseAddr("192.0.2.9")}},
		"warning reach: the backend listens on 192.0.2.9:3000, an address of this machine that others can reach")
	f(Options{Backlog: 1536})
	f(Options{Backlog: 1535},
		"warning backlog: 2 workers with 768 connections each may ask stile at once, and the kernel keeps 1535 waiting (net.core.somaxconn)")
}

func TestColours(t *testing.T) {
	r := check(t, strings.Replace(here, "location /b", "location /\x1bb", 1), Options{Backlog: 1})
	var b strings.Builder
	if err := r.Write(&b, true); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(b.String(), yellow+"warning:"+plain+" "+bold+"/etc/nginx/nginx.conf:7:"+plain) || strings.Contains(b.String(), "\x1bb") || strings.Contains(text(t, r), "\x1b") {
		t.Errorf("%q", b.String())
	}
}

// A host with thousands of servers of every kind is read in moments: nothing grows with the square of them, let alone more.
func TestManyServers(t *testing.T) {
	var b strings.Builder
	for i := range 1500 {
		fmt.Fprintf(&b, "server { listen 80; server_name a%d.example; include snippets/stile.conf; location / { proxy_pass http://127.0.0.1:%d; } }\n", i, 10000+i)
		fmt.Fprintf(&b, "server { listen 80; server_name b%d.example; location / { proxy_pass http://127.0.0.1:%d; } }\n", i, 10000+i)
		fmt.Fprintf(&b, "server { listen 127.0.0.1:%d; server_name c%d.example; include snippets/stile.conf; location / { proxy_pass http://127.0.0.1:%d; } }\n", 10000+i, i, 20000+i)
	}
	begin := time.Now()
	r := check(t, b.String(), Options{})
	if took := time.Since(begin); took > 20*time.Second {
		t.Errorf("it took %s", took)
	}
	if len(r.Servers) != 4500 || r.Count(Error) < 1500 {
		t.Errorf("%d servers, %d errors", len(r.Servers), r.Count(Error))
	}
}
