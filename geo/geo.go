// Package geo looks up to which network operator (autonomous system) and to which country
// an address belongs, in files of the MaxMind format that the operator of the site has:
// GeoLite2, GeoIP2, DB-IP and others of the same names.
package geo

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"os"
	"sync"

	"github.com/oschwald/maxminddb-golang/v2"
)

// Country is the ISO 3166-1 code of a country, two capital letters; zero: not known.
type Country [2]byte

func (c Country) String() string {
	if c == (Country{}) {
		return ""
	}
	return string(c[:])
}

// ParseCountry reads a code of two letters of the one kind or the other.
func ParseCountry(s string) (c Country, ok bool) {
	if len(s) != 2 {
		return Country{}, false
	}
	for i := range 2 {
		b := s[i] &^ 0x20
		if b < 'A' || b > 'Z' {
			return Country{}, false
		}
		c[i] = b
	}
	return c, true
}

// Place is where an address belongs.
type Place struct {
	ASN     uint32 // 0: not known
	Country Country
}

// DB is some files as they were when they were opened. It is safe for concurrent use, and
// needs no closing.
type DB struct {
	files   []file
	scratch sync.Pool
}

type file struct {
	name         string
	r            *maxminddb.Reader
	asn, country bool // what it has
}

// maxFile is larger than any of the kind that fits here: a file is read into memory,
// since one that is cut short while it is mapped would end the daemon.
const maxFile = 512 << 20

// Open reads files. Their order is the order in which they are asked.
func Open(files ...string) (*DB, error) {
	db := &DB{scratch: sync.Pool{New: func() any { return new(record) }}}
	var errs []error
	for _, name := range files {
		f, err := open(name)
		if err != nil {
			errs = append(errs, fmt.Errorf("[geo] file %s: %w", name, err))
			continue
		}
		db.files = append(db.files, f)
	}
	return db, errors.Join(errs...)
}

func open(name string) (f file, err error) {
	b, err := read(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return f, errors.New("there is no such file: get one in MaxMind's format (such as GeoLite2-ASN.mmdb), or take the rules with asn and country out")
	case err != nil:
		return f, err
	}
	f = file{name: name}
	if f.r, err = maxminddb.OpenBytes(b); err != nil {
		return f, fmt.Errorf("it is not in MaxMind's format, or not whole: %w", err)
	}
	if err = f.look(); err != nil {
		return f, fmt.Errorf("it cannot be read through: %w", err)
	}
	if !f.asn && !f.country {
		return f, fmt.Errorf("it is of the type %q, and has neither autonomous_system_number nor country.iso_code", f.r.Metadata.DatabaseType)
	}
	return f, nil
}

func read(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(b) > maxFile {
		err = fmt.Errorf("it is larger than %d bytes", maxFile)
	}
	return b, err
}

// record is what is read of an entry.
type record struct {
	asn     uint32
	country string
}

// The paths to it. They are values already: making them would allocate.
var (
	pathASN     = []any{"autonomous_system_number"}
	pathCountry = []any{"country", "iso_code"}
)

// enough is after how many networks it is known what a file has. It counts those without
// an entry, too: a file that is damaged may have any number of them.
const enough = 1 << 16

// look finds out what a file has.
func (f *file) look() error {
	n := 0
	for result := range f.r.Networks(maxminddb.IncludeNetworksWithoutData()) {
		var rec record
		if err := rec.read(result); err != nil {
			return err
		}
		f.asn = f.asn || rec.asn != 0
		f.country = f.country || rec.country != ""
		if n++; n == enough {
			break
		}
	}
	return nil
}

func (rec *record) read(result maxminddb.Result) error {
	return errors.Join(result.DecodePath(&rec.asn, pathASN...), result.DecodePath(&rec.country, pathCountry...))
}

// Has tells whether any file has autonomous systems, and countries.
func (db *DB) Has() (asn, country bool) {
	for i := range db.files {
		asn = asn || db.files[i].asn
		country = country || db.files[i].country
	}
	return asn, country
}

// Place looks an address up: in each file, until both are known. What cannot be read is
// not known.
func (db *DB) Place(a netip.Addr) (p Place) {
	a = a.Unmap()
	if !a.IsValid() {
		return p
	}
	rec := db.scratch.Get().(*record)
	for i := range db.files {
		f := &db.files[i]
		result := f.r.Lookup(a)
		if !result.Found() {
			continue
		}
		if f.asn && p.ASN == 0 {
			rec.asn = 0
			if result.DecodePath(&rec.asn, pathASN...) == nil {
				p.ASN = rec.asn
			}
		}
		if f.country && p.Country == (Country{}) {
			rec.country = ""
			if result.DecodePath(&rec.country, pathCountry...) == nil {
				p.Country, _ = ParseCountry(rec.country)
			}
		}
	}
	db.scratch.Put(rec)
	return p
}

// Describe says of each file what it is: for the log and explanations.
func (db *DB) Describe(f func(name, kind string, built int64)) {
	for i := range db.files {
		m := &db.files[i].r.Metadata
		f(db.files[i].name, m.DatabaseType, int64(m.BuildEpoch))
	}
}
