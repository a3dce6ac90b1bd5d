package crawler

import (
	"context"
	"fmt"
	"net/netip"
	"sync"
	"testing"
	"time"

	"stile/crawler/dnstest"
)

// clock is a checker whose time a test moves, and whose lookups it lets happen.
type clock struct {
	*Checker
	t   *testing.T
	now time.Time
}

func newClock(t *testing.T, z *dnstest.Zone) *clock {
	c := &clock{t: t, now: now}
	c.Checker = NewChecker(load(t, ""), NewResolver(z.Addr), func() time.Time { return c.now })
	return c
}

func (c *clock) is(agent, addr, want string) {
	c.t.Helper()
	if got := c.Claim(agent, netip.MustParseAddr(addr), c.now.UnixNano()); got.String() != want {
		c.t.Errorf("%s from %s: %s, want %s", agent, addr, got, want)
	}
}

func (c *clock) queued(want int) {
	c.t.Helper()
	if n, _ := c.Queue(); n != want {
		c.t.Errorf("%d lookups wait, want %d", n, want)
	}
}

func TestAnswersHoldForATime(t *testing.T) {
	z := dnstest.New(t, dnstest.Reverse("192.0.2.1", "s.yandex.com."), "s.yandex.com. 60 IN A 192.0.2.1")
	z.Break("3.2.0.192.in-addr.arpa.")
	c := newClock(t, z)
	look := func() { c.LookUp(t.Context()) }

	// Verified: a day, and while it is asked again.
	c.is("YandexBot", "192.0.2.1", "pending")
	c.is("YandexBot", "192.0.2.1", "pending")
	c.queued(1)
	look()
	c.queued(0)
	c.is("YandexBot", "192.0.2.1", "yandex")
	c.is("YandexBot", "::ffff:192.0.2.1", "yandex")
	c.queued(0)
	c.now = c.now.Add(verifiedTime + time.Minute)
	c.is("YandexBot", "192.0.2.1", "yandex")
	c.queued(1)
	look()
	c.now = c.now.Add(verifiedTime - time.Minute)
	c.is("YandexBot", "192.0.2.1", "yandex")
	c.queued(0)
	c.now = c.now.Add(verifiedTime) // long gone: it waits again
	c.is("YandexBot", "192.0.2.1", "pending")
	look()

	// Spoofed: an hour. The same address in another name is another question.
	c.is("YandexBot", "192.0.2.2", "pending")
	look()
	c.is("YandexBot", "192.0.2.2", "spoofed")
	c.is("SeznamBot", "192.0.2.2", "pending")
	look()
	c.is("SeznamBot", "192.0.2.2", "spoofed")
	c.now = c.now.Add(spoofedTime + graceTime)
	c.is("YandexBot", "192.0.2.2", "pending")
	look()

	// Unknown: a minute, and then it is asked again without waiting.
	c.is("YandexBot", "192.0.2.3", "pending")
	look()
	c.is("YandexBot", "192.0.2.3", "unknown")
	c.queued(0)
	c.now = c.now.Add(unknownTime + time.Second)
	c.is("YandexBot", "192.0.2.3", "unknown")
	c.queued(1)
	look()

	// Another resolver says everything anew.
	c.SetResolver(NewResolver(z.Addr))
	c.is("YandexBot", "192.0.2.1", "pending")
	c.SetLists(c.Lists())
	look()
	c.is("YandexBot", "192.0.2.1", "yandex")
	if c.Lookups(ResultVerified) == 0 || c.Lookups(ResultSpoofed) == 0 || c.Lookups(ResultFailed) == 0 || c.Checks(Find("yandex"), Verified) == 0 {
		t.Error("nothing is counted")
	}
}

