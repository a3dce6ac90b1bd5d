// Package botauth tells by a signature which agent a request is from: Web Bot Auth, that
// is HTTP Message Signatures (RFC 9421) with the tag "web-bot-auth" and Ed25519
// (draft-meunier-web-bot-auth-architecture, draft-ietf-webbotauth-httpsig-protocol).
//
// A signature proves who asks and no more. Only agents that the operator lists are known
// here; a key is theirs because it was given with them, or because it is in the directory
// at their origin, which is fetched aside, never while a request waits. A host that only a
// request names is never asked.
//
// What it does not do: it does not remember nonces. Whoever gets hold of a signature can
// send it again, to this site and for what it covers, until it expires: at most a day, or
// as little as the agent chooses. That is as good as the secrecy of the connection.
package botauth

import (
	"crypto/ed25519"
	"crypto/sha256"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"stile/network"
)

// Tag is what a signature says that it is for.
const Tag = "web-bot-auth"

const (
	// skew is how far an agent's clock may differ from ours.
	skew = time.Minute
	// longest is how long a signature may hold: the drafts' recommendation.
	longest = 24 * time.Hour
)

// Bot is an agent that the operator lists.
type Bot struct {
	Name string
	// Origin is where its directory of keys is: "https://agent.example". "": it has none,
	// and its keys are Keys.
	Origin string
	Keys   []Key
}

// Message is what nginx says about a request. Its strings may be borrowed: nothing here
// keeps them after Verify returns.
type Message struct {
	Method string
	Scheme string
	Host   string // without a port, in lower case: nginx's $host
	Target string // raw path and query: nginx's $request_uri
	Server string // the name of the server block: nginx's $server_name
	From   network.Network

	Signature, SignatureInput, SignatureAgent string
	Fields                                    []string // values, in the order of Options.Fields; "": absent
}

// Options are what New needs.
type Options struct {
	Dir    string           // where keys are kept over a restart; "": nowhere
	Fields []string         // the names of header fields that a request has beside the three of a signature
	Log    *slog.Logger     // default: none
	Now    func() time.Time // for directories; default time.Now
}

// Verifier verifies signatures of the agents that are listed. It is safe for concurrent
// use.
type Verifier struct {
	fields []string // in lower case
	dir    string
	log    *slog.Logger
	now    func() time.Time

	keys    atomic.Pointer[keys]
	recent  recent
	limit   limit
	scratch sync.Pool
	results [Results]atomic.Uint64

	mu          sync.Mutex // over the making of keys
	bots        []Bot
	hosts       []string
	directories map[string]*directory // by origin
	wake        chan struct{}
	fetched     func(*directory) // for tests: after each fetch
}

// keys are what verifies: immutable, replaced as a whole.
type keys struct {
	by          map[string][]listed
	hosts       []string
	directories []*directory // of which only the atomics are looked at
}

// listed is a key of an agent.
type listed struct {
	bot *Bot
	key *Key
}

// New makes a verifier that lists nobody; see Set. Directories are fetched while Run runs.
func New(o Options) *Verifier {
	v := &Verifier{dir: o.Dir, log: o.Log, now: o.Now, directories: map[string]*directory{}, wake: make(chan struct{}, 1)}
	for _, name := range o.Fields {
		v.fields = append(v.fields, strings.ToLower(name))
	}
	if v.log == nil {
		v.log = slog.New(slog.DiscardHandler)
	}
	if v.now == nil {
		v.now = time.Now
	}
	v.limit.seed = rand.Uint64()
	v.scratch.New = func() any { return new(scratch) }
	v.Set(nil, nil)
	return v
}

// Set replaces the agents, and the names of this site that signatures may be for, beside
// the name that nginx has for the server: "www.example.org", "*.example.org". What is
// known of a directory is kept, and it is fetched again unless it just was.
func (v *Verifier) Set(bots []Bot, hosts []string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.bots, v.hosts = bots, nil
	for _, h := range hosts {
		v.hosts = append(v.hosts, strings.ToLower(h))
	}
	stay := map[string]*directory{}
	for i := range bots {
		origin := bots[i].Origin
		if origin == "" || stay[origin] != nil {
			continue
		}
		d := v.directories[origin]
		if d == nil {
			d = newDirectory(origin)
			v.restoreLocked(d)
		} else if d.failures > 0 || v.now().Unix() >= d.tried.Load()+int64(freshLeast/time.Second) {
			d.next = time.Time{}
		}
		stay[origin] = d
	}
	v.directories = stay
	v.compileLocked()
	v.poke()
}

// compileLocked makes the table of keys. An agent that is listed first comes first.
func (v *Verifier) compileLocked() {
	k := &keys{by: map[string][]listed{}, hosts: v.hosts}
	for _, d := range v.directories {
		k.directories = append(k.directories, d)
	}
	for i := range v.bots {
		bot := &v.bots[i]
		list := bot.Keys
		if bot.Origin != "" {
			list = v.directories[bot.Origin].keys
		}
		for j := range list {
			k.by[list[j].ID] = append(k.by[list[j].ID], listed{bot, &list[j]})
		}
	}
	v.keys.Store(k)
}

