package systemd

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"

	"github.com/coreos/go-systemd/v22/activation"
)

// socket is one that was handed over. One of listener and packets is set.
type socket struct {
	address  string // as [listen] writes it: "unix:/path", "127.0.0.1:9406"
	listener net.Listener
	packets  *net.UnixConn
	taken    bool
}

// handedOver takes them, in the order of the unit (LISTEN_FDS, sd_listen_fds(3)).
func handedOver() ([]*socket, error) {
	var all []*socket
	for _, f := range activation.Files(true) {
		s, err := fromFile(f)
		f.Close()
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, nil
}

// fromFile makes a socket of a descriptor, which it leaves open.
func fromFile(f *os.File) (*socket, error) {
	// A listener is made of a datagram socket, too, and would fail at its first Accept:
	// only the name of the network tells them apart.
	l, err := net.FileListener(f)
	if err != nil {
		return nil, fmt.Errorf("systemd has handed over %q, which nothing can be made of (%w): stile.socket may have ListenStream= and ListenDatagram= only", f.Name(), err)
	}
	switch at := l.Addr().(type) {
	case *net.TCPAddr:
		return &socket{address: at.String(), listener: l}, nil
	case *net.UnixAddr:
		if at.Net == "unix" {
			return &socket{address: "unix:" + at.Name, listener: l}, nil
		}
		l.Close()
		if at.Net == "unixgram" {
			p, err := net.FilePacketConn(f)
			if err != nil {
				return nil, fmt.Errorf("systemd has handed over %s: %w", at.Name, err)
			}
			return &socket{address: "unix:" + at.Name, packets: p.(*net.UnixConn)}, nil
		}
	default:
		l.Close()
	}
	return nil, fmt.Errorf("systemd has handed over %q, a socket of the kind %s: stile.socket may have ListenStream= and ListenDatagram= only", f.Name(), l.Addr().Network())
}

// Listener is the stream socket of that address, "unix:/path" or "127.0.0.1:9406", or nil
// if none was handed over. Closing it leaves systemd's own descriptor open: who connects
// then waits for the next daemon.
func (s *Service) Listener(address string) net.Listener {
	if found := s.take(address, false); found != nil {
		return found.listener
	}
	return nil
}

// PacketConn is the datagram socket of that address, or nil if none was handed over.
func (s *Service) PacketConn(address string) *net.UnixConn {
	if found := s.take(address, true); found != nil {
		return found.packets
	}
	return nil
}

func (s *Service) take(address string, packets bool) *socket {
	for _, have := range s.sockets {
		if !have.taken && (have.packets != nil) == packets && same(have.address, address) {
			have.taken = true
			return have
		}
	}
	return nil
}

// same tells whether two addresses are one, however they are spelled.
func same(a, b string) bool {
	if a == b {
		return true
	}
	x, err := netip.ParseAddrPort(a)
	y, err2 := netip.ParseAddrPort(b)
	return err == nil && err2 == nil && x.Port() == y.Port() && x.Addr().Unmap() == y.Addr().Unmap()
}

// HandedOver tells whether there were any sockets at all.
func (s *Service) HandedOver() bool { return len(s.sockets) > 0 }

// Left is an error if sockets are left that nobody has taken: who connects to them would
// wait for ever.
func (s *Service) Left() error {
	var left []string
	for _, have := range s.sockets {
		switch {
		case have.taken:
		case have.packets != nil:
			left = append(left, have.address+" (datagrams)")
		default:
			left = append(left, have.address)
		}
	}
	if len(left) == 0 {
		return nil
	}
	return fmt.Errorf("systemd has handed over %s, which is none of [listen]: make [listen] and stile.socket say the same", strings.Join(left, ", "))
}
