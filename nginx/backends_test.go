package nginx_test

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/fcgi"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"stile/nginx/nginxtest"
)

// work is one request that has reached a backend of any kind.
type work struct {
	target string
	write  func(text string) error // a piece of the body, sent at once
	finish chan struct{}           // closed by the test: the backend may end
}

// workshop is a backend that counts what it is really doing, whatever nginx thinks of it.
type workshop struct {
	begun chan *work
	now   atomic.Int32 // requests at work
	most  atomic.Int32 // the most that were at once
}

func (s *workshop) do(target string, write func(string) error) {
	now := s.now.Add(1)
	for most := s.most.Load(); now > most && !s.most.CompareAndSwap(most, now); most = s.most.Load() {
	}
	w := &work{target: target, write: write, finish: make(chan struct{})}
	s.begun <- w
	<-w.finish
	s.now.Add(-1)
}

// protocols are the ways in which nginx speaks to a backend. A server serves one connection with them.
var protocols = []struct {
	name   string // of its directives
	params string
	serve  func(net.Listener, *workshop)
}{
	{"proxy", `proxy_http_version 1.1; proxy_set_header Connection "";`, func(l net.Listener, s *workshop) {
		_ = http.Serve(l, http.HandlerFunc(s.handle))
	}},
	{"fastcgi", "fastcgi_param REQUEST_URI $request_uri; fastcgi_param REQUEST_METHOD $request_method; fastcgi_param SERVER_PROTOCOL $server_protocol;",
		func(l net.Listener, s *workshop) { _ = fcgi.Serve(l, http.HandlerFunc(s.handle)) }},
	{"scgi", "scgi_param REQUEST_URI $request_uri;", func(l net.Listener, s *workshop) { s.raw(l, readSCGI) }},
	{"uwsgi", "uwsgi_param REQUEST_URI $request_uri;", func(l net.Listener, s *workshop) { s.raw(l, readUWSGI) }},
}

func (s *workshop) handle(w http.ResponseWriter, r *http.Request) {
	s.do(r.URL.RequestURI(), func(text string) error {
		if _, err := io.WriteString(w, text); err != nil {
			return err
		}
		return http.NewResponseController(w).Flush()
	})
}

// raw serves protocols that are little more than a connection a request.
func (s *workshop) raw(l net.Listener, read func(*bufio.Reader) (target string, err error)) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			target, err := read(bufio.NewReader(c))
			if err != nil {
				return
			}
			head := "Status: 200 OK\r\nContent-Type: text/plain\r\n\r\n"
			s.do(target, func(text string) error {
				_, err := io.WriteString(c, head+text)
				head = ""
				return err
			})
		}()
	}
}

// readSCGI reads a netstring of names and values, each ended by a zero byte.
func readSCGI(r *bufio.Reader) (string, error) {
	size, err := r.ReadString(':')
	if err != nil {
		return "", err
	}
	n, err := strconv.Atoi(strings.TrimSuffix(size, ":"))
	if err != nil {
		return "", err
	}
	b := make([]byte, n+1) // and a comma
	if _, err := io.ReadFull(r, b); err != nil {
		return "", err
	}
	fields := strings.Split(string(b), "\x00")
	for i := 0; i+1 < len(fields); i += 2 {
		if fields[i] == "REQUEST_URI" {
			return fields[i+1], nil
		}
	}
	return "", fmt.Errorf("no REQUEST_URI in %q", b)
}

// readUWSGI reads a size of 16 bits between two bytes, and names and values with a size before each.
func readUWSGI(r *bufio.Reader) (string, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return "", err
	}
	b := make([]byte, binary.LittleEndian.Uint16(head[1:]))
	if _, err := io.ReadFull(r, b); err != nil {
		return "", err
	}
	var fields []string
	for rest := b; len(rest) >= 2; {
		n := int(binary.LittleEndian.Uint16(rest))
		if len(rest) < 2+n {
			break
		}
		fields = append(fields, string(rest[2:2+n]))
		rest = rest[2+n:]
	}
	for i := 0; i+1 < len(fields); i += 2 {
		if fields[i] == "REQUEST_URI" {
			return fields[i+1], nil
		}
	}
	return "", fmt.Errorf("no REQUEST_URI in %q", b)
}

// startWorkshop starts a backend of one protocol on a unix socket under nginx's directory, until the end of the test.
func startWorkshop(t *testing.T, n *nginxtest.Nginx, protocol int) *workshop {
	t.Helper()
	s := &workshop{begun: make(chan *work, 1000)}
	l := nginxtest.Listen(t, n.Dir()+"/"+protocols[protocol].name+".sock", 4096)
	go protocols[protocol].serve(l, s)
	return s
}
