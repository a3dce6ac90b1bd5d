package server

import "net"

// listener is the listener for one of the addresses of [listen]: the one that systemd has
// handed over, or else one that is opened here.
func (s *Server) listener(address, key string) (l net.Listener, handedOver bool, err error) {
	if l := s.systemd.Listener(address); l != nil {
		return l, true, nil
	}
	s.notHandedOver(address, key)
	l, err = listen(address, key)
	return l, false, err
}

// leaseSocket is the same for the datagrams of nginx's lease log.
func (s *Server) leaseSocket() (*net.UnixConn, error) {
	at := s.started.Listen
	if c := s.systemd.PacketConn(at.Lease); c != nil {
		return c, nil
	}
	s.notHandedOver(at.Lease, "lease")
	return listenLease(at.Lease, at.Group, s.log)
}

// notHandedOver says that a socket is missing where systemd has handed over others.
func (s *Server) notHandedOver(address, key string) {
	if s.systemd.HandedOver() {
		s.log.Warn("systemd has not handed this socket over: stile opens it, it refuses while stile restarts, and under PrivateNetwork nobody outside reaches a port; add it to stile.socket", "listen", key, "address", address)
	}
}
