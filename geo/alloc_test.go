//go:build !race

package geo

import (
	"net/netip"
	"testing"
)

func TestPlaceAllocatesNothing(t *testing.T) {
	asn, country := files(t)
	db, err := Open(asn, country)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range []string{"192.0.2.1", "2001:db8::1", "8.8.8.8"} {
		addr := netip.MustParseAddr(a)
		if n := testing.AllocsPerRun(1000, func() { db.Place(addr) }); n != 0 {
			t.Errorf("%s: %v allocations", a, n)
		}
	}
}
