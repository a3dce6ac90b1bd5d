package mint

import (
	"sync"
	"sync/atomic"
	"time"

	"stile/decide/internal/bucket"
	"stile/network"
)

const (
	// quorum is how many votes a step takes, each of another network.
	quorum = 64
	// voteEvery is how often a network has a vote.
	voteEvery = time.Hour
)

var voteTicks = bucket.Ticks(voteEvery)

// calibration moves the base price, so that the typical visitor solves in the time
// that the operator wants. Votes are collected in rounds of quorum. If more than half
// of a round found the puzzle too easy (or too hard) by half, it becomes one bit
// harder (easier): the median, taken by sign, so that a solve that took a minute
// weighs as much as one that took two seconds.
//
// A voter is a /24 or a /48, not an address: whoever has one IPv6 address has 65536
// networks. It has one vote an hour, and one a round however long that lasts. A farm
// that has more than half of the voters can move the base price, at most BaseRange
// bits from where the operator set it. (The table forgets the oldest of five votes
// that share a bucket: to vote twice takes four other voters, who might as well vote.)
type calibration struct {
	middle uint8 // as the operator set it
	target time.Duration
	bits   atomic.Uint32

	mu         sync.Mutex
	voters     *bucket.Table // At: the last vote; N: its round
	round      uint32
	votes      int
	easy, hard int
}

func (c *calibration) init(keys int, bits uint8, target time.Duration) {
	c.middle, c.target, c.round = bits, target, 1
	c.voters = bucket.New(keys)
	c.bits.Store(uint32(bits))
}

// BaseBits is the difficulty of one part at the base price.
func (l *Ledger) BaseBits() uint8 { return uint8(l.base.bits.Load()) }

// Solved tells how long a network took over a puzzle of so many bits a part at the
// base price. Challenges of a higher price and of a surge must be kept out. A solve of
// another difficulty than today's says nothing; neither does one that took no time,
// which only a clock can do.
func (l *Ledger) Solved(n network.Network, took time.Duration, bits uint8, now int64) {
	if n == 0 || took <= 0 || bits != l.BaseBits() {
		return
	}
	voter := n
	for _, wider := range n.Wider() {
		if wider != 0 {
			voter = wider
		}
	}
	l.base.vote(l.key(voter), took, bits, bucket.Tick(now))
}

func (c *calibration) vote(voter uint64, took time.Duration, bits uint8, tick uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if uint32(bits) != c.bits.Load() || !c.mayVoteLocked(voter, tick) {
		return
	}
	c.votes++
	// A step doubles or halves the time. With these margins the step after it does
	// not lead back.
	switch {
	case took < c.target*2/3:
		c.easy++
	case took > c.target*3/2:
		c.hard++
	}
	if c.votes < quorum {
		return
	}
	if c.easy > c.votes/2 && bits < c.middle+BaseRange {
		c.bits.Store(uint32(bits) + 1)
	}
	if c.hard > c.votes/2 && bits > c.middle-BaseRange {
		c.bits.Store(uint32(bits) - 1)
	}
	c.votes, c.easy, c.hard = 0, 0, 0
	c.round++
}

// mayVoteLocked tells whether a voter has a vote, and uses it up.
func (c *calibration) mayVoteLocked(voter uint64, tick uint32) bool {
	b, mu := c.voters.At(voter)
	mu.Lock()
	defer mu.Unlock()
	e := place(b, voter, tick)
	if e.N != 0 && e.Key == voter && (e.N == c.round || e.Age(tick) < voteTicks) {
		return false
	}
	*e = bucket.Entry{Key: voter, At: tick, N: c.round}
	return true
}

// len is the number of voters who have voted within the hour.
func (c *calibration) len(now int64) int {
	tick := bucket.Tick(now)
	return c.voters.Len(func(e *bucket.Entry) bool { return e.Age(tick) < voteTicks })
}
