package decide

import (
	"slices"

	"github.com/cespare/xxhash/v2"

	"stile/config"
)

// Memo remembers which rule requests fell under, for who decides about many of the same:
// a replay. It has a fixed size, and forgets what was there when another comes to the same
// place. It serves one goroutine, and one Engine, which is not reloaded meanwhile.
//
// What is asked is compared by a hash of 64 bits, seeded: that two requests of a replay are
// taken for each other is as likely as that its report is read by nobody.
type Memo struct {
	engine  *Engine
	policy  *Policy
	slots   []memoSlot // a power of two
	address bool       // a rule looks at the address, or at what it is known to be
	agent   bool       // or at the agent
	host    bool
	headers []int
}

type memoSlot struct {
	key uint64
	found
}

// NewMemo makes a memo for decisions of an engine whose configuration is c.
func (e *Engine) NewMemo(c *config.Config, places int) *Memo {
	m := &Memo{engine: e, policy: e.policy.Load()}
	n := 1
	for n < places {
		n *= 2
	}
	m.slots = make([]memoSlot, n)
	for i := range c.Rules {
		for r := &c.Rules[i].Match; r != nil; r = r.Not {
			m.address = m.address || len(r.Network)+len(r.Crawler)+len(r.ASN)+len(r.Country) > 0
			m.agent = m.agent || len(r.Agent)+len(r.Crawler) > 0
			m.host = m.host || len(r.Host) > 0
			for _, h := range r.Header {
				if k := slices.Index(config.Headers[:], h.Name); !slices.Contains(m.headers, k) {
					m.headers = append(m.headers, k)
				}
			}
		}
	}
	return m
}

// Found is what the rules say of a request. It is good for the policy that it was found
// under.
type Found struct{ found }

// Find is which rule a request falls under. Nothing is charged, and it may be asked while
// another goroutine decides.
func (m *Memo) Find(r *Request) Found {
	key := m.key(r)
	s := &m.slots[key&uint64(len(m.slots)-1)]
	if s.key != key {
		s.key, s.found = key, m.policy.find(r)
	}
	return Found{s.found}
}

// DecideFound is Decide for a request without an id, of which Find has said f.
func (e *Engine) DecideFound(r *Request, f Found, now int64) Verdict {
	r.looked = looked{now: now} // f may have been found for another request in r
	return e.policy.Load().decideAs(r, f.found, now)
}

// key is a hash of everything that find looks at: of what no rule looks at it may differ.
func (m *Memo) key(r *Request) uint64 {
	h := mix(m.engine.seed, xxhash.Sum64String(r.Path))
	if r.Query != "" {
		h = mix(h^1, xxhash.Sum64String(r.Query))
	}
	if r.Method != "GET" {
		h = mix(h^2, xxhash.Sum64String(r.Method))
	}
	for i := range r.Alt {
		h = mix(h^3, xxhash.Sum64String(r.Alt[i]))
	}
	if m.agent {
		h = mix(h^4, xxhash.Sum64String(r.Agent))
	}
	if m.host {
		h = mix(h^5, xxhash.Sum64String(r.Host))
	}
	for _, i := range m.headers {
		if r.Header[i] != "" {
			h = mix(h^uint64(i+6), xxhash.Sum64String(r.Header[i]))
		}
	}
	if m.address {
		b := r.Addr.As16()
		h = mix(h, xxhash.Sum64(b[:]))
	}
	return h
}
