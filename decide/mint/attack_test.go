package mint

import (
	"errors"
	"math/rand/v2"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"stile/decide/internal/bucket"
	"stile/network"
)

// What the author of a scraper tries who has read the source.

// "I make the site dear for my victim from the networks around it": never by more
// than BaseRange, and with waits and junk not at all.
func TestAttackNeighbours(t *testing.T) {
	around := map[string]func(r *rand.Rand) network.Network{
		"192.0.2.1": func(r *rand.Rand) network.Network {
			return network.Of(netip.AddrFrom4([4]byte{192, 0, 2, byte(2 + r.IntN(250))}))
		},
		"2001:db8:0:1::": func(r *rand.Rand) network.Network {
			return network.Of(netip.AddrFrom16([16]byte{0x20, 1, 0xd, 0xb8, 0, 0, byte(r.IntN(3)), byte(2 + r.IntN(250))}))
		},
	}
	for victim, stranger := range around {
		r := rand.New(rand.NewPCG(1, 2))
		l, c := newLedger(t, Options{PerNetworkDay: 500})
		alone, ca := newLedger(t, Options{PerNetworkDay: 500}) // the victim without them
		v, now := net(victim), start
		for i := range effort * 7_500 {
			now += r.Int64N(int64(200 * time.Millisecond))
			n := stranger(r)
			c.next++
			switch r.IntN(6) {
			case 0:
				l.Wait(n, now)
			case 1:
				l.sitOut(n, r.Uint64N(5), now)
			case 2:
				l.MintPaid(c.next, n, stranger(r), uint8(r.IntN(6)), now)
			case 3:
				l.mint(r.Uint64N(c.next), n, n, now)
			default:
				l.mint(c.next, n, stranger(r), now)
			}
			if i%500 == 0 { // the victim comes too, now and then
				c.mint(v, 1, now)
				ca.mint(v, 1, now)
			}
			if got, want := l.Price(v, now), alone.Price(v, now); got > want+BaseRange {
				t.Fatalf("%s pays %d, alone %d", victim, got, want)
			}
		}
	}
}

func TestAttackNeighboursWithJunkAndWaits(t *testing.T) {
	l, c := newLedger(t, Options{PerNetworkDay: 1000})
	victim, poor := net("192.0.2.1"), net("192.0.2.2")
	c.mint(poor, 100, start) // of the victim's /24, at a price
	tick := bucket.Tick(start)
	account := func() [4]float32 {
		return [4]float32{
			l.proven.count(l.key(victim), tick), l.waited.count(l.key(victim), tick),
			l.around[0].count(l.key(victim.Wider()[0]), tick), float32(l.Price(victim, start)),
		}
	}
	before := account()
	if p := l.Price(victim, start); p != 0 {
		t.Fatalf("price %d before the attack", p)
	}
	for i := range uint64(effort * 12_500) {
		n := net("192.0.2.2") + network.Network(i%250)
		l.mint(i%c.next+1, n, n, start)         // replays
		l.MintPaid(1<<40+i, poor, n, 0, start)  // proofs below the price
		l.Wait(n, start)                        // waits begun
		l.sitOut(n, i, start)                   // waits not over
		l.Price(n, start)                       // challenges
		l.JustWaited(n, i, start)               //
		l.Solved(n, 1, l.BaseBits(), start)     // votes
		l.sitOut(n, i, at(10100000000))         // and waits sat out
		l.Wait(n, at(10100000000))              //
		l.sitOut(n, i, at(2*10100000000+1<<27)) //
	}
	if after := account(); after != before {
		t.Errorf("the victim's account was %v, is %v", before, after)
	}
}

