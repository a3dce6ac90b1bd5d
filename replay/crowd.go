package replay

import (
	"time"

	"stile/network"
)

// crowd counts what many callers ask for, in an amount of memory that has a limit. A caller
// has one of eight places, whose keys are a cache line; in a full bucket the one that has
// asked least is forgotten, and those never that would have been asked for a proof while
// there are others. What a forgotten caller had counts in the peaks as that of a caller of
// its own.
type crowd struct {
	keys []uint64 // of callers, by place; 0: free
	// rows is where in the tables that follow the callers of places are: one behind the other,
	// as they came. Few callers then lie in few pages of memory, which is 7 % of the time of a
	// replay with twenty thousand (BenchmarkReplay).
	rows      []uint32
	callers   []caller
	demands   []demand // of each caller, one for each meter
	meters    int
	peaks     []*histogram // of each meter: what callers asked for in their busiest window
	needs     []*histogram // and the limit of a stranger that would have let them through
	around    *crowd       // the networks around callers, whose limits hold for them too; may be nil
	forgotten int64
}

// caller is half a cache line.
type caller struct {
	what     *what  // the first time that it would not have been let through; nil before
	passEnd  int64  // of the pass that it has if all solve
	requests uint32 // nobody asks for more than four thousand million times in one log
	asked    uint32 // would have been asked for a proof
	refused  uint32 // or refused, if nobody solves
	factor   uint16 // how many times a stranger's limit it may use; 0: it is no stranger
	level    uint8  // of the pass
}

// what is the first time that a caller would not have been let through.
type what struct {
	at            int64
	rule, meter   int // -1: none
	reason        string
	target, agent string // at most maxText bytes
	addr          string
}

const (
	maxText = 120
	ways    = 8
)

// demand is what one caller asks of one meter, whatever its limit.
type demand struct {
	begin uint32 // of the window, in units of 2^26 ns
	n     uint32
	peak  uint32
}

func newCrowd(places, meters int) *crowd {
	c := &crowd{keys: make([]uint64, places), rows: make([]uint32, places), meters: meters}
	for range meters {
		c.peaks, c.needs = append(c.peaks, new(histogram)), append(c.needs, new(histogram))
	}
	return c
}

// at is the place of a caller, one of its own if it is new. It stays valid until the next
// call.
func (c *crowd) at(key uint64) int {
	if i, ok := c.find(key); ok {
		return i
	}
	// Slow path.
	first := c.bucket(key)
	least := first
	for i := first + 1; i < first+ways; i++ {
		if c.worth(i) < c.worth(least) {
			least = i
		}
	}
	if c.keys[least] != 0 {
		c.forgotten++
		c.settle(least)
		*c.caller(least) = caller{}
	} else {
		c.rows[least] = uint32(len(c.callers))
		c.callers = append(c.callers, caller{})
		c.demands = append(c.demands, make([]demand, c.meters)...)
	}
	c.keys[least] = key
	return least
}

// caller is who has a place. It stays valid until the next call of at.
func (c *crowd) caller(i int) *caller { return &c.callers[c.rows[i]] }

// demand is what the caller of a place asks of the meters.
func (c *crowd) demand(i int) []demand {
	first := int(c.rows[i]) * c.meters
	return c.demands[first : first+c.meters]
}

func (c *crowd) bucket(key uint64) int { return int(spread(key)&uint64(len(c.keys)/ways-1)) * ways }

// find is the place of a caller that has one.
func (c *crowd) find(key uint64) (int, bool) {
	first := c.bucket(key)
	for i, k := range c.keys[first : first+ways] {
		if k == key && key != 0 {
			return first + i, true
		}
	}
	return 0, false
}

// is tells whether a place is a caller's.
func (c *crowd) is(i int, key uint64) bool { return c.keys[i] == key && key != 0 }

// look touches what there is of a caller.
func (c *crowd) look(i int) uint64 {
	if len(c.demands) == 0 {
		return 0 // nobody has come, or there are no meters
	}
	d := c.demand(i)
	return uint64(c.caller(i).requests) + uint64(d[0].n) + uint64(d[len(d)-1].n)
}

// worth orders who is forgotten first.
func (c *crowd) worth(i int) uint64 {
	if c.keys[i] == 0 {
		return 0
	}
	e := c.caller(i)
	return uint64(b2i(e.what != nil))<<32 + uint64(e.requests) + 1
}

// want counts a request of a meter, in windows that begin with a caller's first.
func (c *crowd) want(i, meter int, now int64, window time.Duration) {
	d := &c.demand(i)[meter]
	tick, long := uint32(now>>26), uint32(window>>26)
	if tick-d.begin >= long || d.n == 0 {
		d.peak = max(d.peak, d.n)
		d.begin, d.n = tick, 0
	}
	d.n++
}

// settle moves a place's peaks into the histograms, and empties it. Callers that are no
// strangers are left out.
func (c *crowd) settle(i int) {
	var around [2]int
	places := 0
	if c.around != nil {
		for _, w := range network.Network(c.keys[i]).Wider() {
			if at, ok := c.around.find(uint64(w)); ok {
				around[places] = at
				places++
			}
		}
	}
	for m := range c.meters {
		need := c.need(i, m)
		if need > 0 {
			c.peaks[m].add(c.demand(i)[m].most())
			for _, at := range around[:places] {
				need = max(need, c.around.need(at, m))
			}
			c.needs[m].add(need)
		}
		c.demand(i)[m] = demand{}
	}
}

// need is the limit of a stranger that would have let through what was asked of a meter
// from a place: the network around a caller may use a multiple of it. 0: nothing was asked,
// or not by strangers.
func (c *crowd) need(i, meter int) int64 {
	factor := int64(c.caller(i).factor)
	if factor == 0 {
		return 0
	}
	return (c.demand(i)[meter].most() + factor - 1) / factor
}

func (d *demand) most() int64 { return int64(max(d.peak, d.n)) }

// settleAll is for the end.
func (c *crowd) settleAll() {
	for i := range c.keys {
		if c.keys[i] != 0 {
			c.settle(i)
		}
	}
}
