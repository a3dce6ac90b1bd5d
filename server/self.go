package server

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"
	"time"

	"github.com/valyala/fasthttp"

	"stile/decide"
)

// selfTarget is what the daemon asks itself. Like /check it is an exact raw target, which
// nothing that nginx passes on can reach.
const selfTarget = "/self"

// selfUser is the caller of these questions: a user, so that they are counted in a key of
// their own and neither among the strangers nor in a network.
const selfUser = "stile's own watchdog"

// watch keeps the watchdog off for as long as the daemon answers itself, until ctx ends.
//
// It asks over a new connection to the socket that nginx uses. An in-memory connection
// would not notice an accept loop that stands still, nor a kept one; both are what would
// leave visitors waiting. What is asked goes the way of every check, from the accept queue
// through the server to the tables: whatever is stuck there, systemd restarts the daemon.
// It has half of the time for an answer, so that a busy machine is no reason.
func (s *Server) watch(ctx context.Context, address string) {
	limit := s.systemd.Watchdog
	for ctx.Err() == nil {
		wait := limit / 4
		if err := s.askSelf(ctx, address, limit/2); err == nil {
			s.stats.selfAnswered.Inc()
			s.systemd.Alive()
		} else if ctx.Err() == nil {
			s.stats.selfFailed.Inc()
			s.log.Error("no answer to the daemon's own question; without one it is restarted", "error", err.Error(), "within", limit)
			wait = limit / 20
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
	}
}

// askSelf asks for one decision over the socket at an address. It is an error if there is
// no answer in time, or if the answer is not one of a check, or is a fault of ours.
func (s *Server) askSelf(ctx context.Context, address string, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	c, err := dialSelf(ctx, address)
	if err != nil {
		return err
	}
	defer c.Close()
	// The end of ctx ends the question, too.
	defer context.AfterFunc(ctx, func() { c.SetDeadline(time.Unix(1, 0)) })()

	var id [16]byte
	rand.Read(id[:]) // a new one each time: a repeated question would not reach the tables
	var q fasthttp.Request
	q.SetRequestURI(selfTarget)
	q.SetConnectionClose()
	for name, value := range map[string]string{
		"Host": "stile", "X-Original-URI": "/", "X-Original-Method": "GET", "X-Real-IP": "127.0.0.1",
		"X-Request-ID": hex.EncodeToString(id[:]), "X-Stile-User": selfUser,
	} {
		q.Header.Set(name, value)
	}
	w := bufio.NewWriter(c)
	if err := errors.Join(q.Write(w), w.Flush()); err != nil {
		return fmt.Errorf("asking: %w", err)
	}
	var a fasthttp.Response
	if err := a.Read(bufio.NewReader(c)); err != nil {
		return fmt.Errorf("reading the answer: %w", err)
	}
	v, _, ok := decide.ParseToken(string(a.Header.Peek("X-Stile-Verdict")))
	if !ok || v.Reason == decide.Panic {
		return fmt.Errorf("the answer was %d %q", a.StatusCode(), a.Header.Peek("X-Stile-Verdict"))
	}
	return nil
}

// dialSelf connects to one of our listeners. The kernel refuses at once where the accept
// queue of a unix socket is full, which a burst may cause: it is tried again.
func dialSelf(ctx context.Context, address string) (net.Conn, error) {
	var d net.Dialer
	for {
		var c net.Conn
		var err error
		if file, ok := strings.CutPrefix(address, "unix:"); ok {
			c, err = d.DialContext(ctx, "unix", file)
		} else {
			c, err = d.DialContext(ctx, "tcp", address)
		}
		if !errors.Is(err, syscall.EAGAIN) {
			return c, err
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// self answers the daemon's own question: a decision as for anybody, but counted apart,
// since it is no request of nginx's, and without a turn in a gate, where it might wait as
// long as anybody.
func (s *Server) self(ctx *fasthttp.RequestCtx) {
	f := s.facts.Get().(*facts)
	v := s.judge(s.state.Load(), f, ctx.Request.Header.RawHeaders(), s.now())
	for _, g := range s.gates.current.Load().list {
		g.in.Stats(s.gates.clock()) // as much of a turn as needs no waiting: its lock
	}
	policy := s.engine.Policy()
	f.verdictText = v.AppendToken(f.verdictText[:0], policy.RuleName(v))
	ctx.Response.Header.SetBytesV("X-Stile-Verdict", f.verdictText)
	ctx.Response.SetStatusCode(s.status(v, policy.Observing()))
	s.facts.Put(f)
}
