// Package mint keeps account of the passes that networks have had: what the next one
// costs, who has had enough for today, whose timed wait is over, and how hard a
// puzzle takes the time that the operator wants.
//
// Everything is kept in tables of fixed size. They may forget (see each), and what
// they forget makes passes cheaper, never dearer.
package mint

import (
	"fmt"
	"hash/maphash"
	"sync"
	"time"

	"stile/decide/internal/bucket"
	"stile/decide/meter"
	"stile/network"
)

// MaxDoublings is the highest price of a pass: 32 times the base.
const MaxDoublings = 5

// BaseRange is how many doublings a network's price can rise through what others do:
// the networks around it, waits that others behind its address sat out, and the
// calibration, each for itself.
const BaseRange = 2

// Options say how a Ledger counts. A field that is zero has its default.
type Options struct {
	Keys          int           // entries of each table, 16 bytes each, ten tables; default 65536
	PerNetworkDay uint32        // passes a network may have in a day; default 1000
	WaitFor       time.Duration // length of a timed wait, at most a minute; default 10s
	Base          uint8         // bits of a puzzle part before any calibration; default 17
	Target        time.Duration // what solving at the base price should take; default 1s
}

func (o *Options) setDefaults() {
	if o.Keys == 0 {
		o.Keys = 65536
	}
	if o.PerNetworkDay == 0 {
		o.PerNetworkDay = 1000
	}
	if o.WaitFor == 0 {
		o.WaitFor = 10 * time.Second
	}
	if o.Base == 0 {
		o.Base = 17 // 32 parts of 2^17: four million hashes
	}
	if o.Target == 0 {
		o.Target = time.Second
	}
	if o.WaitFor < 0 || o.WaitFor > time.Minute || o.Base <= BaseRange || o.Base > 32-BaseRange || o.Target < 0 {
		panic(fmt.Sprintf("BUG: mint: %+v: want a wait of up to a minute, a base of 3 to 30 bits, a positive target", *o))
	}
}

// Ledger is safe for concurrent use. Times are unix nanoseconds. Only returned errors
// allocate.
type Ledger struct {
	perDay  uint32
	waitFor time.Duration
	seed    maphash.Seed

	// Whatever changes the account of a network is done under its lane, so that a
	// price is looked at and a pass counted in one step, however many come at once.
	lanes [64]lane

	seen   recent       // challenges that have been minted
	sat    recent       // those that were waits: apart, for waits cost nothing and must push out none of the others
	day    *meter.Table // passes of a network in its day
	proven tally        // passes that a network had for a proof, decaying
	waited tally        // passes that it had for a wait, decaying
	around [2]tally     // proven passes of the larger networks, by size: /24 and /56, /48

	slots *bucket.Table // outstanding waits
	just  recent        // a network has just redeemed a wait for a page

	base calibration
}

type lane struct {
	sync.Mutex
	_ [56]byte
}

// New makes a ledger in which nobody has had a pass. It panics on Options that make no
// sense: the configuration has been checked before.
func New(o Options) *Ledger {
	o.setDefaults()
	l := &Ledger{
		perDay:  o.PerNetworkDay,
		waitFor: o.WaitFor,
		seed:    maphash.MakeSeed(),
		seen:    newRecent(o.Keys, seenFor),
		sat:     newRecent(o.Keys, seenFor),
		day:     meter.NewTable(o.Keys),
		proven:  newTally(o.Keys),
		waited:  newTally(o.Keys),
		around:  [2]tally{newTally(o.Keys), newTally(o.Keys)},
		slots:   bucket.New(o.Keys),
		just:    newRecent(o.Keys, justFor),
	}
	l.base.init(o.Keys, o.Base, o.Target)
	return l
}

// Tables tells, for the metrics, how many entries each table uses and has. It walks
// them all.
func (l *Ledger) Tables(now int64, each func(name string, used, size int)) {
	each("proofs_minted", l.seen.len(now), l.seen.entries.Cap())
	each("waits_minted", l.sat.len(now), l.sat.entries.Cap())
	each("passes_day", l.day.Len(now, day), l.day.Cap())
	each("passes_proven", l.proven.len(now), l.proven.entries.Cap())
	each("passes_waited", l.waited.len(now), l.waited.entries.Cap())
	each("passes_around", l.around[0].len(now), l.around[0].entries.Cap())
	each("passes_site", l.around[1].len(now), l.around[1].entries.Cap())
	each("waits_begun", l.lenWaits(now), l.slots.Cap())
	each("waits_recent", l.just.len(now), l.just.entries.Cap())
	each("voters", l.base.len(now), l.base.voters.Cap())
}

// key is what a table knows a network by. Nobody outside can choose networks that
// meet in one bucket.
func (l *Ledger) key(n network.Network) uint64 { return maphash.Comparable(l.seed, n) }

// keyOf is the key of a network and something else.
func (l *Ledger) keyOf(n network.Network, other uint64) uint64 {
	return maphash.Comparable(l.seed, [2]uint64{uint64(n), other})
}

// lock takes the lanes of one or two networks, always in the same order.
func (l *Ledger) lock(a, b network.Network) (unlock [2]*sync.Mutex) {
	i, j := l.key(a)%uint64(len(l.lanes)), l.key(b)%uint64(len(l.lanes))
	if i > j {
		i, j = j, i
	}
	unlock[0] = &l.lanes[i].Mutex
	unlock[0].Lock()
	if i != j {
		unlock[1] = &l.lanes[j].Mutex
		unlock[1].Lock()
	}
	return unlock
}

func unlockLanes(held [2]*sync.Mutex) {
	held[0].Unlock()
	if held[1] != nil {
		held[1].Unlock()
	}
}