// "I share a carrier's address with my victim, and only wait": at most BaseRange, of
// a price that proofs of the same address could raise without that limit.
func TestAttackWaitsBehindOneAddress(t *testing.T) {
	l, n := New(Options{PerNetworkDay: many}), net("192.0.2.1")
	now, waits := start, 0
	for range 24 * 360 {
		now = l.Wait(n, now)
		if l.sitOut(n, 1, now) == nil {
			waits++
		}
		if p := l.Price(n, now); p > BaseRange {
			t.Fatalf("after %d waits a proof costs %d doublings", waits, p)
		}
	}
	if p := l.Price(n, now); p != BaseRange {
		t.Errorf("a day of waits raises the price by %d, want %d", p, BaseRange)
	}
	if waits != 24*360 || now < at(24*time.Hour) {
		t.Errorf("%d waits of 10 s in %v", waits, time.Duration(now-start))
	}
	c := &client{t: t, l: l, next: 1 << 40}
	c.mint(n, 64, now)
	if p := l.Price(n, now); p != 5 { // 3 of its own and 2 for the waits
		t.Errorf("64 proofs and a day of waits: %d doublings, want 5", p)
	}
}

// "I spray networks until my count is forgotten": passes from two hundred thousand
// other networks do not do it.
func TestAttackForgetMeBySpray(t *testing.T) {
	l, c := newLedger(t, Options{Keys: 16384, PerNetworkDay: many})
	var mine []network.Network
	for i := range 200 {
		mine = append(mine, v6(i))
		c.mint(v6(i), 20+i, start)
	}
	for i := range effort * 12_500 {
		c.mint(v4(i), 1, start)
		c.mint(v6(1000+i), 1, start)
	}
	forgotten := 0
	for i, n := range mine {
		if p := l.Price(n, start); p != doublings(float32(20+i), free) {
			forgotten++
		}
	}
	if forgotten > 1 { // 200 in 4096 buckets: four together once in 3000 tables
		t.Errorf("%d of %d heavy networks were forgotten", forgotten, len(mine))
	}
}

// "And if I could see the seed?" Then forgetting a count of c costs at least 3c
// passes elsewhere.
func TestAttackForgetMeKnowingTheSeed(t *testing.T) {
	const mine = 50
	l, c := newLedger(t, Options{Keys: 4096, PerNetworkDay: many})
	me := v4(0)
	c.mint(me, mine, start)
	home, _ := l.proven.entries.At(l.key(me))
	var roommates []network.Network
	for i := 1; len(roommates) < 4; i++ {
		if b, _ := l.proven.entries.At(l.key(v4(i))); b == home {
			roommates = append(roommates, v4(i))
		}
	}
	kept := func() bool { return l.proven.count(l.key(me), bucket.Tick(start)) == mine }
	for _, n := range roommates[:3] {
		c.mint(n, mine-1, start)
	}
	for range 1000 {
		c.mint(roommates[3], 1, start) // takes the place of a roommate with 49
		c.mint(roommates[0], 1, start)
		if !kept() {
			t.Fatalf("a count of %d was forgotten for less than three others of as much", mine)
		}
	}
	// So it is with three others of as much, and one that comes new.
	for _, n := range roommates[:3] {
		c.mint(n, mine+1, start)
	}
	c.mint(roommates[3], 1, start)
	c.mint(roommates[3], 1, start)
	if kept() {
		t.Error("the guarantee is better than documented: say so")
	}
}

// "I fetch ten thousand challenges at the base price and redeem them later": each
// meets the price that those before it have left, also if all are posted at once.
func TestAttackHoard(t *testing.T) {
	const hoard, rounds = 64, effort * 50
	networks := 0
	for name, by := range map[string]func(round, i int) (asked, redeemed network.Network){
		"from one network": func(round, _ int) (network.Network, network.Network) { return v6(round), v6(round) },
		"asked through a farm": func(round, _ int) (network.Network, network.Network) {
			networks++
			return v4(networks), v6(round)
		},
		"redeemed through a farm": func(round, _ int) (network.Network, network.Network) {
			networks++
			return v6(round), v4(networks)
		},
	} {
		l := New(Options{PerNetworkDay: many})
		for round := range rounds {
			var pairs [hoard][2]network.Network
			for i := range pairs {
				pairs[i][0], pairs[i][1] = by(round, i)
			}
			var cheap, dear atomic.Int64
			var wg sync.WaitGroup
			for g := range 4 {
				wg.Go(func() {
					for i := g; i < hoard; i += 4 {
						first, err := l.MintPaid(uint64(round*hoard+i), pairs[i][0], pairs[i][1], 0, start)
						price := ErrPrice{}
						switch {
						case first && err == nil:
							cheap.Add(1)
						case !first && errors.As(err, &price):
							dear.Add(1)
						default:
							t.Errorf("%s: first = %v, err = %v", name, first, err)
						}
					}
				})
			}
			wg.Wait()
			if cheap.Load() != free || dear.Load() != hoard-free {
				t.Fatalf("%s, round %d: %d at the base price, want %d", name, round, cheap.Load(), free)
			}
		}
	}
}

