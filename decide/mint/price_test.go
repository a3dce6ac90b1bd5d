package mint

import (
	"math"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"stile/decide/internal/bucket"
	"stile/network"
)

var start = time.Date(2026, 5, 1, 10, 0, 0, 12_345_678, time.UTC).UnixNano()

func at(d time.Duration) int64 { return start + int64(d) }

func net(addr string) network.Network { return network.Of(netip.MustParseAddr(addr)) }

// v4 is the i-th address of a sparse sequence, no two in one /24; v6 likewise, no two
// in one /48.
func v4(i int) network.Network {
	return network.Of(netip.AddrFrom4([4]byte{10 + byte(i>>16), byte(i >> 8), byte(i), 1}))
}

func v6(i int) network.Network {
	return network.Of(netip.AddrFrom16([16]byte{0x20, 1, byte(i >> 24), byte(i >> 16), byte(i >> 8), byte(i)}))
}

// client mints passes with challenges that nobody has used.
type client struct {
	t    testing.TB
	l    *Ledger
	next uint64
}

// mint has a network redeem n proofs at whatever price.
func (c *client) mint(by network.Network, n int, now int64) {
	c.t.Helper()
	for range n {
		c.next++
		if first, err := c.l.mint(c.next, by, by, now); !first || err != nil {
			c.t.Fatalf("mint: first = %v, err = %v", first, err)
		}
	}
}

func newLedger(t testing.TB, o Options) (*Ledger, *client) {
	l := New(o)
	return l, &client{t: t, l: l}
}

// many is a day's ceiling that is not in the way.
const many = 1 << 30

func TestPriceOfOwnPasses(t *testing.T) {
	for _, n := range []network.Network{net("192.0.2.1"), net("2001:db8::1")} {
		l, c := newLedger(t, Options{PerNetworkDay: many})
		minted := 0
		f := func(have int, want uint8) {
			t.Helper()
			c.mint(n, have-minted, start)
			minted = have
			if p := l.Price(n, start); p != want {
				t.Errorf("with %d passes the next costs %d doublings, want %d", have, p, want)
			}
		}
		f(0, 0)
		f(15, 0) // the next is the 16th
		f(16, 1) // the next is the 17th
		f(31, 1)
		f(32, 2)
		f(63, 2)
		f(64, 3)
		f(127, 3)
		f(128, 4)
		f(255, 4)
		f(256, 5)
		f(5000, MaxDoublings)
	}
}

func TestPriceFallsByItself(t *testing.T) {
	l, c := newLedger(t, Options{PerNetworkDay: many})
	n := net("192.0.2.1")
	c.mint(n, 256, start)
	f := func(after time.Duration, want uint8) {
		t.Helper()
		if p := l.Price(n, at(after)); p != want {
			t.Errorf("after %v: %d doublings, want %d", after, p, want)
		}
	}
	f(0, 5)
	f(time.Second, 4)
	f(59*time.Minute, 4)
	f(61*time.Minute, 3)
	f(121*time.Minute, 2)
	f(181*time.Minute, 1)
	f(241*time.Minute, 0)
	f(1000*time.Hour, 0)
}

func TestPriceOfNetworksAround(t *testing.T) {
	f := func(victim string, neighbour func(i int) network.Network, minted int, want uint8) {
		t.Helper()
		l, c := newLedger(t, Options{PerNetworkDay: many})
		for i := range minted {
			c.mint(neighbour(i), 1, start)
		}
		if p := l.Price(net(victim), start); p != want {
			t.Errorf("%s with %d passes around it: %d doublings, want %d", victim, minted, p, want)
		}
	}
	in24 := func(i int) network.Network {
		return network.Of(netip.AddrFrom4([4]byte{192, 0, 2, byte(2 + i%200)}))
	}
	in56 := func(i int) network.Network {
		return network.Of(netip.AddrFrom16([16]byte{0x20, 1, 0xd, 0xb8, 0, 0, 0, byte(2 + i%200)}))
	}
	in48 := func(i int) network.Network {
		return network.Of(netip.AddrFrom16([16]byte{0x20, 1, 0xd, 0xb8, 0, 0, byte(1 + i%200), 0}))
	}
	f("192.0.2.1", in24, 127, 0)
	f("192.0.2.1", in24, 128, 1)
	f("192.0.2.1", in24, 256, 2)
	f("192.0.2.1", in24, 5000, 2)
	f("192.0.3.1", in24, 5000, 0)
	f("2001:db8::", in56, 127, 0)
	f("2001:db8::", in56, 128, 1)
	f("2001:db8::", in56, 511, 2)
	f("2001:db8::", in56, 5000, 2)
	f("2001:db8::", in48, 511, 0)
	f("2001:db8::", in48, 512, 1)
	f("2001:db8::", in48, 1024, 2)
	f("2001:db8::", in48, 5000, 2)
	f("2001:db8:1::", in48, 5000, 0)
}

// A pass that is asked for here and redeemed next door is one pass of the /24.
func TestLargerNetworkCountsAPassOnce(t *testing.T) {
	l := New(Options{PerNetworkDay: many})
	for i := range uint64(127) {
		l.mint(i, net("192.0.2.7"), net("192.0.2.8"), start)
	}
	if p := l.Price(net("192.0.2.1"), start); p != 0 {
		t.Errorf("127 passes around: %d doublings, want 0", p)
	}
	l.mint(127, net("192.0.2.7"), net("192.0.2.8"), start)
	if p := l.Price(net("192.0.2.1"), start); p != 1 {
		t.Errorf("128 passes around: %d doublings, want 1", p)
	}
}

func TestPriceOfNoNetwork(t *testing.T) {
	l := New(Options{})
	for i := range uint64(100) {
		if first, err := l.mint(i, 0, 0, start); !first || err != nil {
			t.Fatal("no network cannot mint")
		}
	}
	if p := l.Price(0, start); p != 0 {
		t.Errorf("no network pays %d doublings", p)
	}
}

// Against float64 in a map: adds and reads at random times.
func TestTallyModel(t *testing.T) {
	const keys = 100
	r := rand.New(rand.NewPCG(1, 2))
	ty := newTally(65536)
	want, last, now := [keys]float64{}, [keys]uint32{}, uint32(0)
	decay := func(k int) {
		want[k] *= math.Exp2(-float64(now-last[k]) / (3600 * 16))
		last[k] = now
	}
	for range effort * 25_000 {
		k := r.IntN(keys)
		key := uint64(k) * 0x9E3779B97F4A7C15
		now += r.Uint32N(100)
		decay(k)
		if r.IntN(2) == 0 {
			ty.add(key, now)
			want[k]++
		}
		if got := float64(ty.count(key, now)); math.Abs(got-want[k]) > 1e-3*(1+want[k]) {
			t.Fatalf("count %v, want %v", got, want[k])
		}
	}
}

func TestTallyStaysFinite(t *testing.T) {
	ty := newTally(4)
	b, _ := ty.entries.At(1)
	b[0] = bucket.Entry{Key: 1, N: math.Float32bits(1 << 24)}
	for range 10 {
		ty.add(1, 0)
	}
	if n := ty.count(1, 0); n != 1<<24 || doublings(n, free) != MaxDoublings {
		t.Errorf("at its largest a count is %v", n)
	}
}
