// Package config reads stile's configuration: strict TOML in, validated values out.
//
// An empty file, and no file at all, is a valid configuration. Everything that looks
// like a mistake is one: unknown keys, numbers without a unit, combinations that
// cannot work, rules that can never match. All mistakes of all files are reported at
// once, each with file, line and what to write instead.
//
// What Load and Parse return is complete: defaults are filled in, patterns are known
// to compile, meters that rules name exist. It is never changed afterwards, so it may
// be read from any number of goroutines.
package config

import (
	"net/netip"
	"time"

	"stile/botauth"
	"stile/crawler"
	"stile/geo"
)

// Config is a whole configuration: the main file and everything it includes.
type Config struct {
	Mode Mode // default Enforce

	// An address is "unix:/path" or "127.0.0.1:port".
	Listen struct {
		Check string // nginx only; default "unix:/run/stile/stile.sock"
		Lease string // nginx's access-log datagrams, a unix socket; default "unix:/run/stile/lease.sock"
		Admin string // metrics, health and holds; default "127.0.0.1:9406"
		Group string // that Check, a socket, is given to: a name, known to be well-formed; default "": nginx's
	}

	Key struct {
		File string // absolute; default "/var/lib/stile/key"
	}

	Pass struct {
		Cookie        string        // name, an RFC 6265 token; default "stile"
		Lifetime      time.Duration // 1m to 30d; default 24h
		Bind          Bind          // default Roam
		PerNetworkDay int           // passes that one network may earn in a day; default 1000
	}

	State struct {
		Dir  string // absolute; default "/var/lib/stile"; what is learned is kept there
		Keys int    // entries of each table of counters, 16 bytes each; default 65536
	}

	Challenge struct {
		Kind   string        // "pow"
		Status int           // of the page: 503 (default), 429 or 403
		Target time.Duration // what solving should take a typical visitor, 100ms to 10s; default 1s

		// The page's words: a title, a path on the same site or data:image/… of a
		// picture, a line for people who cannot get in. Default "": none of ours.
		Title, Logo, Contact string
	}

	Crawler struct {
		Resolver string              // address and port of a DNS server; default "": the system's
		MaxAge   time.Duration       // of a list, before who is not in it may be genuine; 1d to 3y; default 90d
		URLs     map[string][]string // where lists are fetched in place of their owners' URLs, by crawler
		Hosts    []string            // this site's names, that signatures of bots may be for: "example.org", "*.example.org"
	}

	// Bots are the agents whose signatures count (package botauth), in the order of the file.
	Bots []botauth.Bot

	Geo struct {
		Files []string // absolute, of MaxMind's format; default none. They need not exist yet
	}

	Meters  []Meter  // those that a rule uses, in the order of the files
	Gates   []Gate   // likewise, and the operator's own that none uses yet: for holds
	Rules   []Rule   // the operator's, then those of the includes in their order
	Expects []Expect // likewise; a preset's if it is the only one that is asked for, not of those that it includes
	Files   []string // what was read, in order: "stile.toml", "preset:generic"
}

// Pos is a line of a file, as the operator would name it.
type Pos struct {
	File string
	Line int // from 1
}

// Meter is one [[meter]]: limits for each window. A limit of 0 is no limit.
type Meter struct {
	Name      string
	Window    time.Duration // 1s to 7d
	Stranger  uint32        // for one stranger, by its network
	Pass      uint32        // for one pass
	User      uint32        // for one user that the site's nginx knows
	Strangers uint32        // for all strangers together; never with a pool
	Per       Per
	Pos       Pos
}

// Per says what a meter counts under one key. The zero value is invalid: Per.Caller
// is true unless there are segments.
type Per struct {
	Caller   bool  // each caller has its own; false: a pool of strangers, a pool of the proven
	Segments []int // and each value of these segments of the path, from 1, its own
}

// Gate is one [[gate]]: how much expensive work may be in flight at once. Budget,
// FreeBelow, Fixed and Unseen are in its unit: bytes, microseconds of backend time, or
// requests.
type Gate struct {
	Name      string
	Unit      Unit
	Budget    int64         // 1 to 2^50
	FreeBelow int64         // costs below it do not wait; default 0, at most Budget
	Queue     int           // places; default 32, 0 to 65536
	PerCaller int           // places of one caller, waiting and in flight together; default 4; 0: no limit
	Wait      time.Duration // 100ms to MaxWait; default 20s
	Lease     time.Duration // 1s to 1h; default 60s
	Cost      CostKind
	Fixed     int64   // of CostFixed
	File      string  // of CostFile: an absolute path with {N} for the path's N-th segment
	Unseen    int64   // what a request costs of which nothing is known; default half of Budget, at least 1
	Scale     float64 // multiplies what is learned, a file's size, or what a header says; 0.001 to 1e6, default 1
	Pos       Pos
}