// "I post so many at once that the ceiling counts some of them late."
func TestAttackCeilingAtOnce(t *testing.T) {
	const perDay = 100
	l := New(Options{PerNetworkDay: perDay})
	var passes, refused atomic.Int64
	var wg sync.WaitGroup
	for range 8 { // each posts every challenge, so each is posted eight times
		wg.Go(func() {
			for i := range uint64(4 * perDay) {
				first, err := l.mint(i, v4(1), v4(1+int(i%2)), start)
				if first {
					passes.Add(1)
				}
				if err != nil {
					refused.Add(1)
				} else if i >= perDay*2 {
					t.Error("a challenge beyond the ceiling was good for a pass")
				}
			}
		})
	}
	wg.Wait()
	if passes.Load() != perDay {
		t.Errorf("%d passes, want %d (%d refusals)", passes.Load(), perDay, refused.Load())
	}
}

// "I overflow the memory of challenges and replay": the replay counts again, against
// me alone, and the memory stays what it was.
func TestAttackOverflowSeen(t *testing.T) {
	l, c := newLedger(t, Options{Keys: 1024, PerNetworkDay: many})
	me, victim := v4(1), v4(2)
	again := 0
	for i := range uint64(20_000) {
		l.mint(1<<40+i, me, me, start)
	}
	for i := range uint64(20_000) {
		if first, _ := l.mint(1<<40+i, me, me, start); first {
			again++
		}
	}
	if again == 0 {
		t.Error("BUG: the table did not overflow, so nothing was tried")
	}
	tick := bucket.Tick(start)
	if n := l.proven.count(l.key(me), tick); n != float32(20_000+again) {
		t.Errorf("I pay for %v passes, want %d", n, 20_000+again)
	}
	if p := l.Price(victim, start); p != 0 {
		t.Errorf("somebody else pays %d", p)
	}
	// A visitor who solved just now is still remembered: the oldest have to go.
	c.next = 1 << 50
	c.mint(victim, 1, at(time.Second))
	for i := range uint64(32) {
		l.mint(1<<51+i, me, me, at(time.Second))
	}
	if first, _ := l.mint(1<<50+1, victim, victim, at(2*time.Second)); first {
		t.Error("the newest challenge was forgotten before old ones")
	}
}

// "I wait in parallel": one outstanding, and spraying the table to lose my own slot
// only makes me begin again. Whatever is done, a network has at most one wait in
// every WaitFor.
func TestAttackManyWaits(t *testing.T) {
	const long = 10 * time.Second
	for _, keys := range []int{4, 64, 65536} {
		r := rand.New(rand.NewPCG(uint64(keys), 1))
		l := New(Options{Keys: keys, PerNetworkDay: many})
		me, now, redeemed := net("192.0.2.1"), start, 0
		var last int64
		for range effort * 12_500 {
			now += r.Int64N(int64(200 * time.Millisecond))
			switch r.IntN(8) {
			case 0, 1, 2:
				l.Wait(me, now)
			case 3, 4:
				if l.sitOut(me, r.Uint64(), now) == nil {
					if redeemed++; redeemed > 1 && now-last < int64(long) {
						t.Fatalf("keys %d: two waits redeemed within %v", keys, time.Duration(now-last))
					}
					last = now
				}
			default:
				l.Wait(v4(r.IntN(40)), now)
			}
		}
		t.Logf("%d entries: %d waits redeemed in %v", keys, redeemed, time.Duration(now-start))
		if limit := int((now - start) / int64(long)); redeemed > limit {
			t.Errorf("keys %d: %d waits redeemed, at most %d", keys, redeemed, limit)
		}
	}
}

