package crawler

import (
	"bytes"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gaissmai/bart"

	"stile/network"
)

//go:embed lists/*.json
var built embed.FS

// List is the addresses of one crawler, as its owner publishes them.
type List struct {
	Name string `json:"name"`
	// Date is a day on which the owner published this: "2006-01-02".
	Date    string         `json:"date"`
	Sources []string       `json:"sources"`        // where it is published
	Note    string         `json:"note,omitempty"` // what else is to be known of it
	Nets    []netip.Prefix `json:"prefixes"`
}

// Limits of a list. Google's longest has a thousand prefixes.
const (
	maxListBytes = 4 << 20
	maxPrefixes  = 20000
)

// check tells what is wrong with a list of prefixes, and brings it into order: masked,
// sorted, each once.
func check(nets []netip.Prefix) ([]netip.Prefix, error) {
	if len(nets) == 0 {
		return nil, errors.New("it has no address: an empty list would verify nobody")
	}
	if len(nets) > maxPrefixes {
		return nil, fmt.Errorf("it has %d prefixes: at most %d are believed", len(nets), maxPrefixes)
	}
	out := make([]netip.Prefix, 0, len(nets))
	for _, p := range nets {
		if !p.IsValid() || p.Addr().Zone() != "" {
			return nil, errors.New("it has a prefix that is none")
		}
		if p.Addr().Is4In6() && p.Bits() >= 96 {
			p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
		}
		p = p.Masked()
		least := 8
		if p.Addr().Is6() {
			least = 16
		}
		switch {
		case p.Bits() < least:
			return nil, fmt.Errorf("%s is too much of the Internet for one crawler: nothing shorter than /%d is believed", p, least)
		case !network.Public(p.Addr()) || network.HoldsPrivate(p):
			return nil, fmt.Errorf("%s is not of the public Internet", p)
		}
		out = append(out, p)
	}
	slices.SortFunc(out, func(a, b netip.Prefix) int {
		if c := a.Addr().Compare(b.Addr()); c != 0 {
			return c
		}
		return a.Bits() - b.Bits()
	})
	return slices.Compact(out), nil
}

// ReadList reads a list as WriteList writes it. It is strict: a file that was cut, or
// that something else wrote, is an error.
func ReadList(b []byte) (*List, error) {
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	var l List
	if err := d.Decode(&l); err != nil {
		return nil, fmt.Errorf("not a list of stile's: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("not a list of stile's: something follows it")
	}
	if Find(l.Name) == 0 {
		return nil, fmt.Errorf("it is for a crawler %q, which is not known", l.Name)
	}
	if _, err := l.day(); err != nil {
		return nil, fmt.Errorf("its date is %q: want one such as \"2026-11-30\"", l.Date)
	}
	var err error
	l.Nets, err = check(l.Nets)
	return &l, err
}

func (l *List) day() (time.Time, error) { return time.Parse(time.DateOnly, l.Date) }

// Age is how long ago the list was published, whole days; at least 0.
func (l *List) Age(now time.Time) time.Duration {
	d, err := l.day()
	if err != nil {
		return 0
	}
	return max(now.Sub(d).Truncate(24*time.Hour), 0)
}

// Dir is the directory of updated lists in a state directory.
func Dir(state string) string { return filepath.Join(state, "crawlers") }

// WriteList replaces a crawler's list in a directory, which it makes. The old one stays
// whole until the new one is.
func WriteList(dir string, l *List) (err error) {
	nets, err := check(l.Nets)
	if err != nil {
		return err
	}
	c := *l
	c.Nets = nets
	b, err := json.MarshalIndent(&c, "", " ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, "."+l.Name+"-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	_, err = f.Write(append(b, '\n'))
	err = errors.Join(err, f.Chmod(0o644), f.Sync(), f.Close())
	if err != nil {
		return err
	}
	return os.Rename(f.Name(), filepath.Join(dir, l.Name+".json"))
}

// Lists are the lists in force, ready to be asked. They are immutable.
type Lists struct {
	lists  []*List      // by crawler; nil: none
	tables []*bart.Lite // likewise
	stale  []bool       // older than the greatest age
	whole  []bool       // somebody renews it: who is not in it is an imitator
	from   []string     // "built in", or the file
}

// Load is the lists that came with stile, each replaced by the one of the same name in
// dir, if it is there and newer. A file there that cannot be read is an error beside
// lists that do without it. Lists that are older than maxAge at now count as incomplete,
// and so do those that came with stile: nobody sees to it that what their owners have
// added since is in them, and a genuine crawler must not be taken for an imitator.
func Load(dir string, maxAge time.Duration, now time.Time) (*Lists, error) {
	n := len(Known)
	l := &Lists{make([]*List, n), make([]*bart.Lite, n), make([]bool, n), make([]bool, n), make([]string, n)}
	var errs []error
	for i := range Known {
		name := Known[i].Name
		if b, err := built.ReadFile("lists/" + name + ".json"); err == nil {
			list, err := ReadList(b)
			if err != nil {
				panic("BUG: list " + name + ": " + err.Error())
			}
			l.lists[i], l.from[i] = list, "built in"
		}
		if dir != "" {
			file := filepath.Join(dir, name+".json")
			list, err := readFile(file)
			switch {
			case errors.Is(err, fs.ErrNotExist):
			case err != nil:
				errs = append(errs, fmt.Errorf("%s: %w: the list %s stays in use; `stile crawlers update %s` makes the file anew", file, err, orNone(l.from[i]), name))
			case list.Name != name:
				errs = append(errs, fmt.Errorf("%s: it is the list of %q", file, list.Name))
			case l.lists[i] == nil || list.Date >= l.lists[i].Date:
				l.lists[i], l.from[i], l.whole[i] = list, file, true
			}
		}
		if l.lists[i] == nil {
			continue
		}
		l.stale[i] = maxAge > 0 && l.lists[i].Age(now) > maxAge
		l.whole[i] = l.whole[i] && !l.stale[i] && !Known[i].Loose
		l.tables[i] = new(bart.Lite)
		for _, p := range l.lists[i].Nets {
			l.tables[i].Insert(p)
		}
	}
	return l, errors.Join(errs...)
}

func orNone(from string) string {
	if from == "" {
		return "(there is none)"
	}
	return "(" + from + ")"
}

func readFile(file string) (*List, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxListBytes+1))
	if err != nil {
		return nil, err
	}
	if len(b) > maxListBytes {
		return nil, fmt.Errorf("larger than %d bytes", maxListBytes)
	}
	return ReadList(b)
}

