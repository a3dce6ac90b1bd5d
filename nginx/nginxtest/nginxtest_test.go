package nginxtest

import (
	"strings"
	"testing"
)

func TestPorts(t *testing.T) {
	n := &Nginx{t: t, addrs: make(map[int]string)}
	text, listeners := n.ports("listen 80; listen 82 http2; listen 127.0.0.1:8081; server 127.0.0.1:8081 server 127.0.0.1:8080;", "127.0.0.1:7")
	for _, l := range listeners {
		l.Close()
	}
	want := "listen " + n.Addr(80) + "; listen " + n.Addr(82) + " http2; listen " + n.Addr(8081) + "; server " + n.Addr(8081) + " server 127.0.0.1:7;"
	if text != want || len(listeners) != 3 {
		t.Errorf("%d listeners for\n%s, want 3 for\n%s", len(listeners), text, want)
	}
}

func TestConfigurationMistakes(t *testing.T) {
	out, err := Test(t, Options{Site: "server { listen 80; bogus on; }"})
	if err == nil || !strings.Contains(out, `unknown directive "bogus"`) {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err := Test(t, Options{Site: "server { listen 80; }"}); err != nil {
		t.Errorf("%s\n%s", err, out)
	}
}

// Both clients, the raw bytes and the application agree about what was sent.
func TestRoundTrip(t *testing.T) {
	app := StartApp(t)
	n := Start(t, Options{App: app.Addr, Workers: 2, Site: `
	server {
		listen 80;
		listen 82 http2;
		location / { proxy_pass http://127.0.0.1:8080; }
		location /gone { return 410; }
		location /no { return 404; }
	}`})
	d := StartDaemon(t, n.Socket()) // nobody asks it
	f := func(what string, ok bool) {
		t.Helper()
		if hits := app.Hits(); !ok || len(hits) != 1 || hits[0].Target != "/a%2fb?c" || hits[0].Length != 3 {
			t.Errorf("%s: %+v", what, hits)
		}
		app.Reset()
	}
	r := n.Raw(80, Request("POST", "/a%2fb?c", "abc"))
	f("raw", r.Status == 200 && r.Body == "app POST /a%2fb?c")
	resp, err := n.Client(80).Post("http://site.example/a%2fb?c", "text/plain", strings.NewReader("abc"))
	f("HTTP/1.1", err == nil && resp.ProtoMajor == 1 && resp.Body.Close() == nil)
	resp, err = n.Client2(82).Post("http://site.example/a%2fb?c", "text/plain", strings.NewReader("abc"))
	f("HTTP/2", err == nil && resp.ProtoMajor == 2 && resp.Body.Close() == nil)
	for target, want := range map[string]int{"/": 200, "/no": 404, "/gone": 410} {
		if got := n.Raw2(82, ":method", "GET", ":scheme", "http", ":authority", "a", ":path", target); got != want {
			t.Errorf("%s over raw HTTP/2: %d, want %d", target, got, want)
		}
	}
	if got := n.Raw2(82, ":method", "GET", "no", "path"); got != 0 && got != 400 {
		t.Errorf("half a request over raw HTTP/2: %d", got)
	}
	n.Reload()
	if lines := n.AccessLines(6); !strings.Contains(lines[0], "POST /a%2fb?c") {
		t.Errorf("logged: %q", lines)
	}
	if got := d.Calls(""); len(got) != 0 {
		t.Errorf("the daemon was asked %v", got)
	}
	n.Stop()
	n.Stop()
}