// "I spray the table so that nobody can wait": a quarter of Options.Keys networks in
// every WaitFor costs one wait in 40.
func TestAttackSprayWaits(t *testing.T) {
	const keys, waiters = 65536, 1000
	l := New(Options{Keys: keys})
	for i := range waiters {
		l.Wait(v6(i), start)
	}
	for i := range keys / 4 {
		l.Wait(v4(i), at(time.Duration(i)*10*time.Second/(keys/4)))
	}
	lost := 0
	for i := range waiters {
		if l.sitOut(v6(i), 1, at(11*time.Second)) != nil {
			lost++
		}
	}
	if lost > waiters/25 {
		t.Errorf("%d of %d waits lost to a spray of a quarter of the table", lost, waiters)
	}
	t.Logf("%d of %d waits lost", lost, waiters)
}

// Steps of the clock: back for a day, prices and ceilings neither vanish nor last
// longer than they would from the step on; forward, they end early.
func TestAttackClock(t *testing.T) {
	l, c := newLedger(t, Options{PerNetworkDay: 200})
	n := v4(1)
	c.mint(n, 200, start)
	l.Wait(n, start)
	back := -24 * time.Hour
	if p := l.Price(n, at(back)); p != 4 {
		t.Errorf("a day back: %d doublings, want 4", p)
	}
	if p := l.Price(n, at(back+time.Hour)); p > 3 {
		t.Errorf("an hour after the step: %d doublings", p)
	}
	full := ErrCeiling{}
	if _, err := l.mint(1<<40, n, n, at(back)); !errors.As(err, &full) || full.Retry <= 0 || full.Retry > day {
		t.Errorf("a day back, at the ceiling: %v", err)
	}
	if _, err := l.mint(1<<40, n, n, at(back+day)); err != nil {
		t.Errorf("a day after the step: %v", err)
	}

	// A wait begins again, and is over in time.
	l = New(Options{})
	l.Wait(n, start)
	ready := l.Wait(n, at(back))
	if d := time.Duration(ready - at(back)); d < 10*time.Second || d > 10*time.Second+bucket.TickLength {
		t.Errorf("after the step a wait takes %v", d)
	}
	if err := l.sitOut(n, 1, ready); err != nil {
		t.Errorf("the wait after the step: %v", err)
	}

	// What was minted before the step is not minted again after it. A vote is not had
	// twice.
	l, c = newLedger(t, Options{})
	c.mint(n, 1, start)
	if first, _ := l.mint(c.next, n, n, at(-time.Minute)); first {
		t.Error("minted twice by a step back")
	}
	for _, d := range []time.Duration{0, time.Minute, back, -time.Second} {
		vote(l, 0, 40, easy, at(d))
	}
	if l.base.votes != 40 {
		t.Errorf("40 voters have %d votes", l.base.votes)
	}
}

// "I vote with a farm": it can have its way within BaseRange, no more, and not
// against more honest voters than it has.
func TestAttackVotes(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for _, took := range []time.Duration{1, time.Hour} {
		l := New(Options{Base: 17, Keys: 256})
		now := start
		for range effort * 25_000 { // more voters than the table has entries
			now += r.Int64N(int64(time.Second))
			l.Solved(v4(r.IntN(1<<16)), took, l.BaseBits(), now)
			if b := l.BaseBits(); b < 17-BaseRange || b > 17+BaseRange {
				t.Fatalf("voted to %d bits", b)
			}
		}
	}
	// A third of the voters are the farm, and honest ones see the right time. Rounds
	// that the farm wins by luck are won back; the mean stays.
	l, now, off := New(Options{Base: 17}), start, 0
	for range effort * 40_000 {
		now += int64(30 * time.Millisecond)
		bits := int(l.BaseBits())
		honest := time.Second * (1 << bits) / (1 << 17)
		if who := r.IntN(30_000); who < 10_000 {
			l.Solved(v4(who), 1, uint8(bits), now)
		} else {
			l.Solved(v4(who), honest, uint8(bits), now)
		}
		if bits != 17 {
			off++
		}
	}
	if off > effort*40_000/20 {
		t.Errorf("a third of the voters kept the base price off for %d of %d solves", off, effort*40_000)
	}
}