// MaxWait is the longest that a request may wait in a gate: shorter than the 30 s
// (proxy_read_timeout) after which nginx takes the daemon for dead, and opens.
const MaxWait = 25 * time.Second

// Unit is what a gate's budget is counted in.
type Unit uint8

const (
	Requests Unit = iota // budget = 8
	Bytes                // budget = "16MiB"
	Micros               // budget = "8s": microseconds of backend time
)

// CostKind is how a gate knows what a request costs.
type CostKind uint8

const (
	CostFixed   CostKind = iota // the same for all: cost = "4MiB", "2s" or 1, as the budget is
	CostLearned                 // by what the path has cost before
	CostFile                    // by a file's size: a budget of bytes only
	CostHeader                  // by what the backend said last time, in X-Stile-Cost: bytes or milliseconds
)

// Rule is one [[rule]].
type Rule struct {
	Name    string
	Do      Action
	Suspect int // points, when Do is Suspect; else 0
	Match   Match
	Meters  []int // into Config.Meters, in the order written
	Gate    int   // into Config.Gates plus one; 0: none
	Level   uint8 // what a pass must be worth here: 1 (default) to 3
	Proof   Proof // Never: metered, but never asked for a proof
	Mode    Mode  // Observe: counted and reported, and the search goes on
	Pos     Pos
}

// Match is the matchers of a rule. All that are not empty must hold; a list is any of.
type Match struct {
	Host, Path, Query, Agent []string // patterns of package decide/pattern, known to compile
	Method                   []string // upper case; HEAD is added where GET is
	Header                   []HeaderMatch
	Network                  []netip.Prefix // masked; never IPv4-mapped
	Crawler                  []string       // AnyVerified, Spoofed, Unknown or names of crawlers and bots
	ASN                      []uint32       // numbers of autonomous systems
	Country                  []geo.Country
	Not                      *Match // none of these may hold; its own Not is nil
}

// HeaderMatch holds when a header matches any of the patterns. An absent header is "".
type HeaderMatch struct {
	Name     string // one of Headers
	Patterns []string
}

// Expect is one [[expect]]: what the rules should say to a caller that has used
// nothing yet.
type Expect struct {
	Method  string
	Target  string            // raw, begins with "/"
	Agent   string            // "": none
	Addr    string            // a valid address, or "": any that no rule names
	Header  map[string]string // canonical names: those of Headers, and Host
	Crawler crawler.Claim     // what is taken for known of who asks; nothing: nothing is
	Bot     string            // likewise: the name of one of Bots that has signed, "" for none
	Place   geo.Place         // likewise
	Verdict string            // "allow", "deny", "trap", "challenge", "challenge 2", "challenge 3", "meter NAME NAME…"
	Pos     Pos
}

// Mode says whether verdicts are carried out.
type Mode uint8

const (
	Enforce Mode = iota
	Observe      // count and report, refuse nobody
)

func (m Mode) String() string { return name(modes, m) }

// Bind says where a pass counts.
type Bind uint8

const (
	Roam        Bind = iota // everywhere; in surge only where it was proven
	BindNetwork             // only where it was proven
	BindNone                // everywhere, always; while there is no surge, the same as Roam
)

func (b Bind) String() string { return name(binds, b) }

// Action is what a rule does. The zero value is none, so that a Rule that nobody
// filled in does not let everything through.
type Action uint8

const (
	Allow       Action = iota + 1 // go on, unmetered
	MeterAction                   // count, and ask for a proof or refuse above the limit
	Challenge                     // ask for a proof first
	Deny                          // refuse
	Trap                          // refuse, and hold it against the network
	Suspect                       // add points and go on to the next rule
)

func (a Action) String() string {
	if a == Suspect {
		return "suspect"
	}
	return name(actions, a)
}

// Proof says whether a rule may ask for a proof.
type Proof uint8

const (
	Auto  Proof = iota // yes, where a proof can be the answer
	Never              // no: metered only, for machine clients
)

func (p Proof) String() string { return name(proofs, p) }

// choice is one word of the format and what it stands for.
type choice[T comparable] struct {
	word  string
	value T
}

var (
	modes   = []choice[Mode]{{"enforce", Enforce}, {"observe", Observe}}
	binds   = []choice[Bind]{{"roam", Roam}, {"network", BindNetwork}, {"none", BindNone}}
	proofs  = []choice[Proof]{{"auto", Auto}, {"never", Never}}
	actions = []choice[Action]{{"allow", Allow}, {"meter", MeterAction}, {"challenge", Challenge}, {"deny", Deny}, {"trap", Trap}}
)

func name[T comparable](choices []choice[T], v T) string {
	for _, c := range choices {
		if c.value == v {
			return c.word
		}
	}
	return "none"
}
