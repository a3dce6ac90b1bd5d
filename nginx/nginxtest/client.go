package nginxtest

import (
	"context"
	"net"
	"net/http"
)

// Client returns a client that speaks HTTP/1.1 to a port of the site's text, whatever the host in the URL. It
// follows no redirect and keeps no cookie. It does not ask for gzip by itself.
func (n *Nginx) Client(port int) *http.Client { return n.client(port, false) }

// Client2 returns a client that speaks HTTP/2 without TLS, for a port with `listen ... http2`.
func (n *Nginx) Client2(port int) *http.Client { return n.client(port, true) }

func (n *Nginx) client(port int, http2 bool) *http.Client {
	n.t.Helper()
	addr := n.Addr(port)
	var protocols http.Protocols
	protocols.SetHTTP1(!http2)
	protocols.SetUnencryptedHTTP2(http2)
	tr := &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "tcp", addr)
		},
		Protocols:           &protocols,
		DisableCompression:  true,
		MaxIdleConnsPerHost: 1000,
	}
	n.t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{
		Transport:     tr,
		Timeout:       patience,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}
