package path

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestAgainstNginx holds Parse against what a real nginx has in $uri and $args. The
// ordinary run is short; the long one is
//
//	STILE_NGINX_TARGETS=200000 STILE_NGINX_SEED=1 go test -run AgainstNginx -v ./decide/path
func TestAgainstNginx(t *testing.T) {
	count, err := strconv.Atoi(envOr("STILE_NGINX_TARGETS", "5000"))
	if err != nil {
		t.Fatal(err)
	}
	seed, err := strconv.ParseUint(envOr("STILE_NGINX_SEED", "1"), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	socket := startNginx(t)

	// The tricks of the other tests first: they must be right for nginx too.
	targets := []string{
		"/", "/a?b", "/a?b#c", "/a#b?c", "/a%23b%3Fc%25d", "/%68eavy/x", "/heavy%2Fx", "/feed%2f..%2fheavy/x", "/static%5c..%5Cheavy",
		"/.well-known/../heavy", "/static/%2e%2e/heavy", "/static/..;/heavy", "//heavy//x", "//a/./b/%2e%2e/c", "/a%0d%0ab", "/%252e", "*",
		"/..", "/a/..", "/a/.", "/...", "?x", "http://h", "http://h?x", "http://h/a//b", "http://h:80/", "http://[::1]:80/a", "/a ", " /a", "/a b",
	}
	targets = append(targets, systematic(count >= 50_000)...)
	rnd := rand.New(rand.NewPCG(seed, 0))
	for range count {
		targets = append(targets, randomTarget(rnd))
	}
	// Of two halves, each on a connection of its own, nginx answers one while this
	// side reads the other.
	start := time.Now()
	half := len(targets) / 2
	other := make(chan tally)
	go func() { other <- compare(t, socket, targets[:half]) }()
	sum := compare(t, socket, targets[half:])
	sum.add(<-other)
	t.Logf("seed %d: %d targets in %v: nginx accepted %d, of which %d take the slow path and %d have other readings; refused %d; %d disagreements",
		seed, sum.all, time.Since(start).Round(time.Millisecond), sum.accepted, sum.slow, sum.alt, sum.refused, sum.wrong)
	if sum.all != len(targets) || sum.accepted < len(targets)/4 || sum.refused < len(targets)/50 {
		t.Errorf("the targets are too one-sided to prove anything")
	}
}

func envOr(name, otherwise string) string {
	if v := os.Getenv(name); v != "" {
		return v
	}
	return otherwise
}

type tally struct{ all, accepted, slow, alt, refused, wrong int }

func (a *tally) add(b tally) {
	a.all += b.all
	a.accepted += b.accepted
	a.slow += b.slow
	a.alt += b.alt
	a.refused += b.refused
	a.wrong += b.wrong
}

// compare asks nginx for each target and holds its answer against Parse.
func compare(t *testing.T, socket string, targets []string) (sum tally) {
	fault := func(format string, args ...any) {
		if sum.wrong++; sum.wrong <= 20 {
			t.Errorf(format, args...)
		}
	}
	var r Readings
	err := ask(socket, targets, func(target string, got answer) {
		sum.all++
		parseErr := r.Parse(target)
		if !got.accepted {
			sum.refused++
			// Of a URL's host nginx looks at more than the bytes, and a request line
			// must not begin with what $request_uri may begin with.
			if parseErr == nil && target[0] == '/' {
				fault("nginx refuses %q; Parse has %q", target, r.Path)
			}
			return
		}
		sum.accepted++
		if parseErr == nil && (r.Path != got.uri || r.Query != got.args) {
			fault("%q: Parse has %q ? %q, nginx has %q ? %q", target, r.Path, r.Query, got.uri, got.args)
		}
		// Spaces around a target are no part of it.
		if parseErr != nil && strings.Trim(target, " ") == target {
			fault("nginx accepts %q as %q; Parse: %v", target, got.uri, parseErr)
		}
		if _, ok := ordinary(target); !ok {
			sum.slow++
		}
		if len(r.Alt) > 0 {
			sum.alt++
		}
		// What the daemon is told.
		if err := r.Parse(got.requestURI); err != nil || r.Path != got.uri || r.Query != got.args {
			fault("%q, $request_uri %q: Parse has %q ? %q, %v; nginx has %q ? %q", target, got.requestURI, r.Path, r.Query, err, got.uri, got.args)
		}
	})
	if err != nil {
		fault("%v", err)
	}
	return sum
}

type answer struct {
	accepted              bool
	requestURI, args, uri string
}

// ask sends each target in a request of its own, many at a time on one connection.
// nginx closes the connection at each one that it refuses.
func ask(socket string, targets []string, each func(target string, got answer)) error {
	const batch = 200
	var r Readings
	var out bytes.Buffer
	for len(targets) > 0 {
		conn, err := net.Dial("unix", socket)
		if err != nil {
			return err
		}
		in := bufio.NewReaderSize(conn, 64<<10)
		for open := true; open && len(targets) > 0; {
			out.Reset()
			n := 0
			for n < min(batch, len(targets)) {
				fmt.Fprintf(&out, "GET %s HTTP/1.1\r\nHost: h\r\n\r\n", targets[n])
				n++
				if r.Parse(targets[n-1]) != nil {
					break // probably the last one that this connection answers
				}
			}
			// The answers of a batch may fill the socket before all is written.
			written := make(chan error, 1)
			go func() {
				_, err := conn.Write(out.Bytes())
				written <- err
			}()
			done := 0
			for done < n && open {
				got, err := readAnswer(in)
				if err != nil {
					return fmt.Errorf("%q: %w", targets[done], err)
				}
				each(targets[done], got)
				done++
				open = got.accepted
			}
			if !open {
				conn.Close() // also ends the writer
			}
			if err := <-written; err != nil && open {
				return err
			}
			targets = targets[done:]
		}
		conn.Close()
	}
	return nil
}

func readAnswer(in *bufio.Reader) (answer, error) {
	resp, err := http.ReadResponse(in, nil)
	if err != nil {
		return answer{}, err
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return answer{}, err
	}
	switch resp.StatusCode {
	case http.StatusBadRequest:
		return answer{}, nil
	case http.StatusOK:
	default:
		return answer{}, errors.New(resp.Status)
	}
	// Neither $request_uri nor $args can hold a line feed; $uri can, and is last.
	part := strings.SplitN(string(body), "\n", 3)
	if len(part) != 3 {
		return answer{}, fmt.Errorf("answer %q", body)
	}
	return answer{true, part[0], part[1], part[2]}, nil
}

// startNginx starts one nginx on a unix socket in a directory of its own.
func startNginx(t *testing.T) (socket string) {
	exe, err := exec.LookPath("nginx")
	if err != nil {
		if exe, err = exec.LookPath("/usr/sbin/nginx"); err != nil {
			if os.Getenv("CI") == "true" {
				t.Fatal("nginx is not installed")
			}
			t.Skip("nginx is not installed: Parse is not held against it")
		}
	}
	// Not t.TempDir: with the test's name in it, it may be too long for a socket.
	dir, err := os.MkdirTemp("", "stile")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	socket = filepath.Join(dir, "s")
	conf := filepath.Join(dir, "nginx.conf")
	err = os.WriteFile(conf, []byte(`
daemon off; master_process off; pid `+dir+`/pid; error_log stderr notice;
events { worker_connections 64; }
http {
  access_log off; default_type text/plain;
  client_body_temp_path `+dir+`/b; proxy_temp_path `+dir+`/p; fastcgi_temp_path `+dir+`/f; uwsgi_temp_path `+dir+`/u; scgi_temp_path `+dir+`/c;
  keepalive_requests 10000000; large_client_header_buffers 4 64k;
  server { listen unix:`+socket+`; merge_slashes on; return 200 "$request_uri\n$args\n$uri"; }
}
`), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), exe, "-c", conf, "-e", "stderr")
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	// This line comes after the socket listens.
	lines := bufio.NewScanner(stderr)
	var said strings.Builder
	for lines.Scan() && !strings.Contains(lines.Text(), "event method") {
		said.WriteString(lines.Text() + "\n")
	}
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		io.Copy(io.Discard, stderr)
	}()
	t.Cleanup(func() { // t.Context has ended: nginx has been killed
		<-drained
		cmd.Wait()
	})
	if lines.Err() != nil || !strings.Contains(lines.Text(), "event method") {
		t.Fatalf("nginx did not start: %s", said.String())
	}
	return socket
}

