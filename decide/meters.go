package decide

import (
	"math/bits"
	"time"

	"github.com/cespare/xxhash/v2"

	"stile/config"
	"stile/decide/meter"
	"stile/network"
)

// partSlack is how much more than its limit a meter gives to the parts of a page
// that is being shown already. The next navigation meets the plain limit.
const partSlack = 3

// waitShare is what a pass earned by waiting (level 1) has of a pass's budget: a
// half, for waiting costs a scraper less than work.
const waitShare = 2

// wideFactor is how many times a stranger's limit the networks around it may use
// together: the /24 for IPv4, the /56 and the /48 for IPv6. A /56 is often one
// household, a /48 one organisation, a /24 of a mobile carrier thousands of people.
var wideFactor = struct{ v4, v56, v48 uint32 }{8, 4, 16}

// counters is the memory of one meter. It outlives a reload that does not change
// what the meter counts.
type counters struct {
	stranger *meter.Table     // networks, or pools of strangers
	proven   *meter.Table     // passes and users, or pools of them
	wide     *meter.Table     // the networks around strangers
	all      [2]meter.Counter // all strangers together: their page views, and parts of pages
}

func newCounters(keys int) *counters {
	return &counters{meter.NewTable(keys), meter.NewTable(keys), meter.NewTable(keys / 4), [2]meter.Counter{}}
}

// limiter is one [[meter]], compiled.
type limiter struct {
	name      string
	window    time.Duration
	limit     [callerKinds]uint32
	strangers uint32
	per       config.Per
	seed      uint64
	*counters
}

// keyOf is what a request is counted under in this meter.
func (m *limiter) keyOf(r *Request, k CallerKind, caller uint64) uint64 {
	h := m.seed ^ uint64(k)*0x9E3779B97F4A7C15
	if m.per.Caller {
		h = mix(h, caller)
	}
	for _, n := range m.per.Segments {
		h = mix(h, xxhash.Sum64String(segment(r.Path, n)))
	}
	return h
}

// payer is as whom a request is counted.
type payer struct {
	kind   CallerKind
	key    uint64 // of the caller
	part   bool   // a part of a page that is being shown: three times the limits
	waited bool   // the pass was earned by waiting
}

// charge counts a request. When a limit does not allow it nothing stays counted, and
// left says how long until its window ends.
//
// Strangers are counted against themselves first, so that each adds to the collective at
// most its own limit: one host cannot use up what all strangers together may have. What
// all and the networks around use for parts of pages is counted apart from their page
// views: whoever says that he loads parts only keeps others from parts.
func (m *limiter) charge(r *Request, by *payer, now int64) (left time.Duration, why Reason) {
	slack := uint32(1)
	if by.part {
		slack = partSlack
	}
	if limit := m.limit[by.kind] * slack; limit > 0 {
		if by.waited { // a smaller budget, but not less than without any pass
			limit = max(limit/waitShare, min(m.limit[Stranger]*slack, limit))
		}
		if left, ok := m.table(by.kind).Add(m.keyOf(r, by.kind, by.key), now, m.window, limit); !ok {
			return left, Meter
		}
	}
	if m.countsWide(by) {
		if left, ok := m.chargeWide(r, by, slack, now); !ok {
			m.undoOwn(r, by, now)
			return left, Wide
		}
	}
	if m.countsAll(by) {
		if left, ok := m.all[b2i(by.part)].Add(now, m.window, m.strangers*slack); !ok {
			m.undoOwn(r, by, now)
			m.undoWide(r, by, now)
			return left, Collective
		}
	}
	return 0, Metered
}

// prefetch has what charge looks at on its way from memory, so that a rule of several meters
// waits for it once: a fifth of a decision's time with a million keys (BenchmarkDecide).
func (m *limiter) prefetch(r *Request, by *payer) {
	if m.limit[by.kind] > 0 {
		m.table(by.kind).Prefetch(m.keyOf(r, by.kind, by.key))
	}
	if m.countsWide(by) {
		for _, w := range r.From.Wider() {
			if w != 0 {
				m.wide.Prefetch(m.wideKey(r, w, by.part))
			}
		}
	}
}

// undo takes back a charge that another meter of the same rule has made vain.
func (m *limiter) undo(r *Request, by *payer, now int64) {
	m.undoOwn(r, by, now)
	m.undoWide(r, by, now)
	if m.countsAll(by) {
		m.all[b2i(by.part)].Undo(now, m.window)
	}
}

func (m *limiter) undoOwn(r *Request, by *payer, now int64) {
	if m.limit[by.kind] > 0 {
		m.table(by.kind).Undo(m.keyOf(r, by.kind, by.key), now, m.window)
	}
}

// countsWide: strangers count in the networks around them, and those who have only
// waited, for that costs the owner of many addresses nothing.
func (m *limiter) countsWide(by *payer) bool {
	return (by.kind == Stranger || by.waited) && m.limit[Stranger] > 0 && m.per.Caller
}

func (m *limiter) countsAll(by *payer) bool { return by.kind == Stranger && m.strangers > 0 }

func (m *limiter) chargeWide(r *Request, by *payer, slack uint32, now int64) (time.Duration, bool) {
	for i, w := range r.From.Wider() {
		if w == 0 {
			continue
		}
		left, ok := m.wide.Add(m.wideKey(r, w, by.part), now, m.window, m.limit[Stranger]*slack*factor(r.From, i))
		if !ok {
			if i == 1 {
				m.wide.Undo(m.wideKey(r, r.From.Wider()[0], by.part), now, m.window)
			}
			return left, false
		}
	}
	return 0, true
}

func (m *limiter) undoWide(r *Request, by *payer, now int64) {
	if !m.countsWide(by) {
		return
	}
	for _, w := range r.From.Wider() {
		if w != 0 {
			m.wide.Undo(m.wideKey(r, w, by.part), now, m.window)
		}
	}
}

func (m *limiter) wideKey(r *Request, w network.Network, part bool) uint64 {
	return m.keyOf(r, Stranger, uint64(w)) + uint64(b2i(part))
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

func factor(n network.Network, i int) uint32 {
	switch {
	case n.Is4():
		return wideFactor.v4
	case i == 0:
		return wideFactor.v56
	}
	return wideFactor.v48
}

func (m *limiter) table(k CallerKind) *meter.Table {
	if k == Stranger {
		return m.stranger
	}
	return m.proven
}

// mix folds two words into one (the multiply-and-fold step of wyhash, Wang Yi).
func mix(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a^0xa0761d6478bd642f, b^0xe7037ed1a0b428db)
	return hi ^ lo
}

// segment is the n-th segment of a path, counted from 1; "" when there is none.
func segment(path string, n int) string {
	for i := 0; i < len(path); {
		j := i + 1 // past the slash
		for j < len(path) && path[j] != '/' {
			j++
		}
		if n--; n == 0 {
			return path[i+1 : j]
		}
		i = j
	}
	return ""
}
