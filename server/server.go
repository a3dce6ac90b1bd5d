// Package server speaks HTTP to nginx: bytes in, bytes out. It turns what nginx says
// into values, asks decide, and serves the pages that a visitor sees.
package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"

	"stile/botauth"
	"stile/budget"
	"stile/config"
	"stile/crawler"
	"stile/decide"
	"stile/decide/mint"
	"stile/key"
	"stile/systemd"
)

// readBuffer is larger than any header block that nginx passes on: its own limit for a
// client's is 4 × 8 KiB, and ours come on top. fasthttp answers 431 above it.
const readBuffer = 48 << 10

// idleTimeout is longer than the 60 s for which nginx keeps an idle connection to an
// upstream, so that it is never we who close one that nginx is about to use.
const idleTimeout = 90 * time.Second

// drainTime is how long Run waits for open requests after its context has ended.
const drainTime = 5 * time.Second

// pageTime is how long a daemon that stops still serves pages to those who waited in a
// gate and have been refused.
const pageTime = 250 * time.Millisecond

// Server is the daemon. Make it with New, then call Run once.
type Server struct {
	load    func() (*config.Config, error)
	started *config.Config // what the listeners and tables were made by
	version string
	log     *slog.Logger
	now     func() time.Time
	systemd *systemd.Service

	engine   *decide.Engine
	gates    gates
	holds    holds
	ledger   *mint.Ledger
	crawlers *crawler.Checker
	bots     *botauth.Verifier
	state    atomic.Pointer[state]
	stats    *stats
	facts    sync.Pool
}

// Options are what New needs besides the configuration.
type Options struct {
	File    string                         // read again by Reload; "" for the defaults
	Load    func() (*config.Config, error) // does so; default: config.Load(File)
	Version string
	Log     *slog.Logger
	Now     func() time.Time // default time.Now
	Systemd *systemd.Service // what systemd has handed over, and is to be told; default: nothing
}

