package cookie

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"stile/key"
	"stile/network"
)

var testKey = key.Key{ID: 7, Secret: [32]byte{1, 2, 3}}

func newPasses(t testing.TB, k ...key.Key) *Passes {
	r, err := key.NewRing(k...)
	if err != nil {
		t.Fatal(err)
	}
	return New(r)
}

func TestPass(t *testing.T) {
	c := newPasses(t, testKey)
	home := network.Of(netip.MustParseAddr("192.0.2.1"))
	p := Pass{Level: 2, Expires: 1000, ID: [IDLen]byte{9, 8}, Proven: [4]uint32{c.Tag(7, home)}}
	v := c.Append(nil, &p)
	if len("stile=")+len(v) >= 120 || len(v) != ValueLen {
		t.Errorf("a pass is %d bytes", len(v))
	}
	var got Pass
	if err := c.Parse(v, 999, &got); err != nil {
		t.Fatal(err)
	}
	p.Key = 7
	if got != p {
		t.Errorf("got %+v, want %+v", got, p)
	}
	if err := c.Parse(v, 1000, &got); !errors.Is(err, ErrExpired) {
		t.Errorf("at its end: %v", err)
	}
	if !c.ProvenFrom(&p, home) || c.ProvenFrom(&p, home+1) {
		t.Error("proven networks")
	}
	p.Proven = [4]uint32{5, 6, 7, 8}
	if !c.ProvenFrom(&p, home+1) {
		t.Error("a pass proven from four networks does not roam")
	}
}

func TestParseBad(t *testing.T) {
	c := newPasses(t, testKey)
	good := string(c.Append(nil, &Pass{Level: 1, Expires: 1000}))
	f := func(name, value string, want error) {
		t.Helper()
		var p Pass
		if err := c.Parse([]byte(value), 1, &p); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", name, err, want)
		}
	}
	f("empty", "", ErrMalformed)
	f("short", good[:len(good)-1], ErrMalformed)
	f("long", good+"A", ErrMalformed)
	f("padding", good[:len(good)-1]+"=", ErrMalformed)
	f("line break", good[:10]+"\n"+good[11:], ErrMalformed)
	f("version", "B"+good[1:], ErrMalformed)
	// The last of 66 characters carries four bits that must be zero: one spelling.
	last := good[len(good)-1]
	for _, other := range []byte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_") {
		if other != last {
			var p Pass
			if err := c.Parse([]byte(good[:len(good)-1]+string(other)), 1, &p); err == nil {
				t.Errorf("ending in %c instead of %c is a second spelling", other, last)
			}
		}
	}
	for i := 4; i < len(good)-1; i++ { // every other change breaks the signature, the form or the expiry
		b := []byte(good)
		b[i] ^= 1
		var p Pass
		if err := c.Parse(b, 1, &p); err == nil {
			t.Errorf("a change at %d is accepted", i)
		}
	}
	f("another key", string(newPasses(t, key.Key{ID: 7, Secret: [32]byte{9}}).Append(nil, &Pass{Level: 1, Expires: 1000})), ErrForged)
	f("an unknown key", string(newPasses(t, key.Key{ID: 8, Secret: [32]byte{9}}).Append(nil, &Pass{Level: 1, Expires: 1000})), ErrForged)
	f("no level", string(c.Append(nil, &Pass{Level: 0, Expires: 1000})), ErrMalformed)
}

func TestRotation(t *testing.T) {
	old := newPasses(t, testKey)
	v := old.Append(nil, &Pass{Level: 1, Expires: 1000, Proven: [4]uint32{old.Tag(7, 42)}})
	now := newPasses(t, key.Key{ID: 8, Secret: [32]byte{4}}, testKey)
	var p Pass
	if err := now.Parse(v, 1, &p); err != nil || !now.ProvenFrom(&p, 42) {
		t.Errorf("after a rotation an old pass is worth nothing: %v", err)
	}
}

func TestFind(t *testing.T) {
	c := newPasses(t, testKey)
	low := string(c.Append(nil, &Pass{Level: 1, Expires: 1000}))
	high := string(c.Append(nil, &Pass{Level: 3, Expires: 1000}))
	old := string(c.Append(nil, &Pass{Level: 3, Expires: 5}))
	f := func(header string, level uint8) {
		t.Helper()
		var p Pass
		ok := c.Find([]byte(header), "stile", 10, &p)
		if ok != (level > 0) || ok && p.Level != level {
			t.Errorf("%q: found %v level %d, want level %d", header, ok, p.Level, level)
		}
	}
	f("", 0)
	f("stile="+low, 1)
	f("a=b; stile="+low+"; c=d", 1)
	f("stile="+old+"; stile="+low, 1)
	f("stile="+low+"; stile="+old, 1)
	f("stile="+low+"; stile="+high, 3)
	f("stile=; stile="+low, 1)
	f(`stile="`+low+`"`, 1)
	f(" stile = "+low, 1)
	f("xstile="+low, 0)
	f("stilex="+low, 0)
	f("stile", 0)
	f(strings.Repeat("stile=x; ", 7)+"stile="+low, 1)
	f(strings.Repeat("stile=x; ", 8)+"stile="+low, 0)
	f(strings.Repeat("other=x; ", 500)+"stile="+low, 1)
}

func TestWhy(t *testing.T) {
	c := newPasses(t, testKey)
	good := string(c.Append(nil, &Pass{Level: 1, Expires: 1000}))
	f := func(header string, want error) {
		t.Helper()
		if err := c.Why([]byte(header), "stile", 10); err != want {
			t.Errorf("%q: %v, want %v", header, err, want)
		}
	}
	f("", ErrNone)
	f("a=b; stilex="+good, ErrNone)
	f("a=b; stile="+good, nil)
	f("stile="+good[1:], ErrMalformed)
	f("stile="+string(c.Append(nil, &Pass{Level: 1, Expires: 5})), ErrExpired)
	f("stile="+string(newPasses(t, key.Key{ID: 7, Secret: [32]byte{9}}).Append(nil, &Pass{Level: 1, Expires: 1000})), ErrForged)
}

func TestAppendSet(t *testing.T) {
	got := string(AppendSet(nil, "stile", []byte("V"), 60, true))
	if got != "stile=V; Path=/; Max-Age=60; HttpOnly; SameSite=Lax; Secure" {
		t.Error(got)
	}
	if strings.Contains(string(AppendSet(nil, "stile", []byte("V"), 60, false)), "Secure") {
		t.Error("Secure over plain http")
	}
}

func FuzzFind(f *testing.F) {
	c := newPasses(f, testKey)
	f.Add("stile=" + string(c.Append(nil, &Pass{Level: 1, Expires: 1000})))
	f.Add("stile=\"; stile==;;=")
	f.Fuzz(func(t *testing.T, header string) {
		var p Pass
		if c.Find([]byte(header), "stile", 10, &p) && (p.Level < 1 || p.Level > 3 || p.Expires <= 10) {
			t.Errorf("%q: %+v", header, p)
		}
	})
}

func BenchmarkFind(b *testing.B) {
	c := newPasses(b, testKey)
	h := []byte("session=0123456789abcdef; stile=" + string(c.Append(nil, &Pass{Level: 1, Expires: 1000})))
	b.ReportAllocs()
	for b.Loop() {
		var p Pass
		if !c.Find(h, "stile", 10, &p) {
			b.Fatal()
		}
	}
}
