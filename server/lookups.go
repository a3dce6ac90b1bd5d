package server

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"stile/config"
	"stile/crawler"
	"stile/geo"
)

// agingTime is how often the lists of crawlers are read again without being asked: they
// grow older, and `stile crawlers update` may have been run.
const agingTime = 12 * time.Hour

// Crawler and Place are what the decision may ask of a state (decide.Lookups).
func (st *state) Crawler(agent string, a netip.Addr, now int64) crawler.Claim {
	return st.crawlers.Claim(agent, a, now)
}

func (st *state) Place(a netip.Addr) geo.Place {
	if st.places == nil {
		return geo.Place{} // no rule asks
	}
	return st.places.Place(a)
}

// Places opens the files that the rules of a configuration look places up in: nil when
// there are no such rules.
func Places(cfg *config.Config) (*geo.DB, error) {
	asn, country := cfg.UsesGeo()
	if !asn && !country {
		return nil, nil
	}
	db, err := geo.Open(cfg.Geo.Files...)
	if err != nil {
		return nil, err
	}
	hasASN, hasCountry := db.Has()
	missing := func(needed, has bool, key, example string) error {
		if !needed || has {
			return nil
		}
		return fmt.Errorf("[geo] file: rules have %s, and no file has any: add one such as %s", key, example)
	}
	return db, errors.Join(missing(asn, hasASN, "asn", "GeoLite2-ASN.mmdb"), missing(country, hasCountry, "country", "GeoLite2-Country.mmdb"))
}

// lists are the lists of crawlers that are in force now. A file that cannot be read is
// said, and done without: crawlers are not the reason why a site stays down. That some
// are old is said once, and again when others are: it is no fault, and nothing is refused
// for it.
func (s *Server) lists(cfg *config.Config) *crawler.Lists {
	l, err := crawler.Load(crawler.Dir(cfg.State.Dir), cfg.Crawler.MaxAge, s.now())
	if !cfg.UsesCrawler() {
		return l
	}
	if err != nil {
		s.log.Warn("lists of crawlers' addresses cannot be read", "error", err.Error())
	}
	stale := l.Stale()
	said := s.crawlers != nil && s.state.Load().cfg.UsesCrawler() && slices.Equal(s.crawlers.Lists().Stale(), stale)
	if len(stale) > 0 && !said {
		s.log.Info("lists of crawlers' addresses are old: one of those whose addresses have changed counts as a stranger, unless DNS knows it; stile crawlers update renews them",
			"days", int(cfg.Crawler.MaxAge.Hours()/24), "crawlers", strings.Join(stale, " "))
	}
	return l
}

// lookUp does the lookups of crawlers until ctx ends, and reads their lists now and then.
func (s *Server) lookUp(ctx context.Context) {
	go s.crawlers.Run(ctx)
	tick := time.NewTicker(agingTime)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			s.crawlers.SetLists(s.lists(s.state.Load().cfg))
		}
	}
}

// crawlerMetrics registers them. Their counters are the checker's own.
func (st *stats) crawlerMetrics(s *Server) {
	gauge := func(f func() float64, format string, a ...any) { st.set.NewGauge(fmt.Sprintf(format, a...), f) }
	for _, r := range crawler.Results() {
		gauge(func() float64 { return float64(s.crawlers.Lookups(r)) }, "stile_crawler_lookups_total{result=%q}", r)
	}
	for i, name := range crawler.Names() {
		id := crawler.ID(i + 1)
		for state := crawler.Verified; state < crawler.States; state++ {
			gauge(func() float64 { return float64(s.crawlers.Checks(id, state)) }, "stile_crawler_checks_total{crawler=%q,state=%q}", name, state)
		}
		if list, _ := s.crawlers.Lists().Of(id); list != nil {
			gauge(func() float64 {
				list, _ := s.crawlers.Lists().Of(id)
				return list.Age(s.now()).Seconds()
			}, "stile_crawler_list_age_seconds{crawler=%q}", name)
		}
	}
	gauge(func() float64 { n, _ := s.crawlers.Queue(); return float64(n) }, "stile_crawler_queue_length")
	gauge(func() float64 { n, _ := s.crawlers.Answers(s.now().UnixNano()); return float64(n) }, "stile_table_entries{table=\"crawlers\"}")
	gauge(func() float64 { _, n := s.crawlers.Answers(0); return float64(n) }, "stile_table_entries_max{table=\"crawlers\"}")
}
