package nginxtest

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

// Response is an answer that has been read to its end.
type Response struct {
	Status int
	Header http.Header
	Body   string
}

// Raw sends bytes as they are to a port of the site's text and reads one answer. The request
// may be anything; whether the answer has a body follows from its first word (HEAD).
// Without an answer the test fails.
func (n *Nginx) Raw(port int, request string) *Response {
	n.t.Helper()
	c := n.Dial(port)
	defer c.Close()
	r, err := c.Ask(request)
	if err != nil {
		n.t.Fatalf("nginxtest: no answer to %.200q: %s", request, err)
	}
	return r
}

// Get is Raw for a plain GET of any raw target, with the given header lines ("Name: value").
func (n *Nginx) Get(target string, headers ...string) *Response {
	n.t.Helper()
	return n.Do("GET", target, headers...)
}

// Do is Get with another method. A request with a body is Raw and Request.
func (n *Nginx) Do(method, target string, headers ...string) *Response {
	n.t.Helper()
	return n.Raw(80, Request(method, target, "", headers...))
}

// Request is the text of an HTTP/1.1 request. A body gets its Content-Length.
func Request(method, target, body string, headers ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: site.example\r\n", method, target)
	for _, h := range headers {
		b.WriteString(h + "\r\n")
	}
	if body != "" {
		fmt.Fprintf(&b, "Content-Length: %d\r\n", len(body))
	}
	return b.String() + "\r\n" + body
}

// Conn is a raw connection to nginx.
type Conn struct {
	net.Conn
	r *bufio.Reader
}

// Dial opens a raw connection to a port of the site's text, until the end of the test. Its reads and writes end after
// a while.
func (n *Nginx) Dial(port int) *Conn {
	n.t.Helper()
	return n.DialFrom(port, "127.0.0.1")
}

// DialFrom is Dial from another address of this machine.
func (n *Nginx) DialFrom(port int, from string) *Conn {
	n.t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	c, err := d.Dial("tcp", n.Addr(port))
	if err != nil {
		n.t.Fatalf("nginxtest: %s", err)
	}
	n.t.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(patience))
	return &Conn{Conn: c, r: bufio.NewReader(c)}
}

// Ask writes a request, of which nginx may refuse to read all, and reads an answer. It may be called again
// on the same connection if nginx keeps it.
func (c *Conn) Ask(request string) (*Response, error) {
	_, werr := io.WriteString(c.Conn, request)
	method, _, _ := strings.Cut(request, " ")
	r, err := c.Answer(method)
	if err != nil && werr != nil {
		return nil, werr
	}
	return r, err
}

// Answer reads one answer to a request with that method. A "100 Continue" before it is passed over.
func (c *Conn) Answer(method string) (*Response, error) {
	resp, err := http.ReadResponse(c.r, &http.Request{Method: method})
	for err == nil && resp.StatusCode == http.StatusContinue {
		resp, err = http.ReadResponse(c.r, &http.Request{Method: method})
	}
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	return &Response{Status: resp.StatusCode, Header: resp.Header, Body: string(body)}, nil
}

// Silent tells whether nothing more arrives on the connection within d. It reads, so
// use it when no answer is expected any more.
func (c *Conn) Silent(d time.Duration) bool {
	_ = c.SetReadDeadline(time.Now().Add(d))
	b, err := c.r.Peek(1)
	_ = c.SetReadDeadline(time.Now().Add(patience))
	return len(b) == 0 && err != nil
}

// frame2 is one HTTP/2 frame.
func frame2(kind, flags byte, stream uint32, payload []byte) []byte {
	n := len(payload)
	return append([]byte{byte(n >> 16), byte(n >> 8), byte(n), kind, flags,
		byte(stream >> 24), byte(stream >> 16), byte(stream >> 8), byte(stream)}, payload...)
}

// Raw2 sends one HTTP/2 request without a body, its header fields byte by byte as given (pairs of name and
// value; pseudo-headers too), and tells with which status nginx answered: 0 if it refused the stream or the
// connection. No client library would send what this sends.
func (n *Nginx) Raw2(port int, fields ...string) (status int) {
	n.t.Helper()
	c := n.Dial(port)
	defer c.Close()
	var block []byte
	for i := 0; i+1 < len(fields); i += 2 {
		block = append(block, 0) // a literal field, not indexed, with a new name
		for _, s := range fields[i : i+2] {
			block = append(appendInt7(block, len(s)), s...)
		}
	}
	const endStreamAndHeaders = 0x1 | 0x4
	var out bytes.Buffer
	out.WriteString("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
	out.Write(frame2(4, 0, 0, nil)) // SETTINGS
	out.Write(frame2(1, endStreamAndHeaders, 1, block))
	if _, err := c.Write(out.Bytes()); err != nil {
		n.t.Fatalf("nginxtest: %s", err)
	}
	for {
		var head [9]byte
		if _, err := io.ReadFull(c.r, head[:]); err != nil {
			return 0
		}
		payload := make([]byte, int(head[0])<<16|int(head[1])<<8|int(head[2]))
		if _, err := io.ReadFull(c.r, payload); err != nil {
			return 0
		}
		switch kind := head[3]; kind {
		case 1: // HEADERS: nginx sends the status first
			return status2(n, payload)
		case 3, 7: // RST_STREAM, GOAWAY
			return 0
		}
	}
}

// appendInt7 appends a length as HPACK writes it (RFC 7541, 5.1), without Huffman coding.
func appendInt7(b []byte, n int) []byte {
	if n < 127 {
		return append(b, byte(n))
	}
	b = append(b, 127)
	for n -= 127; n >= 128; n >>= 7 {
		b = append(b, byte(n&127|128))
	}
	return append(b, byte(n))
}

// status2 reads :status from the beginning of a header block: an index into HPACK's static table, or
// its name from there and a literal value. (nginx's own size update may stand before it.)
func status2(n *Nginx, block []byte) int {
	n.t.Helper()
	for len(block) > 0 && block[0]&0xE0 == 0x20 {
		block = block[1:]
	}
	known := map[byte]int{0x88: 200, 0x89: 204, 0x8A: 206, 0x8B: 304, 0x8C: 400, 0x8D: 404, 0x8E: 500}
	if len(block) > 0 && known[block[0]] != 0 {
		return known[block[0]]
	}
	if len(block) > 4 && block[0]&0x0F == 8 && block[1] == 3 {
		var status int
		fmt.Sscanf(string(block[2:5]), "%d", &status)
		return status
	}
	n.t.Fatalf("nginxtest: cannot read the status in % x", block[:min(len(block), 16)])
	return 0
}
