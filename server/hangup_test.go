package server

import (
	"net"
	"path/filepath"
	"testing"
	"time"
)

// pair is two ends of a unix stream socket.
func pair(t testing.TB) (here, there net.Conn) {
	t.Helper()
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	there, err = net.Dial("unix", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	here, err = l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { here.Close(); there.Close() })
	return here, there
}

func TestHangup(t *testing.T) {
	here, there := pair(t)
	c := &conn{Conn: here}
	for range 100 { // watched and left alone, again and again
		gone, stop := watchHangup(c)
		select {
		case <-gone:
			t.Fatal("gone, and it is there")
		default:
		}
		if stop() {
			t.Fatal("closed, and it is not")
		}
	}
	// It can be read from as before, and what it sends meanwhile is neither lost nor an end.
	gone, stop := watchHangup(c)
	if _, err := there.Write([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	if stop() {
		t.Error("closed, and it has only sent something")
	}
	b := make([]byte, 5)
	if n, err := c.Read(b); string(b[:n]) != "hello" {
		t.Errorf("%q %v", b[:n], err)
	}
	select {
	case <-gone:
		t.Error("gone")
	default:
	}

	gone, stop = watchHangup(c)
	there.Close()
	select {
	case <-gone:
	case <-time.After(20 * time.Second):
		t.Fatal("its end was not seen")
	}
	if !stop() {
		t.Error("not closed")
	}
	// Closed before the watch begins.
	gone, stop = watchHangup(c)
	select {
	case <-gone:
	case <-time.After(20 * time.Second):
		t.Fatal("its end was not seen")
	}
	stop()
}

// Its end is seen also while something lies there that nobody has read yet.
func TestHangupBehindBytes(t *testing.T) {
	here, there := pair(t)
	if _, err := there.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	_, stop := watchHangup(here)
	there.Close()
	if stop() {
		t.Error("closed, and there is something to read")
	}
	b := make([]byte, 1)
	if _, err := here.Read(b); err != nil {
		t.Fatal(err)
	}
	gone, stop := watchHangup(here)
	select {
	case <-gone:
	case <-time.After(20 * time.Second):
		t.Fatal("its end was not seen")
	}
	stop()
}
