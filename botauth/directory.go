package botauth

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"stile/network"
)

const (
	// wellKnown is where a directory is, and mediaType what it is.
	wellKnown = "/.well-known/http-message-signatures-directory"
	mediaType = "application/http-message-signatures-directory+json"

	// fetchTime bounds one fetch as a whole.
	fetchTime = 10 * time.Second
	// A directory says itself how long it may be kept, within these.
	freshLeast   = 5 * time.Minute
	freshDefault = time.Hour
	freshMost    = 24 * time.Hour
	// After a failure it is fetched again sooner, then later and later.
	retryFirst = time.Minute
	retryMost  = time.Hour
	// keptFor is how long the keys of a directory that cannot be fetched stay in use. An
	// outage takes nobody's keys away; that an agent has ended should.
	keptFor = 7 * 24 * time.Hour
)

// directory is what is known of an agent's keys.
type directory struct {
	origin string
	wished atomic.Bool  // a request names a key of it that is not known
	tried  atomic.Int64 // the last fetch began, Unix seconds

	// The verifier's mutex guards these.
	keys     []Key
	good     time.Time // of the last good fetch; zero: there was none
	next     time.Time // when it is fetched again
	failures int       // since good
	fetching bool
	fetches  [2]uint64 // good, failed
}

func newDirectory(origin string) *directory { return &directory{origin: origin} }

// ParseOrigin reads the address of an agent's directory: the origin alone, or with the
// well-known path. It is https; http is for an address of this machine.
func ParseOrigin(s string) (origin string, err error) {
	u, err := url.Parse(s)
	if err != nil || u.Host == "" || u.Hostname() == "" || u.Opaque != "" {
		return "", errors.New(`want the URL of the agent's host, such as "https://agent.example"`)
	}
	host := strings.ToLower(u.Host)
	if u.Scheme == "https" {
		host = strings.TrimSuffix(host, ":443")
	}
	origin = u.Scheme + "://" + host
	switch {
	case u.User != nil || u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return "", fmt.Errorf("want the host alone: %q", origin)
	case u.Path != "" && u.Path != "/" && u.Path != wellKnown:
		return "", fmt.Errorf("keys are at %s of a host: want %q", wellKnown, origin)
	case u.Scheme == "http" && !thisMachine(u.Hostname()):
		return "", errors.New("whoever sits between could give his own keys: want https")
	case u.Scheme != "https" && u.Scheme != "http":
		return "", errors.New("want https")
	}
	return origin, nil
}

func thisMachine(host string) bool {
	a, err := netip.ParseAddr(host)
	return err == nil && a.IsLoopback()
}

// poke makes Run look at what is to be done.
func (v *Verifier) poke() {
	select {
	case v.wake <- struct{}{}:
	default:
	}
}

// wish asks for the directory of an agent that is listed and whose key is not known: it
// may have a new one.
func (v *Verifier) wish(c *scratch, k *keys, m *Message, now int64) {
	if m.SignatureAgent == "" || c.agents(m.SignatureAgent) != Good {
		return
	}
	for _, d := range k.directories {
		if now < d.tried.Load()+int64(freshLeast/time.Second) {
			continue
		}
		for i := range c.members {
			if c.members[i].names(d.origin) && d.wished.CompareAndSwap(false, true) {
				v.poke()
			}
		}
	}
}

// Run fetches directories until ctx ends: at once, when they are due, and when a request
// names a key of one that is not known.
func (v *Verifier) Run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-v.wake:
		case <-timer.C:
		}
		timer.Reset(v.begin(ctx))
	}
}

// begin begins every fetch that is due, and tells when the next will be.
func (v *Verifier) begin(ctx context.Context) (wait time.Duration) {
	for _, d := range v.due() {
		go v.refresh(ctx, d)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	now := v.now()
	wait = time.Hour
	for _, d := range v.directories {
		if !d.fetching {
			wait = min(wait, d.next.Sub(now))
		}
	}
	return max(wait, time.Second)
}

// due takes the directories that are to be fetched now.
func (v *Verifier) due() (ds []*directory) {
	v.mu.Lock()
	defer v.mu.Unlock()
	now := v.now()
	for _, d := range v.directories {
		if !d.fetching && (d.wished.Load() || !now.Before(d.next)) {
			d.fetching = true
			d.tried.Store(now.Unix())
			ds = append(ds, d)
		}
	}
	return ds
}

// Refresh fetches every directory that is due, and returns when that is done. It is what
// Run does, for who does not want it to be aside.
func (v *Verifier) Refresh(ctx context.Context) {
	for _, d := range v.due() {
		v.refresh(ctx, d)
	}
}

// refresh fetches a directory and puts its keys in force, or keeps the last good ones.
func (v *Verifier) refresh(ctx context.Context, d *directory) {
	found, fresh, err := fetch(ctx, d.origin)
	v.apply(d, found, fresh, err)
	if err == nil {
		v.save(d.origin, found)
	}
	if v.fetched != nil {
		v.fetched(d)
	}
	v.poke()
}

func (v *Verifier) apply(d *directory, found []Key, fresh time.Duration, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	now := v.now()
	d.fetching = false
	d.wished.Store(false)
	if err != nil {
		d.fetches[1]++
		d.failures++
		d.next = now.Add(jitter(min(retryFirst<<min(d.failures-1, 10), retryMost)))
		if d.keys != nil && now.Sub(d.good) > keptFor {
			d.keys = nil
			v.compileLocked()
			v.log.Error("an agent's keys are no longer used: its directory could not be fetched for a week", "directory", d.origin, "error", err.Error())
		} else if d.failures == 1 {
			v.log.Warn("an agent's directory of keys could not be fetched: the last good one stays in use", "directory", d.origin, "keys", len(d.keys), "error", err.Error())
		}
		return
	}
	d.fetches[0]++
	d.next = now.Add(jitter(fresh))
	d.good = now
	if d.failures > 0 || !sameKeys(d.keys, found) {
		v.log.Info("an agent's directory of keys", "directory", d.origin, "keys", len(found), "before", len(d.keys))
	}
	d.failures = 0
	if !sameKeys(d.keys, found) {
		d.keys = found
		if v.directories[d.origin] == d {
			v.compileLocked()
		}
	}
}

func sameKeys(a, b []Key) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i].ID != b[i].ID || a[i].NotBefore != b[i].NotBefore || a[i].NotAfter != b[i].NotAfter {
			return false
		}
	}
	return true
}

