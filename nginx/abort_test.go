package nginx_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"stile/nginx/nginxtest"
)

// N5, C019: a client that goes while its check waits takes the check's connection with it, at once. (Its place in
// nginx is free as well: the line in the log says 499.)
func TestClientGoesDuringTheCheck(t *testing.T) {
	o := plain("")
	o.HTTP = "proxy_ignore_client_abort on;" // a site's own choice does not reach the check
	w := startWithoutDaemon(t, o)
	asked, closed := make(chan struct{}), make(chan error, 1)
	nginxtest.ServeConns(t, nginxtest.Listen(t, w.Socket(), 4096), func(c net.Conn) {
		r := bufio.NewReader(c)
		if _, err := http.ReadRequest(r); err != nil {
			return
		}
		close(asked)
		_, err := r.ReadByte() // nothing more comes, but the end
		closed <- err
	})
	c := w.Dial(80)
	if _, err := io.WriteString(c, nginxtest.Request("GET", "/x", "")); err != nil {
		t.Fatal(err)
	}
	receive(t, "the check", asked)
	c.Close()
	if err := receive(t, "the end of the check's connection", closed); err != io.EOF {
		t.Errorf("the check's connection ended with %v, want its end", err)
	}
	if line := w.AccessLines(1)[0]; !strings.Contains(line, `"GET /x HTTP/1.1" 499`) {
		t.Errorf("logged: %s", line)
	}
	w.expectCounts("an abort", 0, 0)
}

// N4: a client that goes after it was admitted. nginx writes its line and leaves the backend alone with the work;
// with snippets/stile-gate.conf both go on to the end.
func TestClientGoesDuringTheWork(t *testing.T) {
	w := start(t, plain(`location /gated/ { include snippets/stile-gate.conf; proxy_pass http://app; }`))
	begun, left, finish := make(chan string, 2), make(chan string, 2), make(chan struct{})
	w.app.Handle(func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/still-there" {
			return
		}
		begun <- r.URL.Path
		select {
		case <-r.Context().Done():
			left <- r.URL.Path
		case <-finish:
		}
	})
	leave := func(target string) {
		t.Helper()
		c := w.Dial(80)
		if _, err := io.WriteString(c, nginxtest.Request("GET", target, "")); err != nil {
			t.Fatal(err)
		}
		receive(t, "the hit", begun)
		c.Close()
	}
	leave("/gated/x")
	leave("/x")
	if got := receive(t, "the end of nginx's connection to the application", left); got != "/x" {
		t.Errorf("nginx closed its connection for %s", got)
	}
	w.Get("/still-there") // the one worker has seen both clients go before this one came
	if log := w.Access(); strings.Contains(log, "/gated/x") || !strings.Contains(log, `"GET /x HTTP/1.1" 499`) {
		t.Errorf("logged before the work's end:\n%s", log)
	}
	close(finish)
	await(t, "the gated request's line", func() bool { return strings.Contains(w.Access(), `"GET /gated/x HTTP/1.1"`) })
	select {
	case got := <-left:
		t.Errorf("nginx closed its connection for %s", got)
	default:
	}
}
