package geo

import (
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"stile/geo/geotest"
)

func files(t testing.TB) (asn, country string) {
	dir := t.TempDir()
	asn, country = filepath.Join(dir, "asn.mmdb"), filepath.Join(dir, "country.mmdb")
	for name, entries := range map[string]map[string]map[string]any{
		asn: {
			"192.0.2.0/24":    {"autonomous_system_number": uint32(64496), "autonomous_system_organization": "Example"},
			"2001:db8::/32":   {"autonomous_system_number": uint32(4200000000)},
			"198.51.100.0/25": {"autonomous_system_organization": "nobody"},
		},
		country: {
			"192.0.2.0/24":   {"country": map[string]any{"iso_code": "DE"}, "registered_country": map[string]any{"iso_code": "FR"}},
			"2001:db8::/33":  {"country": map[string]any{"iso_code": "NL"}},
			"203.0.113.0/24": {"registered_country": map[string]any{"iso_code": "US"}},
		},
	} {
		if err := geotest.Write(name, "Test", entries); err != nil {
			t.Fatal(err)
		}
	}
	return asn, country
}

func TestPlace(t *testing.T) {
	asn, country := files(t)
	db, err := Open(asn, country)
	if err != nil {
		t.Fatal(err)
	}
	f := func(addr string, asn uint32, country string) {
		t.Helper()
		got := db.Place(netip.MustParseAddr(addr))
		if got.ASN != asn || got.Country.String() != country {
			t.Errorf("%s: AS%d %q, want AS%d %q", addr, got.ASN, got.Country, asn, country)
		}
	}
	f("192.0.2.77", 64496, "DE")
	f("::ffff:192.0.2.77", 64496, "DE")
	f("2001:db8::1", 4200000000, "NL")
	f("2001:db8:8000::1", 4200000000, "")
	f("198.51.100.1", 0, "")
	f("203.0.113.9", 0, "")
	f("8.8.8.8", 0, "")
	if got := db.Place(netip.Addr{}); got != (Place{}) {
		t.Errorf("no address: %v", got)
	}
	if a, c := db.Has(); !a || !c {
		t.Error("it does not know what it has")
	}
	only, err := Open(asn)
	if err != nil {
		t.Fatal(err)
	}
	if a, c := only.Has(); !a || c {
		t.Error("a file of autonomous systems says it has countries")
	}
}

func TestOpenSaysWhatIsWrong(t *testing.T) {
	asn, _ := files(t)
	whole, err := os.ReadFile(asn)
	if err != nil {
		t.Fatal(err)
	}
	f := func(name string, content []byte, want string) {
		t.Helper()
		file := filepath.Join(t.TempDir(), "x.mmdb")
		if content != nil {
			if err := os.WriteFile(file, content, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		_, err := Open(file)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), file) {
			t.Errorf("%s: %v, want %q and the file's name", name, err, want)
		}
	}
	f("none", nil, "there is no such file")
	f("empty", []byte{}, "not in MaxMind's format")
	f("cut", whole[:len(whole)/2], "not in MaxMind's format")
	f("a web page", []byte("<html>log in to download</html>"), "not in MaxMind's format")
	f("other things", geotest.Bytes("Connection", map[string]map[string]any{"192.0.2.0/24": {"type": "dialup"}}), "has neither")
}

// Any bytes are a file or an error, and then any address is looked up.
func FuzzOpen(f *testing.F) {
	f.Add(geotest.Bytes("T", map[string]map[string]any{"192.0.2.0/24": {"autonomous_system_number": uint32(1)}}))
	f.Add([]byte("\xab\xcd\xefMaxMind.com"))
	file := filepath.Join(f.TempDir(), "x.mmdb")
	f.Fuzz(func(t *testing.T, b []byte) {
		if err := os.WriteFile(file, b, 0o644); err != nil {
			t.Fatal(err)
		}
		db, err := Open(file)
		if err != nil {
			return
		}
		db.Place(netip.MustParseAddr("192.0.2.1"))
		db.Place(netip.MustParseAddr("2001:db8::1"))
	})
}

func BenchmarkPlace(b *testing.B) {
	db, err := Open(files(b))
	if err != nil {
		b.Fatal(err)
	}
	a := netip.MustParseAddr("192.0.2.77")
	b.ReportAllocs()
	for b.Loop() {
		db.Place(a)
	}
}
