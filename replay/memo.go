package replay

import (
	"hash/maphash"
	"math"
	"slices"

	"stile/config"
	"stile/decide"
)

// memo remembers what was found of targets: most logs repeat most of theirs. It has a fixed
// size, 1 MiB, and forgets a target when another comes to the same place.
//
// What is asked is compared by a hash of 64 bits, seeded: that two requests of a replay are
// taken for each other is as likely as that its report is read by nobody.
type memo struct {
	seed  maphash.Seed
	slots []memoSlot
	found []decide.Found // the different ones, of which there are few
	ids   map[decide.Found]uint16

	// What rules look at, beside the method and the target.
	agent, host, address, crawler, place bool
	headers                              [config.HeaderCount]bool
	look                                 *lookups

	sum uint64 // of touch, which must not be left out
}

// memoSlot is what was found of one target that is read as it is written.
type memoSlot struct {
	key   uint64 // 0: nothing
	path  uint16 // how much of the target is the path
	found uint16
	route uint16
}

const memoPlaces = 1 << 16 // a power of two

func newMemo(c *config.Config, l *lookups) *memo {
	m := &memo{seed: maphash.MakeSeed(), slots: make([]memoSlot, memoPlaces), ids: map[decide.Found]uint16{}, look: l}
	for i := range c.Rules {
		for r := &c.Rules[i].Match; r != nil; r = r.Not {
			m.agent = m.agent || len(r.Agent) > 0
			m.host = m.host || len(r.Host) > 0
			m.address = m.address || len(r.Network) > 0
			m.crawler = m.crawler || len(r.Crawler) > 0
			m.place = m.place || len(r.ASN)+len(r.Country) > 0
			for _, h := range r.Header {
				m.headers[slices.Index(config.Headers[:], h.Name)] = true
			}
		}
	}
	return m
}

// touch fills the keys of requests that follow one another, and looks at their places: so
// these come from memory side by side, not one after the other (BenchmarkReplay).
func (m *memo) touch(requests []request) {
	for i := range requests {
		r := &requests[i]
		r.key = m.key(r)
	}
	sum := uint64(0)
	for i := range requests {
		sum += m.at(requests[i].key).key
	}
	m.sum += sum
}

func (m *memo) at(key uint64) *memoSlot { return &m.slots[key&(memoPlaces-1)] }

// keep remembers what was found of a record's target, which is read as it is written.
func (m *memo) keep(r *request) {
	id, ok := m.ids[r.found]
	if !ok {
		if len(m.found) > math.MaxUint16 {
			return
		}
		id = uint16(len(m.found))
		m.found = append(m.found, r.found)
		m.ids[r.found] = id
	}
	if len(r.path) <= math.MaxUint16 {
		*m.at(r.key) = memoSlot{r.key, uint16(len(r.path)), id, r.route}
	}
}

// key is a hash of everything that rules look at: of what none does it may differ. It is
// never 0.
func (m *memo) key(r *request) uint64 {
	h := maphash.String(m.seed, r.target)
	if r.method != "GET" {
		h = m.with(h, 1, r.method)
	}
	if m.agent {
		h = m.with(h, 2, r.agent)
	}
	if m.host {
		h = m.with(h, 3, r.host)
	}
	if r.format != nil {
		for i, k := range r.format.headers {
			if m.headers[k-head] && r.header[i] != "" {
				h = m.with(h, uint64(k)+4, r.header[i])
			}
		}
	} else if m.headers[headerReferer] {
		h = m.with(h, uint64(head)+headerReferer+4, r.referer)
	}
	if m.address {
		b := r.addr.As16()
		h = spread(h) + maphash.Bytes(m.seed, b[:])
	}
	if m.crawler {
		h = spread(h) + uint64(r.claim.State)<<32 + uint64(r.claim.Crawler)
	}
	if m.place {
		h = spread(h) + maphash.Comparable(m.seed, m.look.Place(r.addr))
	}
	return max(h, 1)
}

func (m *memo) with(h, what uint64, s string) uint64 {
	return spread(h+what) + maphash.String(m.seed, s)
}
