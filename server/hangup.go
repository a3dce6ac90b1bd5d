package server

import (
	"errors"
	"net"
	"syscall"
	"time"
)

// watchHangup tells when the other side closes a connection on which nothing is to be
// read: gone is closed then. It takes no byte from the connection. stop ends the watch,
// which must be done before anybody reads again, and tells whether it is closed.
//
// One goroutine sleeps on the socket until it is readable or stop is called; there is no
// timer and no polling. A connection that is no socket is never gone.
func watchHangup(c net.Conn) (gone <-chan struct{}, stop func() (closed bool)) {
	if own, ok := c.(*conn); ok {
		c = own.Conn
	}
	sc, ok := c.(syscall.Conn)
	if !ok {
		return nil, func() bool { return false }
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return nil, func() bool { return true }
	}
	closed, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		if raw.Read(hungUp) == nil {
			close(closed)
		}
	}()
	return closed, func() bool {
		c.SetReadDeadline(time.Unix(1, 0)) // wakes the goroutine
		<-ended
		c.SetReadDeadline(time.Time{})
		select {
		case <-closed:
			return true
		default:
			return false
		}
	}
}

// hungUp looks whether the other side has closed a socket. If it has sent something
// instead, it is there; the poller says when there is more.
func hungUp(fd uintptr) bool {
	var b [1]byte
	n, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
	switch {
	case err == nil:
		return n == 0
	case errors.Is(err, syscall.EAGAIN), errors.Is(err, syscall.EINTR):
		return false
	}
	return true
}
