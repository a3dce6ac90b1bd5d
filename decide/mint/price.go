package mint

import (
	"fmt"
	"math/bits"

	"stile/decide/internal/bucket"
	"stile/network"
)

const (
	// free is how many outstanding passes of a network leave the price alone: an
	// office behind one address opens a browser a few times an hour.
	free = 16
	// The networks around share their allowance, and are larger.
	freeAround = 8 * free  // /24, /56
	freeSite   = 32 * free // /48
)

// ErrPrice refuses a proof that was enough when its challenge was made: the price has
// risen since.
type ErrPrice struct{ Price uint8 } // in doublings

func (e ErrPrice) Error() string {
	return fmt.Sprintf("the price of a pass is now %d times the base: more parts are needed", 1<<e.Price)
}

// Price is what the next pass costs a network, in doublings of the base price, up to
// MaxDoublings. Asking costs nothing and changes nothing.
//
// The first 16 passes that are outstanding are at the base price, the next 16 cost
// double, the next 32 double again, and so on. A pass counts half after an hour, a
// quarter after two. Three things add to it:
//
//   - proofs of the network itself, without a limit but MaxDoublings;
//   - waits that it sat out, which cost no work: at most BaseRange, for others may sit
//     behind the same address;
//   - proofs of the networks around it, on allowances of 128 (/24, /56) and 512 (/48)
//     passes, whichever adds more: at most BaseRange. Waits of other networks add
//     nothing.
//
// A table forgets the smallest count of five that share a bucket. To have a count of c
// forgotten, and with it the price, somebody must bring three other networks that
// happen to share its bucket to c as well, which costs three times as much if he could
// know which networks those are; an hour forgets half of it for nothing.
func (l *Ledger) Price(n network.Network, now int64) uint8 { return l.priceOf(n, bucket.Tick(now)) }

func (l *Ledger) priceOf(n network.Network, tick uint32) uint8 {
	if n == 0 {
		return 0
	}
	key := l.key(n)
	proven := l.proven.count(key, tick)
	own := doublings(proven, free)
	own = min(doublings(proven+l.waited.count(key, tick), free), own+BaseRange)

	around := uint8(0)
	for i, wider := range n.Wider() {
		if wider == 0 {
			continue
		}
		others := l.around[i].count(l.key(wider), tick) - proven
		allowance := float32(freeAround)
		if i == 1 {
			allowance = freeSite
		}
		around = max(around, doublings(others, allowance))
	}
	return min(own+min(around, BaseRange), MaxDoublings)
}

// countProven counts one pass against one or two networks and those around them. A
// larger network that both lie in has had one pass, not two.
func (l *Ledger) countProven(both [2]network.Network, tick uint32) {
	var counted [2]network.Network
	for _, n := range both {
		if n == 0 {
			continue
		}
		l.proven.add(l.key(n), tick)
		for i, wider := range n.Wider() {
			if wider != 0 && wider != counted[i] {
				l.around[i].add(l.key(wider), tick)
				counted[i] = wider
			}
		}
	}
}

// doublings is 0 below the allowance, 1 up to twice, 2 up to four times as much.
func doublings(count, allowance float32) uint8 {
	if count < allowance {
		return 0
	}
	return uint8(min(bits.Len32(uint32(count/allowance)), MaxDoublings))
}