// Of is a crawler's list and where it is from; nil if it has none.
func (l *Lists) Of(id ID) (list *List, from string) { return l.lists[id-1], l.from[id-1] }

// Stale names the crawlers whose lists are older than the greatest age.
func (l *Lists) Stale() (names []string) {
	for i, stale := range l.stale {
		if stale {
			names = append(names, Known[i].Name)
		}
	}
	return names
}

// Contains tells whether an address is in a crawler's list. It allocates nothing.
func (l *Lists) Contains(id ID, a netip.Addr) bool {
	t := l.tables[id-1]
	return t != nil && a.IsValid() && t.Contains(a.Unmap())
}

// verdict is what the lists alone say of a claim by somebody at an address. dns are the
// crawlers of the claim that DNS may still decide.
func (l *Lists) verdict(claimed Set, a netip.Addr) (c Claim, dns Set) {
	c = Claim{Spoofed, claimed.First()}
	for i := range Known {
		if claimed&(1<<i) == 0 {
			continue
		}
		id := ID(i + 1)
		switch {
		case l.Contains(id, a):
			return Claim{Verified, id}, 0
		case Known[i].Domains != nil:
			dns |= id.bit()
			if l.Loose(id) {
				c.State = Unknown
			}
		case !l.whole[i]:
			c.State = Unknown
		}
	}
	return c, dns
}

// unclaimed is what the lists say of who names no crawler: some come with the agents of
// people's browsers.
func (l *Lists) unclaimed(a netip.Addr) Claim {
	for _, id := range anyAgent {
		if l.Contains(id, a) {
			return Claim{Verified, id}
		}
	}
	return Claim{}
}

// Claim is what the lists alone say of a request; DNS may say more. It is for
// explanations.
func (l *Lists) Claim(agent string, a netip.Addr) Claim {
	claimed := Claimed(agent)
	if claimed == 0 {
		return l.unclaimed(a)
	}
	c, dns := l.verdict(claimed, a)
	if dns != 0 && c.State != Verified {
		c.State = Unknown
	}
	return c
}

// Loose tells whether nothing follows from an address's not being confirmed.
func (l *Lists) Loose(id ID) bool { return Known[id-1].Loose }

// VerifiedBy says how a crawler is told from its imitators.
func (l *Lists) VerifiedBy(id ID) string {
	var by []string
	if l.tables[id-1] != nil {
		by = append(by, "address")
	}
	if Known[id-1].Domains != nil {
		by = append(by, "DNS")
	}
	if by == nil {
		return "nothing yet"
	}
	return strings.Join(by, ", ")
}
