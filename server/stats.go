package server

import (
	"fmt"
	"io"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"stile/decide"
	"stile/decide/mint"
)

// stats are the daemon's metrics. Labels are closed sets from the code and the
// configuration; nothing that a client sends becomes a label.
type stats struct {
	set            *metrics.Set
	checks         [3][decide.Reasons]*metrics.Counter
	duration       *histogram
	issued         *metrics.Counter
	issuedWaits    *metrics.Counter
	solved         *metrics.Counter
	waited         *metrics.Counter
	failures       [kinds]map[string]*metrics.Counter
	mints          [maxLevel + 1]*metrics.Counter
	misconfig      map[string]*metrics.Counter
	panics         *metrics.Counter
	protocolErrors *metrics.Counter
	lines          [len(lineResults)]*metrics.Counter // of the lease log
	saveErrors     *metrics.Counter
	verified       *metrics.Counter
	selfAnswered   *metrics.Counter
	selfFailed     *metrics.Counter
	reloads        *metrics.Counter
	reloadErrors   *metrics.Counter
	reloadOK       atomic.Int64
	reloadAt       atomic.Int64

	saidMisconfig, saidPanic, saidLease, saidSave throttle
}

// What a visitor does for a pass.
const (
	kindWork = iota
	kindWait
	kinds
)

// Why a proof or a wait was not redeemed, the values of a label.
var failureNames = [kinds][]string{
	kindWork: {"origin", "malformed", "expired", "wrong", "price", "ceiling"},
	kindWait: {"origin", "malformed", "expired", "network", "early", "none", "ceiling"},
}

var kindNames = [kinds]string{kindWork: "pow", kindWait: "wait"}

func newStats(s *Server) *stats {
	st := &stats{set: metrics.NewSet(), duration: newHistogram(checkBounds), misconfig: map[string]*metrics.Counter{}}
	counter := func(format string, a ...any) *metrics.Counter { return st.set.NewCounter(fmt.Sprintf(format, a...)) }
	for _, a := range []decide.Action{decide.Allow, decide.Challenge, decide.Refuse} {
		for r := decide.Reason(0); r < decide.Reasons; r++ {
			st.checks[a][r] = counter("stile_checks_total{verdict=%q,reason=%q}", a, r)
		}
	}
	st.issued = counter("stile_challenges_issued_total{kind=%q}", "pow")
	st.issuedWaits = counter("stile_challenges_issued_total{kind=%q}", "wait")
	st.solved = counter("stile_challenges_solved_total{kind=%q}", "pow")
	st.waited = counter("stile_challenges_solved_total{kind=%q}", "wait")
	for kind, names := range failureNames {
		st.failures[kind] = map[string]*metrics.Counter{}
		for _, why := range names {
			st.failures[kind][why] = counter("stile_challenges_failed_total{kind=%q,reason=%q}", kindNames[kind], why)
		}
	}
	for l := waitLevel; l <= maxLevel; l++ {
		st.mints[l] = counter("stile_passes_minted_total{level=\"%d\"}", l)
	}
	for _, h := range []string{"X-Original-URI", "X-Original-Method", "X-Real-IP"} {
		st.misconfig[h] = counter("stile_misconfigured_total{header=%q}", h)
	}
	st.panics = counter("stile_panics_total")
	st.protocolErrors = counter("stile_protocol_errors_total")
	for r, name := range lineResults {
		st.lines[r] = counter("stile_lease_lines_total{result=%q}", name)
	}
	st.saveErrors = counter("stile_state_errors_total")
	st.verified = counter("stile_verify_checks_total")
	st.selfAnswered = counter("stile_self_checks_total{result=%q}", "answered")
	st.selfFailed = counter("stile_self_checks_total{result=%q}", "failed")
	st.reloads = counter("stile_config_reloads_total")
	st.reloadErrors = counter("stile_config_reload_errors_total")
	gauge := func(name string, f func() float64) { st.set.NewGauge(name, f) }
	gauge("stile_config_last_reload_successful", func() float64 { return float64(st.reloadOK.Load()) })
	gauge("stile_config_last_reload_success_timestamp_seconds", func() float64 { return float64(st.reloadAt.Load()) })
	gauge(fmt.Sprintf("stile_info{version=%q}", s.version), func() float64 { return 1 })
	gauge("stile_observing", func() float64 {
		if s.engine.Policy().Observing() {
			return 1
		}
		return 0
	})
	gauge("stile_gate_unreleased_servers", func() float64 { return float64(s.gates.servers.mute()) })
	st.crawlerMetrics(s)
	st.botMetrics(s)
	gauge("stile_challenge_base_bits", func() float64 { return float64(s.ledger.BaseBits()) })
	return st
}

