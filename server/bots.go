package server

import (
	"fmt"
	"io"
	"slices"
	"time"

	"stile/botauth"
	"stile/config"
)

// signedFields are the header fields that nginx passes on, all of which a signature may
// cover.
var signedFields = append(slices.Clone(config.Headers[:]), "User-Agent")

// Bot is which of the operator's bots has signed the request (decide.Signatures).
func (f *facts) Bot(now int64) string {
	r := &f.req
	copy(f.signed[:], r.Header[:])
	f.signed[config.HeaderCount] = r.Agent
	m := botauth.Message{
		Method: r.Method, Scheme: borrow(f.proto), Host: r.Host, Target: borrow(f.target), Server: borrow(f.server), From: r.From,
		Signature: r.Header[config.HeaderSignature], SignatureInput: r.Header[config.HeaderSignatureInput], SignatureAgent: r.Header[config.HeaderSignatureAgent],
		Fields: f.signed[:],
	}
	name, _ := f.bots.Verify(time.Unix(0, now), &m) // why not is counted
	return name
}

// listBots puts the bots of a configuration in force. Without a rule that asks for them
// no directory is fetched.
func (s *Server) listBots(cfg *config.Config) {
	bots := cfg.Bots
	if !cfg.UsesCrawler() {
		bots = nil
	}
	s.bots.Set(bots, cfg.Crawler.Hosts)
}

// botMetrics registers them. Their counters are the verifier's own.
func (st *stats) botMetrics(s *Server) {
	gauge := func(name string, f func() float64) { st.set.NewGauge(name, f) }
	for _, r := range botauth.Counted() {
		gauge(fmt.Sprintf("stile_botauth_checks_total{result=%q}", r.String()), func() float64 { return float64(s.bots.Count(r)) })
	}
	gauge("stile_table_entries{table=\"signatures\"}", func() float64 { n, _ := s.bots.Recent(s.now()); return float64(n) })
	gauge("stile_table_entries_max{table=\"signatures\"}", func() float64 { _, n := s.bots.Recent(s.now()); return float64(n) })
	// Directories have labels that a reload changes.
	st.set.RegisterMetricsWriter(func(w io.Writer) {
		s.bots.Directories(func(bot string, keys int, good, failed uint64, last time.Time) {
			fmt.Fprintf(w, "stile_botauth_keys{bot=%q} %d\n", bot, keys)
			fmt.Fprintf(w, "stile_botauth_fetches_total{bot=%q,result=\"good\"} %d\nstile_botauth_fetches_total{bot=%q,result=\"failed\"} %d\n", bot, good, bot, failed)
			fmt.Fprintf(w, "stile_botauth_fetched_timestamp_seconds{bot=%q} %d\n", bot, max(last.Unix(), 0))
		})
	})
}
