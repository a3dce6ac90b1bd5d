package server

import (
	"errors"
	"io"
	"log/slog"
	"net"
	"sync/atomic"
	"syscall"
	"time"
)

// listener accepts connections as long as the process lives: running out of descriptors
// or memory is a reason to wait, not to end, for while the daemon is gone a fail-open
// nginx lets everybody in.
type listener struct {
	net.Listener
	log  *slog.Logger
	said throttle
}

// shortage is how long Accept waits when there is nothing to accept with.
const shortage = 10 * time.Millisecond

func (l *listener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err == nil {
			return &conn{Conn: c}, nil
		}
		if !errors.Is(err, syscall.EMFILE) && !errors.Is(err, syscall.ENFILE) && !errors.Is(err, syscall.ENOMEM) &&
			!errors.Is(err, syscall.ENOBUFS) && !errors.Is(err, syscall.ECONNABORTED) {
			return nil, err
		}
		if n, ok := l.said.say(); ok {
			l.log.Error("cannot accept a connection, trying again; raise the limit of open files", "error", err.Error(), "not_logged", n)
		}
		time.Sleep(shortage)
	}
}

// conn is a connection that can be closed without losing the answer on it.
type conn struct {
	net.Conn
	linger atomic.Bool
}

// What a lingering connection still reads. nginx's buffers for one request's header are
// rarely more than 32 KiB; an operator may have set a megabyte.
const (
	lingerBytes = 16 << 20
	lingerTime  = 2 * time.Second
)

// Close closes. After a fault in the request it first reads the rest of it: closing a
// socket with unread bytes breaks it for the other side, and nginx, still writing, would
// take that for a daemon that is not there, and let the request through.
func (c *conn) Close() error {
	if c.linger.Load() {
		if w, ok := c.Conn.(interface{ CloseWrite() error }); ok && w.CloseWrite() == nil {
			c.Conn.SetReadDeadline(time.Now().Add(lingerTime))
			io.CopyN(io.Discard, c.Conn, lingerBytes)
		}
	}
	return c.Conn.Close()
}