// Verify is the name of the agent that has signed a request. An error is a Result: the
// request is not known to be from anybody, and no more follows from it. It never waits,
// and checks at most one signature.
func (v *Verifier) Verify(now time.Time, m *Message) (agent string, err error) {
	// Fast path: most requests have none.
	if m.SignatureInput == "" {
		return "", Unsigned
	}
	agent, why := v.verify(now.Unix(), m)
	v.results[why].Add(1)
	if why > Known {
		return "", why
	}
	return agent, nil
}

func (v *Verifier) verify(now int64, m *Message) (agent string, why Result) {
	c := v.scratch.Get().(*scratch)
	defer v.scratch.Put(c)
	k := v.keys.Load()
	// Cheap before expensive: one pass over a field, a look into a table, comparisons, and
	// only then the signature.
	if why = c.choose(m.SignatureInput, k.by); why == UnknownKey {
		v.wish(c, k, m, now)
	}
	if why != Good {
		return "", why
	}
	in := &c.chosen
	if in.alg != "" && in.alg != "ed25519" {
		return "", Algorithm
	}
	if why = in.timely(now); why != Good {
		return "", why
	}
	if !ours(m.Host, m.Server, k.hosts) {
		return "", Elsewhere
	}
	if m.SignatureAgent != "" {
		if why = c.agents(m.SignatureAgent); why != Good {
			return "", why
		}
	}
	if why = v.makeBase(c, m); why != Good {
		return "", why
	}
	by, why := c.owner(k.by[in.keyid], m)
	if why != Good {
		return "", why
	}
	if !by.key.holds(now) {
		return "", Expired
	}
	var sig [ed25519.SignatureSize]byte
	if why = signature(m.Signature, in.label, sig[:]); why != Good {
		return "", why
	}
	// The key's name is in the base, among the parameters.
	n := len(c.base)
	c.base = append(c.base, sig[:]...)
	hash := sha256.Sum256(c.base)
	c.base = c.base[:n]
	if v.recent.has(&hash, k, now) {
		return by.bot.Name, Known
	}
	// Slow path.
	if !v.limit.try(m.From, now) {
		return "", Limited
	}
	if !ed25519.Verify(by.key.Public, c.base, sig[:]) {
		return "", Wrong
	}
	v.limit.good(m.From, now)
	until := in.expires
	if by.key.NotAfter != 0 {
		until = min(until, by.key.NotAfter)
	}
	v.recent.put(&hash, k, until)
	return by.bot.Name, Good
}

// timely checks when a signature was made and how long it holds.
func (in *input) timely(now int64) Result {
	const slack = int64(skew / time.Second)
	switch {
	case !in.hasCreated || !in.hasExpires || in.expires <= in.created || in.expires-in.created > int64(longest/time.Second):
		return Times
	case in.created > now+slack:
		return Future
	case in.expires+slack <= now:
		return Expired
	}
	return Good
}

// owner is which of those who have the key has signed. When the request says who, the
// signature must cover that, and it must be so; a key alone says no more than that one of
// its owners has signed, and the first that is listed is taken.
func (c *scratch) owner(of []listed, m *Message) (listed, Result) {
	if m.SignatureAgent == "" {
		return of[0], Good
	}
	covered := false
	for i := range c.members {
		covered = covered || c.members[i].covered
	}
	if !covered {
		return listed{}, Missing
	}
	for _, l := range of {
		if l.bot.Origin == "" {
			return l, Good
		}
		for i := range c.members {
			if c.members[i].covered && c.members[i].names(l.bot.Origin) {
				return l, Good
			}
		}
	}
	return listed{}, OtherAgent
}

// ours tells whether a host is this site's. A client says which host it wants, and a
// server block that takes any would take a signature that the agent has made for another
// site, whose owner sends it on to here. So the host must be the server's own name, as
// nginx has it, or one that the operator names.
func ours(host, server string, hosts []string) bool {
	if server != "" && (fits(host, server) || strings.TrimPrefix(host, "www.") == strings.TrimPrefix(server, "www.")) {
		return true
	}
	for _, h := range hosts {
		if fits(host, h) {
			return true
		}
	}
	return false
}

// fits compares with a name, or with one that begins with "*." or "." as in nginx: then
// any name below it.
func fits(host, name string) bool {
	if below, ok := strings.CutPrefix(name, "*"); ok {
		name = below
	}
	if strings.HasPrefix(name, ".") {
		return len(name) > 1 && strings.HasSuffix(host, name) && len(host) > len(name)
	}
	return host == name
}

// Counted are the results that are counted.
func Counted() (rs []Result) {
	for r := range Results {
		if r != Unsigned {
			rs = append(rs, r)
		}
	}
	return rs
}

// Count is how many signatures ended so.
func (v *Verifier) Count(r Result) uint64 { return v.results[r].Load() }

// Recent is how many good signatures are remembered, and how many may be.
func (v *Verifier) Recent(now time.Time) (n, most int) {
	return v.recent.len(now.Unix()), recentSets * recentWays
}
