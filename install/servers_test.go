package install

import (
	"os/exec"
	"strings"
	"testing"
)

// What of nginx -T is a server, where a request reaches it, and whether it has stile's line.
func TestServers(t *testing.T) {
	f := func(text string, want ...string) {
		t.Helper()
		cmd := exec.Command("awk", "-v", "prefix=/etc/nginx/", "-f", "servers.awk")
		cmd.Stdin = strings.NewReader(text)
		out, err := cmd.CombinedOutput()
		got := strings.TrimSpace(strings.ReplaceAll(string(out), "\t", " "))
		if want := strings.Join(want, "\n"); err != nil || got != want {
			t.Errorf("%s\n got %v\n%s\nwant\n%s", text, err, got, want)
		}
	}
	server := func(inside string) string {
		return "# configuration file /etc/nginx/conf.d/a.conf:\nserver {" + inside + "}\n"
	}

	f(server("listen 80; include snippets/stile.conf;"), "1 /etc/nginx/conf.d/a.conf:1 127.0.0.1:80 - 127.0.0.1")
	f(server("listen 80; # include snippets/stile.conf;\n"), "0 /etc/nginx/conf.d/a.conf:1 127.0.0.1:80 - 127.0.0.1")
	f(server("include /etc/nginx/snippets/stile-closed.conf; server_name a.example b.example;"), "1 /etc/nginx/conf.d/a.conf:1 127.0.0.1:80 - a.example")
	f(server("include snippets/stile*.conf;"), "1 /etc/nginx/conf.d/a.conf:1 127.0.0.1:80 - 127.0.0.1")
	f(server(`include "snippets/stile.conf";`), "1 /etc/nginx/conf.d/a.conf:1 127.0.0.1:80 - 127.0.0.1")

	// Inside a location, or elsewhere, it does not protect the server.
	f(server("location / { include snippets/stile.conf; }"), "0 /etc/nginx/conf.d/a.conf:1 127.0.0.1:80 - 127.0.0.1")
	f(server("include snippets/stile-guard.conf;"), "0 /etc/nginx/conf.d/a.conf:1 127.0.0.1:80 - 127.0.0.1")
	f(server("include snippets/stileXconf;"), "0 /etc/nginx/conf.d/a.conf:1 127.0.0.1:80 - 127.0.0.1")

	// By way of another file, and of one behind that.
	f("# configuration file /etc/nginx/one.conf:\ninclude snippets/two.conf;\n# configuration file /etc/nginx/snippets/two.conf:\ninclude snippets/stile.conf;\n"+
		server("include one.conf;"), "1 /etc/nginx/conf.d/a.conf:1 127.0.0.1:80 - 127.0.0.1")
	f("# configuration file /etc/nginx/one.conf:\nlocation / { include snippets/stile.conf; }\n"+server("include one.conf;"), "0 /etc/nginx/conf.d/a.conf:1 127.0.0.1:80 - 127.0.0.1")

	// Addresses and names.
	f(server("listen [::]:443 ssl http2; listen 443 ssl http2; listen 443 quic; server_name *.example.org;"),
		"0 /etc/nginx/conf.d/a.conf:1 127.0.0.1:443 ssl, www.example.org", "0 /etc/nginx/conf.d/a.conf:1 [::1]:443 ssl, www.example.org")
	f(server("listen 192.0.2.1:8080 proxy_protocol; server_name _ .example.org;"), "0 /etc/nginx/conf.d/a.conf:1 192.0.2.1:8080 proxy_protocol, example.org")
	f(server("listen [2001:db8::1]; server_name ~^www;"), "0 /etc/nginx/conf.d/a.conf:1 [2001:db8::1]:80 - [2001:db8::1]")
	f(server("listen unix:/run/site.sock; server_name '';"), "0 /etc/nginx/conf.d/a.conf:1 unix:/run/site.sock - localhost")
	f(server("listen *:81; listen 0.0.0.0:82;"), "0 /etc/nginx/conf.d/a.conf:1 127.0.0.1:82 - 127.0.0.1", "0 /etc/nginx/conf.d/a.conf:1 127.0.0.1:81 - 127.0.0.1")

	// Several in a file, with what looks like blocks and is none.
	f("# configuration file /etc/nginx/nginx.conf:\nhttp {\n  upstream a { server 127.0.0.1:1; }\n  map $a $b { default \"}\"; '~;' x; }\n  server { listen 81; if ($a ~ \"^.{3}\") { return 404; } }\n"+
		"  server\n  {\n    listen 82;\n    include snippets/stile.conf; }\n}\nstream { server { listen 83; } }\n",
		"0 /etc/nginx/nginx.conf:4 127.0.0.1:81 - 127.0.0.1", "1 /etc/nginx/nginx.conf:6 127.0.0.1:82 - 127.0.0.1")
}