// systematic lists short targets: each byte in each state of a parser, and all strings
// of a few pieces that matter.
func systematic(long bool) (list []string) {
	for _, before := range []string{"", "/", "/a", "/.", "/..", "/a/.", "/a/..", "/a/b/..", "/a/b/../", "/%", "/%2", "/a%2e", "/a/%2E%2e", "/a%2f", "/a?", "/a?b", "/a#", "/a?b#", "/+", "//", "/;", "http://h", "http://h:", "http://[", "http://h?"} {
		for c := range 256 {
			if c == '\r' || c == '\n' {
				continue // ends the request line
			}
			list = append(list, before+string([]byte{byte(c)}), before+string([]byte{byte(c)})+"/x")
		}
	}
	for c := range 256 {
		list = append(list, fmt.Sprintf("/%%%02x", c), fmt.Sprintf("/a/%%%02X/b?%%%02x", c, c), fmt.Sprintf("/a/..%%%02x", c), fmt.Sprintf("/a/.%%%02x./b#", c))
	}
	if !long {
		return list
	}
	for a := range 256 {
		for b := range 256 {
			if a != '\r' && a != '\n' && b != '\r' && b != '\n' {
				list = append(list, "/x%"+string([]byte{byte(a), byte(b)})+"/y")
			}
		}
	}
	pieces := []string{"/", ".", "..", "a", "%2e", "%2F", "%25", "?", "#", ";", `\`, "%5c", "+"}
	all := []string{"/"}
	for range 5 {
		var longer []string
		for _, s := range all {
			for _, p := range pieces {
				longer = append(longer, s+p)
			}
		}
		list = append(list, longer...)
		all = longer
		if len(all) > 100_000 {
			break
		}
	}
	return list
}

var tokens = []string{
	"/", "/", "/", "/", "//", "///", "/./", "/../", "/..", "/.", "..", ".", "...", "/.a", "/..a", "a/..", "..;", "/..;/", "/..;x=1/", ";", ";a=b",
	"%2e", "%2E", "%2e%2e", "%2e.", ".%2e", "/%2e/", "/%2e%2e/", "%2f", "%2F", "%5c", "%5C", `\`, `\..\`, "%252e", "%252f", "%255c", "%25", "%2525", "%25%32%65",
	"%00", "%01", "%0a", "%0d%0a", "%20", "%23", "%3f", "%3F", "%3b", "%2b", "%7f", "%80", "%ff", "%c0%af", "%e2%82%ac", "%", "%2", "%g0", "%0g", "%%", "%-1",
	"?", "??", "#", "?#", "#?", "&", "=", "a=b", "+", "*", "~", ":", "@", "!", "$", "'", "(", ")", ",", "[", "]", "{", "}", "|", "^", "`", "<", ">", `"`,
	"\x80", "\xff", "\xc0\xaf", "\xe2\x82\xac", "ä", "\x01", "\x1f", "\x7f", "\t", " ", "\x00",
	"a", "b", "heavy", "static", "index.html", "robots.txt", "A", "0", "-", "_", "http://h", "://",
}

// randomTarget is a target without line ends.
func randomTarget(rnd *rand.Rand) string {
	var b []byte
	switch rnd.IntN(20) {
	case 0: // a URL
		b = append(b, []string{"http://h", "http://h:80", "HTTPS://h.example", "http://[::1]", "x://h", "h2-x+1://h", "http:/", "http://", "http://h."}[rnd.IntN(9)]...)
	case 1: // anything
	case 2:
		b = append(b, " /"[rnd.IntN(2):]...)
	default:
		b = append(b, '/')
	}
	length := 1 + rnd.IntN(12)
	if rnd.IntN(500) == 0 {
		length = 2000 // about 10 KiB; nginx takes 64
	}
	kind := rnd.IntN(8)
	for range length {
		switch {
		case kind == 0:
			b = append(b, byte(rnd.IntN(256)))
		case kind < 3:
			b = append(b, "/.%?#;\\2eEfF5c0aA+"[rnd.IntN(18)])
		case kind < 6:
			b = append(b, tokens[rnd.IntN(len(tokens))]...)
		default: // what nginx accepts: else no long target would be
			for {
				tok := tokens[rnd.IntN(len(tokens))]
				if !strings.ContainsAny(tok, " \t\x00\x01\x1f\x7f#?") && (tok[0] != '%' || len(tok)%3 == 0 && tok != "%00" && tok != "%g0" && tok != "%0g") {
					b = append(b, tok...)
					break
				}
			}
			if rnd.IntN(3) == 0 {
				b = append(b, "/dir/"...) // something for ".." to take away
			}
		}
	}
	for i, c := range b {
		if c == '\r' || c == '\n' {
			b[i] = 'n'
		}
	}
	if len(b) == 0 {
		return "/"
	}
	return string(b)
}
