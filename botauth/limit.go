package botauth

import (
	"sync"

	"stile/network"
)

// What wrong signatures may cost. The check of one takes some 80 µs (BenchmarkVerify/wrong),
// and key names are public: without a limit a flood of nonsense under a known name would
// take a whole core for every 12,000 a second.
const (
	// wrongPerNetwork is how many wrong signatures of one network are looked at in a minute.
	wrongPerNetwork = 20
	// wrongPerSecond is how many of all networks are in a second: less than 2 % of a core. A
	// network that has sent a good one in the last hour is not counted here, so that a
	// flood does not shut an agent out.
	wrongPerSecond = 200
	trustedFor     = 3600
)

const (
	limitSets = 1024
	limitWays = 4
)

// limit counts wrong signatures in a table of fixed size. It is safe for concurrent use.
type limit struct {
	mu     sync.Mutex
	seed   uint64
	second int64
	all    int // in that second
	sets   [limitSets][limitWays]tried
}

type tried struct {
	from    network.Network
	minute  int64
	wrong   int   // in that minute
	trusted int64 // until, Unix seconds
	used    int64 // last
}

// find is the entry of a network, or the place for it: that of one that is not trusted,
// if there is any, and was used least recently.
func (l *limit) find(from network.Network, now int64) *tried {
	set := &l.sets[(uint64(from)^l.seed)*0x9E3779B97F4A7C15>>54] // limitSets is 2^10
	worst := &set[0]
	for i := range set {
		e := &set[i]
		if e.from == from && e.used != 0 {
			return e
		}
		if kept, less := e.trusted > now, worst.trusted > now; less && !kept || less == kept && e.used < worst.used {
			worst = e
		}
	}
	*worst = tried{from: from}
	return worst
}

// try counts a signature as wrong until good says otherwise, or refuses to.
func (l *limit) try(from network.Network, now int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.second != now {
		l.second, l.all = now, 0
	}
	e := l.find(from, now)
	e.used = now
	if minute := now / 60; e.minute != minute {
		e.minute, e.wrong = minute, 0
	}
	switch {
	case e.wrong >= wrongPerNetwork:
		return false
	case e.trusted > now:
	case l.all >= wrongPerSecond:
		return false
	default:
		l.all++
	}
	e.wrong++
	return true
}

// good takes back what try counted, and trusts the network for a while.
func (l *limit) good(from network.Network, now int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.find(from, now)
	if e.wrong > 0 {
		e.wrong--
	}
	if e.trusted <= now && l.second == now && l.all > 0 {
		l.all--
	}
	e.trusted, e.used = now+trustedFor, now
}
