package mint

import (
	"stile/decide/internal/bucket"
	"stile/network"
)

// MintPaid counts the pass that a challenge's proof earns, against the network that
// asked for the challenge and the one that redeems it. paid is the price that the
// proof has met, in doublings, without what was asked for other reasons.
//
// A challenge counts once, whoever posts it again, at once or later: for it first is
// false, and nothing is looked at or counted. That is remembered for as long as a
// challenge lives, except that the table (Options.Keys) forgets the oldest of five
// that share a bucket. A challenge that was forgotten counts once more, against those
// who post it; its pass is the same pass.
//
// Otherwise the price is looked at again, for both networks, and then the ceiling:
// ErrPrice or ErrCeiling, with which nothing has been counted or remembered. Price,
// ceiling and count are one step: of many proofs redeemed at once, each meets the
// price that those before it have left.
//
// A network of 0 is left out.
func (l *Ledger) MintPaid(challenge uint64, asked, redeemed network.Network, paid uint8, now int64) (first bool, err error) {
	lanes := l.lock(asked, redeemed)
	first, err = l.mintLocked(l.keyOf(0, challenge), asked, redeemed, paid, now)
	unlockLanes(lanes)
	return first, err
}

// mintLocked wants the lanes of both networks. All posts of one challenge meet on the
// lane of asked, which the challenge itself names.
func (l *Ledger) mintLocked(challenge uint64, asked, redeemed network.Network, paid uint8, now int64) (bool, error) {
	tick := bucket.Tick(now)
	if l.seen.has(challenge, tick) {
		return false, nil
	}
	both := [2]network.Network{asked, redeemed}
	if asked == redeemed {
		both[1] = 0
	}
	for _, n := range both {
		if price := l.priceOf(n, tick); paid < price {
			return false, ErrPrice{Price: price}
		}
	}
	for _, n := range both {
		if err := l.ceiling(n, byProof, now); err != nil {
			return false, err
		}
	}
	l.seen.mark(challenge, tick)
	for _, n := range both {
		l.countDay(n, byProof, now)
	}
	l.countProven(both, tick)
	return true, nil
}