// An imitator who has many addresses, and many names to dress up in, takes the places of
// his own networks only.
func TestQueueIsFair(t *testing.T) {
	c := newClock(t, dnstest.New(t))
	for i := range 1000 {
		agent := []string{"YandexBot", "SeznamBot", "PetalBot", "YandexBot SeznamBot"}[i%4]
		c.is(agent, fmt.Sprintf("192.0.2.%d", i%250), "pending")
		c.is(agent, fmt.Sprintf("2001:db8:0:%x::%x", i, i), "pending")
	}
	c.queued(2 * perNetwork)
	c.is("YandexBot", "198.51.100.1", "pending")
	c.queued(2*perNetwork + 1)
	if c.Lookups(ResultDropped) == 0 {
		t.Error("what is dropped is not counted")
	}
	// Whoever has all networks fills it, and it does not grow.
	for i := range 1000 {
		c.is("YandexBot", fmt.Sprintf("203.%d.%d.1", i/250, i%250), "pending")
	}
	c.queued(queueSize)
	// Once the lookups are done there is room again.
	c.LookUp(t.Context())
	c.queued(0)
	c.is("YandexBot", "192.0.2.0", "spoofed")
}

// A spray of imitators does not push a crawler out of the cache.
func TestCacheKeepsCrawlers(t *testing.T) {
	c := newCache()
	until := now.Add(verifiedTime).UnixNano()
	good := netip.MustParseAddr("192.0.2.1")
	c.put(good, 1, Claim{Verified, 1}, until)
	for i := range 10 * cacheSize {
		a := netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)})
		c.put(a, 1, Claim{Spoofed, 1}, now.Add(spoofedTime).UnixNano())
	}
	if claim, _, ok := c.get(good, 1); !ok || claim.State != Verified {
		t.Errorf("%v %v", claim, ok)
	}
	if n := c.len(now.UnixNano()); n > cacheSize || n < cacheSize*9/10 {
		t.Errorf("%d answers of %d", n, cacheSize)
	}
	if n := c.len(now.Add(2 * spoofedTime).UnixNano()); n != 1 {
		t.Errorf("%d answers hold", n)
	}
	c.clear()
	if _, _, ok := c.get(good, 1); ok {
		t.Error("it has not forgotten")
	}
}

// Workers, checks and reloads at the same time.
func TestCheckerConcurrently(t *testing.T) {
	z := dnstest.New(t, dnstest.Reverse("192.0.2.1", "s.yandex.com."), "s.yandex.com. 60 IN A 192.0.2.1")
	c := NewChecker(load(t, ""), NewResolver(z.Addr), nil)
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	all.Go(func() { c.Run(ctx) })
	var askers sync.WaitGroup
	for g := range 4 {
		askers.Go(func() {
			for i := range 200 {
				c.Claim("YandexBot", netip.AddrFrom4([4]byte{192, 0, byte(g), byte(i)}), time.Now().UnixNano())
				if i%50 == 0 {
					c.SetLists(c.Lists())
					c.SetResolver(NewResolver(z.Addr))
				}
			}
		})
	}
	askers.Wait()
	cancel()
	all.Wait()
}

func TestDropsAfterTheEnd(t *testing.T) {
	z := dnstest.New(t)
	c := newClock(t, z)
	c.is("YandexBot", "192.0.2.1", "pending")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	c.LookUp(ctx)
	c.is("YandexBot", "192.0.2.1", "pending") // a lookup that was cut short says nothing
}

func BenchmarkClaim(b *testing.B) {
	lists, err := Load("", 0, now)
	if err != nil {
		b.Fatal(err)
	}
	c := NewChecker(lists, NewResolver("127.0.0.1:1"), nil)
	spoofer := netip.MustParseAddr("192.0.2.1")
	c.cache.put(spoofer, Claimed("YandexBot"), Claim{Spoofed, Find("yandex")}, 1<<62)
	for name, q := range map[string]struct{ agent, addr string }{
		"browser":   {firefox, "192.0.2.1"},
		"by list":   {"Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)", "66.249.66.1"},
		"by memory": {"Mozilla/5.0 (compatible; YandexBot/3.0; +http://yandex.com/bots)", "192.0.2.1"},
	} {
		b.Run(name, func(b *testing.B) {
			a := netip.MustParseAddr(q.addr)
			b.ReportAllocs()
			for b.Loop() {
				c.Claim(q.agent, a, 1)
			}
		})
	}
}