// jitter spreads what many daemons do, by a tenth.
func jitter(d time.Duration) time.Duration {
	return d - d/20 + time.Duration(rand.Int64N(int64(d/10)+1))
}

// fetch is what a directory says, and for how long it may be kept. It follows no
// redirect: another host has no say in an agent's keys.
func fetch(ctx context.Context, origin string) (found []Key, fresh time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, fetchTime)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, origin+wellKnown, nil)
	if err != nil {
		return nil, 0, err
	}
	r.Header.Set("Accept", mediaType)
	r.Header.Set("User-Agent", "stile (keys of agents)")
	client := &http.Client{
		Transport: &http.Transport{
			DialContext:            dial(r.URL.Hostname()),
			DisableCompression:     true, // what is limited is what is read
			DisableKeepAlives:      true,
			MaxResponseHeaderBytes: 16 << 10,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	answer, err := client.Do(r)
	if err != nil {
		var u *url.Error
		if errors.As(err, &u) {
			err = u.Err // the URL is said by whoever asked
		}
		return nil, 0, err
	}
	defer answer.Body.Close()
	if answer.StatusCode >= 300 && answer.StatusCode < 400 {
		return nil, 0, fmt.Errorf("it redirects to %.200q, which is not followed: if the agent has moved, name its new host", answer.Header.Get("Location"))
	}
	if answer.StatusCode != http.StatusOK {
		return nil, 0, fmt.Errorf("it answers %s", answer.Status)
	}
	if kind, _, err := mime.ParseMediaType(answer.Header.Get("Content-Type")); err != nil || kind != mediaType {
		return nil, 0, fmt.Errorf("it is %.100q, not a directory of keys (%s)", answer.Header.Get("Content-Type"), mediaType)
	}
	b, err := io.ReadAll(io.LimitReader(answer.Body, maxDirectory+1))
	if err != nil {
		return nil, 0, fmt.Errorf("after %d bytes: %w", len(b), err)
	}
	if len(b) > maxDirectory {
		return nil, 0, fmt.Errorf("it is larger than %d bytes", maxDirectory)
	}
	found, _, err = ParseDirectory(b)
	return found, freshness(answer.Header.Get("Cache-Control")), err
}

// freshness is how long an answer may be kept.
func freshness(control string) time.Duration {
	for part := range strings.SplitSeq(control, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		switch strings.ToLower(name) {
		case "no-store", "no-cache":
			return freshLeast
		case "max-age":
			if n, err := strconv.ParseUint(strings.Trim(value, `"`), 10, 32); err == nil {
				return min(max(time.Duration(n)*time.Second, freshLeast), freshMost)
			}
		}
	}
	return freshDefault
}

// dial connects to public addresses only, whatever the name says at that moment. An
// address that the operator has written himself is believed.
func dial(host string) func(ctx context.Context, network, addr string) (net.Conn, error) {
	var d net.Dialer
	if _, err := netip.ParseAddr(host); err != nil {
		d.Control = func(_, to string, _ syscall.RawConn) error {
			a, err := netip.ParseAddrPort(to)
			if err != nil || !network.Public(a.Addr()) {
				return fmt.Errorf("%s is %s, which is not on the public Internet: give the agent's keys themselves, in keys", host, to)
			}
			return nil
		}
	}
	return d.DialContext
}

// Directories calls f with what is known of each directory: how many keys are in use, how
// often it was fetched and how often in vain, and the time of the last good fetch, zero if
// there was none.
func (v *Verifier) Directories(f func(bot string, keys int, good, failed uint64, last time.Time)) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for i := range v.bots {
		if d := v.directories[v.bots[i].Origin]; d != nil {
			f(v.bots[i].Name, len(d.keys), d.fetches[0], d.fetches[1], d.good)
		}
	}
}
