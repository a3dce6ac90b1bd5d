package server

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"time"

	"stile/budget"
)

// What became of a datagram of nginx's lease log: the values of a label.
const (
	malformedLine = budget.Unknown + 1 + iota
	cutLine
	workingLine
)

var lineResults = [...]string{
	budget.Released: "released", budget.Late: "late", budget.Unqueued: "unqueued", budget.Unknown: "unknown",
	malformedLine: "malformed", cutLine: "cut", workingLine: "unfinished",
}

// leaseBuffer is what the kernel may hold of datagrams that have not been read. (The number
// of them is bounded too, by net.unix.max_dgram_qlen.)
const leaseBuffer = 4 << 20

// listenLease opens the socket for nginx's lease log. Like that for the checks it is
// nginx's alone.
func listenLease(address, group string, log *slog.Logger) (*net.UnixConn, error) {
	file := strings.TrimPrefix(address, "unix:")
	if err := removeStale(file, "unixgram", "lease"); err != nil {
		return nil, err
	}
	c, err := listenUnix(file, "lease", func() (*net.UnixConn, error) {
		return net.ListenUnixgram("unixgram", &net.UnixAddr{Name: file, Net: "unixgram"})
	})
	if err != nil {
		return nil, err
	}
	if _, err := openToNginx(file, group, log); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// readEnds reads what nginx tells of the ends of requests, until c is closed. Lines are
// lost when they come faster than they are read: leases have an end of their own.
func (s *Server) readEnds(c *net.UnixConn) {
	c.SetReadBuffer(leaseBuffer) // as far as the kernel allows
	b := make([]byte, 1<<16)
	for {
		n, err := c.Read(b)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			if held, ok := s.stats.saidLease.say(); ok {
				s.log.Error("cannot read from the lease socket, trying again", "error", err.Error(), "not_logged", held)
			}
			time.Sleep(shortage)
			continue
		}
		s.ended(b[:n])
	}
}

// ended takes one datagram.
func (s *Server) ended(datagram []byte) {
	var l budget.Line
	if err := l.Parse(datagram); err != nil {
		s.stats.lines[malformedLine].Inc()
		if held, ok := s.stats.saidLease.say(); ok {
			s.log.Warn("a datagram on the lease socket is not a line of the lease log; is nginx/stile.conf of this version?", "begins", fmt.Sprintf("%.200q", datagram), "not_logged", held)
		}
		return
	}
	now := s.gates.clock()
	set := s.gates.current.Load()
	switch l.End() {
	case budget.Working: // the lease's own end is nearer to the truth
		s.stats.lines[workingLine].Inc()
		// But the server does tell: were it taken for mute while its backend hangs, its leases
		// would end after two seconds each.
		if note, known := budget.NoteOf(set.all, l.ID); known {
			s.gates.servers.ended(s.log, note.Host, now)
		}
		return
	case budget.Cut:
		s.stats.lines[cutLine].Inc()
		if note, known := budget.CutAny(set.all, l.ID, now); known {
			s.gates.servers.ended(s.log, note.Host, now)
		}
		return
	}
	at, note, r := budget.ReleaseAny(set.all, l.ID, l.Cost.Time, now)
	if r == budget.Unknown && l.Status == 499 && !l.Reached {
		return // a visitor who gave up, here or in a server that stile has nothing to do with
	}
	s.stats.lines[r].Inc()
	if r == budget.Unknown {
		return
	}
	s.gates.servers.ended(s.log, note.Host, now)
	if r == budget.Unqueued || note.Path == 0 {
		return
	}
	for _, g := range set.list {
		if g.in != at {
			continue
		}
		if cost, ok := g.lesson(&l); ok {
			s.gates.costs.Teach(uint64(note.Rule), note.Path, cost, s.now().UnixNano())
		}
	}
}
