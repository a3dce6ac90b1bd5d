package replay

import (
	"fmt"
	"net/netip"
	"time"

	"stile/config"
	"stile/crawler"
	"stile/geo"
)

// lookups is what is known of addresses without asking anybody: the lists of crawlers'
// addresses, and the operator's files of places. It is immutable.
type lookups struct {
	lists  *crawler.Lists
	places *geo.DB // nil: no rule asks
	fault  error   // a list that could not be read, and was done without
}

// newLookups reads what a configuration's rules ask for; nil if that is nothing.
func newLookups(c *config.Config) (*lookups, error) {
	asn, country := c.UsesGeo()
	if !c.UsesCrawler() && !asn && !country {
		return nil, nil
	}
	l := &lookups{}
	l.lists, l.fault = crawler.Load(crawler.Dir(c.State.Dir), c.Crawler.MaxAge, time.Now())
	if asn || country {
		var err error
		if l.places, err = geo.Open(c.Geo.Files...); err != nil {
			return nil, fmt.Errorf("rules look at where addresses are: %w", err)
		}
		if hasASN, hasCountry := l.places.Has(); asn && !hasASN || country && !hasCountry {
			return nil, fmt.Errorf("[geo] file: rules look at asn or country, and no file has it")
		}
	}
	return l, nil
}

func (l *lookups) Crawler(agent string, a netip.Addr, _ int64) crawler.Claim {
	return l.lists.Claim(agent, a)
}

func (l *lookups) Place(a netip.Addr) geo.Place {
	if l.places == nil {
		return geo.Place{}
	}
	return l.places.Place(a)
}