// New builds a daemon from a configuration, unless its rules do not do what its
// [[expect]]s say. It makes the key file if there is none, and starts nothing.
func New(cfg *config.Config, o Options) (*Server, error) {
	if failed := decide.Expectations(cfg); len(failed) > 0 {
		return nil, errors.Join(failed...)
	}
	s := &Server{load: o.Load, started: cfg, version: o.Version, log: o.Log, now: o.Now, systemd: o.Systemd}
	if s.load == nil {
		s.load = func() (*config.Config, error) { return config.Load(o.File) }
	}
	if s.now == nil {
		s.now = time.Now
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if s.systemd == nil {
		s.systemd = new(systemd.Service)
	}
	s.facts.New = func() any { return new(facts) }
	ring, made, err := key.LoadOrCreate(cfg.Key.File)
	if err != nil {
		return nil, err
	}
	if made {
		s.log.Info("made a key file", "file", cfg.Key.File)
	}
	st := newState(cfg, ring)
	if st.places, err = Places(cfg); err != nil {
		return nil, err
	}
	s.crawlers = crawler.NewChecker(s.lists(cfg), crawler.NewResolver(cfg.Crawler.Resolver), s.now)
	st.crawlers = s.crawlers
	s.bots = botauth.New(botauth.Options{Fields: signedFields, Dir: filepath.Join(cfg.State.Dir, "bots"), Log: s.log, Now: s.now})
	st.bots = s.bots
	s.listBots(cfg)
	if s.engine, err = decide.New(cfg); err != nil {
		return nil, err
	}
	s.gates.start, s.gates.seed = time.Now(), rand.Uint64()
	s.gates.costs = budget.NewCosts(cfg.State.Keys, budget.Cost{})
	if err = s.gates.set(cfg); err != nil {
		return nil, err
	}
	s.ledger = mint.New(mint.Options{
		Keys: cfg.State.Keys, PerNetworkDay: uint32(cfg.Pass.PerNetworkDay), Target: cfg.Challenge.Target,
		Base: bitsFor(cfg.Challenge.Target),
	})
	s.state.Store(st)
	s.stats = newStats(s)
	s.stats.reloaded(true, s.now())
	s.restore()
	return s, nil
}

// Run listens and serves until ctx ends, then lets open requests finish for up to
// drainTime. reload is read for as long: each value asks for the configuration to be
// read again. ready is called once all listeners are open.
func (s *Server) Run(ctx context.Context, reload <-chan struct{}, ready func()) error {
	at := s.started.Listen
	admin, _, err := s.listener(at.Admin, "admin")
	if err != nil {
		return err
	}
	check, handedOver, err := s.listener(at.Check, "check")
	if err != nil {
		return errors.Join(err, admin.Close())
	}
	access := "loopback"
	if handedOver {
		access = "whom stile.socket lets"
	} else if file, ok := strings.CutPrefix(at.Check, "unix:"); ok {
		if access, err = openToNginx(file, at.Group, s.log); err != nil {
			return errors.Join(err, admin.Close(), check.Close())
		}
	}
	lease, err := s.leaseSocket()
	if err != nil {
		return errors.Join(err, admin.Close(), check.Close())
	}
	if err := s.systemd.Left(); err != nil {
		return errors.Join(err, admin.Close(), check.Close(), lease.Close())
	}
	s.log.Info("listening", "check", at.Check, "for", access, "lease", at.Lease, "admin", at.Admin)
	return s.Serve(ctx, Listeners{check, admin, lease}, reload, ready)
}

// Listeners are where the daemon is spoken to.
type Listeners struct {
	Check, Admin net.Listener
	Lease        *net.UnixConn // datagrams; nil: no end of a request is told, leases end by themselves
}

// Serve is Run on listeners that are open already. It closes them.
func (s *Server) Serve(ctx context.Context, at Listeners, reload <-chan struct{}, ready func()) error {
	gate := s.fasthttpServer(s.handle)
	side := s.fasthttpServer(s.handleAdmin)
	side.ReadBufferSize, side.ReadTimeout, side.Concurrency = 0, 10*time.Second, 64
	failed := make(chan error, 2)
	s.gates.run()
	go s.saveNowAndThen(ctx)
	go s.lookUp(ctx)
	go s.bots.Run(ctx)
	if at.Lease != nil {
		go s.readEnds(at.Lease)
		defer at.Lease.Close()
	}
	go func() { failed <- gate.Serve(&listener{Listener: at.Check, log: s.log, visitor: true}) }()
	go func() { failed <- side.Serve(&listener{Listener: at.Admin, log: s.log}) }()
	if ready != nil {
		ready()
	}
	s.systemd.Ready(s.inForce())
	if s.systemd.Watchdog > 0 {
		watching, end := context.WithCancel(ctx)
		defer end()
		go s.watch(watching, s.started.Listen.Check)
	}
	s.log.Info("ready", s.summary()...)
	if s.engine.Policy().Observing() {
		s.log.Warn("mode is observe: every request is let through, whatever the verdict")
	}
	unasked := time.NewTimer(time.Minute)
	defer unasked.Stop()
	for {
		select {
		case err := <-failed:
			return fmt.Errorf("serving: %w", err)
		case <-reload:
			s.systemd.Reloading()
			s.Reload()
			s.systemd.Ready(s.inForce())
		case <-unasked.C:
			if s.stats.asked() == 0 {
				s.log.Warn("nginx has asked nothing since the start: is the include in a server, and may nginx's workers open the socket?", "check", s.started.Listen.Check)
			}
		case <-ctx.Done():
			if s.gates.close() > 0 {
				// nginx now fetches a page for each of them.
				time.Sleep(pageTime)
			}
			err := s.drain(gate, side)
			s.save()
			return err
		}
	}
}

// drain lets open requests finish.
func (s *Server) drain(servers ...*fasthttp.Server) error {
	s.log.Info("stopping")
	s.systemd.Stopping()
	ctx, cancel := context.WithTimeout(context.Background(), drainTime)
	defer cancel()
	errs := make(chan error, len(servers))
	for _, f := range servers {
		go func() { errs <- f.ShutdownWithContext(ctx) }()
	}
	var err error
	for range servers {
		err = errors.Join(err, <-errs)
	}
	if errors.Is(err, context.DeadlineExceeded) {
		s.log.Warn("stopped with requests open", "after", drainTime)
		return nil
	}
	s.log.Info("stopped")
	return err
}

// summary is what is in force, for the log.
func (s *Server) summary() []any {
	st := s.state.Load()
	return []any{"files", strings.Join(st.cfg.Files, " "), "mode", st.cfg.Mode.String(), "rules", s.engine.Policy().Len(), "key", st.ring.Fingerprint()}
}

// inForce is the same for `systemctl status`.
func (s *Server) inForce() string {
	st := s.state.Load()
	text := fmt.Sprintf("%d rules, mode %s", s.engine.Policy().Len(), st.cfg.Mode)
	if s.stats.reloadOK.Load() == 0 {
		text += "; the last reload failed, this is what was in force before"
	}
	return text
}

func (s *Server) fasthttpServer(h fasthttp.RequestHandler) *fasthttp.Server {
	return &fasthttp.Server{
		Handler:               h,
		ErrorHandler:          s.protocolError,
		Logger:                discard{}, // its errors come through ErrorHandler, counted
		ReadBufferSize:        readBuffer,
		MaxRequestBodySize:    2 * maxProofBytes,
		IdleTimeout:           idleTimeout,
		NoDefaultServerHeader: true,
		NoDefaultDate:         true, // nginx sets its own
		NoDefaultContentType:  true,
		CloseOnShutdown:       true,
		// Names are compared in any case (facts.go): twenty need not be rewritten first.
		DisableHeaderNamesNormalizing: true,
	}
}

// protocolError answers what is no HTTP request of ours. nginx turns any such status
// of the check into a refusal, never into an allow.
func (s *Server) protocolError(ctx *fasthttp.RequestCtx, err error) {
	s.stats.protocolErrors.Inc()
	status := fasthttp.StatusBadRequest
	var small *fasthttp.ErrSmallBuffer
	switch {
	case errors.As(err, &small):
		status = fasthttp.StatusRequestHeaderFieldsTooLarge
	case errors.Is(err, fasthttp.ErrBodyTooLarge):
		status = fasthttp.StatusRequestEntityTooLarge
	}
	noStore(ctx)
	ctx.Response.SetStatusCode(status)
	if c, ok := ctx.Conn().(*conn); ok {
		c.linger.Store(true)
	}
}

// handle serves nginx. check, challenge, refused and self answer to their exact raw target
// only, so that no path of a client that nginx passes on can reach them.
func (s *Server) handle(ctx *fasthttp.RequestCtx) {
	defer s.recovered(ctx)
	target := ctx.Request.Header.RequestURI()
	switch string(target) {
	case "/check":
		s.check(ctx)
		return
	case "/challenge":
		s.challenge(ctx)
		return
	case "/refused":
		s.refused(ctx)
		return
	case selfTarget:
		s.self(ctx)
		return
	}
	path, query, _ := bytes.Cut(target, []byte{'?'})
	switch string(path) {
	case "/.stile/stile.js":
		s.script(ctx, query)
	case "/.stile/proof":
		s.proof(ctx)
	case "/.stile/pass":
		s.hasPass(ctx)
	case "/.stile/wait":
		s.wait(ctx, query)
	case "/.stile/prove":
		s.prove(ctx, query)
	default:
		noStore(ctx)
		ctx.Response.SetStatusCode(fasthttp.StatusNotFound)
		ctx.Response.Header.SetContentType("text/plain; charset=utf-8")
		ctx.Response.SetBodyString("404 Not Found\n")
	}
}

// recovered turns a fault of ours into a refusal: a crash that a client can cause would
// make nginx let everybody in.
func (s *Server) recovered(ctx *fasthttp.RequestCtx) {
	if fault := recover(); fault != nil {
		s.stats.panicked(s.log, ctx.Request.Header.Peek("X-Original-URI"), fault, debug.Stack())
		ctx.Response.Reset()
		noStore(ctx)
		v := decide.Verdict{Action: decide.Refuse, Reason: decide.Panic, Retry: 5}
		ctx.Response.Header.SetBytesV("X-Stile-Verdict", v.AppendToken(nil, ""))
		ctx.Response.SetStatusCode(fasthttp.StatusTooManyRequests)
	}
}

// Reload reads the configuration again and swaps everything at once, or keeps what is
// there and says why.
func (s *Server) Reload() {
	err := s.reload()
	s.stats.reloaded(err == nil, s.now())
	if err != nil {
		s.log.Error("reload failed, the old configuration stays in force", "error", err.Error())
		return
	}
	s.log.Info("reloaded", s.summary()...)
	if s.engine.Policy().Observing() {
		s.log.Warn("mode is observe: every request is let through, whatever the verdict")
	}
}

func (s *Server) reload() error {
	cfg, err := s.load()
	if err != nil {
		return err
	}
	if failed := decide.Expectations(cfg); len(failed) > 0 {
		return errors.Join(failed...)
	}
	// A key file that has gone is a mistake: a new one would end every pass.
	ring, err := key.Load(cfg.Key.File)
	if err != nil {
		return err
	}
	st := newState(cfg, ring)
	if st.places, err = Places(cfg); err != nil {
		return err
	}
	st.crawlers, st.bots = s.crawlers, s.bots
	listen, state := cfg.Listen, cfg.State
	cfg.State = s.started.State // tables of another size would be empty ones
	policy, err := s.engine.Compile(cfg)
	if err != nil {
		return err
	}
	// The gates first: a rule of the new policy finds its own. It is the last that may fail.
	if err := s.gates.set(cfg); err != nil {
		return err
	}
	s.engine.Use(policy)
	if cfg.Crawler.Resolver != s.state.Load().cfg.Crawler.Resolver {
		s.crawlers.SetResolver(crawler.NewResolver(cfg.Crawler.Resolver))
	}
	s.crawlers.SetLists(s.lists(cfg))
	s.listBots(cfg)
	s.state.Store(st)
	if listen != s.started.Listen {
		s.log.Warn("[listen] has changed: that takes effect at the next start, not by a reload")
	}
	if state != s.started.State {
		s.log.Warn("[state] has changed: that takes effect at the next start, not by a reload")
	}
	if cfg.Pass.PerNetworkDay != s.started.Pass.PerNetworkDay || cfg.Challenge.Target != s.started.Challenge.Target {
		s.log.Warn("[pass] per_network_day or [challenge] target has changed: that takes effect at the next start, not by a reload")
	}
	return nil
}

type discard struct{}

func (discard) Printf(string, ...any) {}