// check counts one answer of the check.
func (st *stats) check(v decide.Verdict, took time.Duration) {
	reason := v.Reason
	if v.Again {
		reason = decide.Repeat
	}
	st.checks[v.Action][reason].Inc()
	st.duration.update(took)
}

// asked is how many checks there were.
func (st *stats) asked() (n uint64) {
	for a := range st.checks {
		for r := range st.checks[a] {
			n += st.checks[a][r].Get()
		}
	}
	return n
}

func (st *stats) failed(kind int, why string) {
	if c := st.failures[kind][why]; c != nil {
		c.Inc()
		return
	}
	panic("BUG: a failure without a counter: " + why)
}

func (st *stats) minted(level uint8) {
	if int(level) < len(st.mints) && st.mints[level] != nil {
		st.mints[level].Inc()
	}
}

// misconfigured counts a request that nginx has not described, and says so now and then.
// host is the site's, as far as it is known.
func (st *stats) misconfigured(log *slog.Logger, header string, host []byte) {
	if c := st.misconfig[header]; c != nil {
		c.Inc()
	}
	if n, ok := st.saidMisconfig.say(); ok {
		what := "such requests are let through unjudged"
		if header == "X-Original-Method" {
			what = "such requests are taken for a GET"
		}
		log.Error("nginx does not send a header that stile needs, or sends nonsense in it: "+what+"; use the shipped snippet in this server", "header", header, "host", fmt.Sprintf("%.200q", host), "not_logged", n)
	}
}

func (st *stats) panicked(log *slog.Logger, target []byte, fault any, stack []byte) {
	st.panics.Inc()
	if n, ok := st.saidPanic.say(); ok {
		log.Error("a fault of stile's; the request was refused", "fault", fmt.Sprint(fault), "target", fmt.Sprintf("%.200q", target), "stack", string(stack), "not_logged", n)
	}
}

func (st *stats) reloaded(ok bool, now time.Time) {
	if !ok {
		st.reloadErrors.Inc()
		st.reloadOK.Store(0)
		return
	}
	st.reloads.Inc()
	st.reloadOK.Store(1)
	st.reloadAt.Store(now.Unix())
}

func (st *stats) write(w io.Writer, p *decide.Policy, l *mint.Ledger, g *gates, h *holds, now int64) {
	st.set.WritePrometheus(w)
	st.duration.write(w, "stile_check_duration_seconds", "")
	table := func(name string, used, size int) {
		fmt.Fprintf(w, "stile_table_entries{table=%q} %d\nstile_table_entries_max{table=%q} %d\n", name, used, name, size)
	}
	p.Tables(now, table)
	l.Tables(now, table)
	table("costs", g.costs.Len(), g.costs.Cap())
	table("holds", h.len(), maxHolds)
	g.write(w)
	p.Rules(func(name string, hits, observed uint64) {
		fmt.Fprintf(w, "stile_rule_hits_total{rule=%q} %d\n", name, hits)
		if observed > 0 {
			fmt.Fprintf(w, "stile_rule_observed_total{rule=%q} %d\n", name, observed)
		}
	})
	metrics.WriteProcessMetrics(w)
}

// throttle lets one message through a minute, and counts those that it held back.
type throttle struct {
	next atomic.Int64
	held atomic.Int64
}

// say tells whether to say it now, and how often it was not said since the last time.
func (t *throttle) say() (held int64, ok bool) {
	now := time.Now().UnixNano()
	next := t.next.Load()
	if now < next || !t.next.CompareAndSwap(next, now+int64(time.Minute)) {
		t.held.Add(1)
		return 0, false
	}
	return t.held.Swap(0), true
}
