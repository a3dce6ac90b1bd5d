package server

import (
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cespare/xxhash/v2"
)

// servers are the server blocks of nginx that gated requests come from, and whether their
// logs tell of the ends of those requests. A server with an access_log of its own does not,
// unless it includes the lease log too. Names are nginx's $server_name: no client makes
// one up.
type servers struct {
	mu     sync.RWMutex
	byName map[uint64]uint32 // index into list plus one
	list   [maxServers]serverBlock
	n      int
}

// maxServers is how many are told apart. Those beyond share the last place.
const maxServers = 1024

type serverBlock struct {
	name  string
	key   uint64
	told  atomic.Bool   // an end has been told of
	since atomic.Uint32 // leases given since the last such end
	last  atomic.Int64  // when that was, or when the first lease was given
	said  atomic.Bool
}

// A server is taken for mute again when so many leases have been given without the end of
// any of them being told, over so long a time.
const (
	muteLeases = 64
	muteTime   = 5 * time.Minute
	// firstLeases and firstTime are after how many, and how long, it is said of a new one.
	firstLeases = 4
	firstTime   = 15 * time.Second
)

// find is the place of a server, and whether it tells of ends. Place 0 is none.
func (s *servers) find(name []byte, now int64) (place uint32, told bool) {
	key := xxhash.Sum64(name)
	s.mu.RLock()
	i, ok := s.byName[key]
	unnamed := ok && s.list[i-1].name == "" && len(name) > 0
	s.mu.RUnlock()
	if !ok {
		i = s.add(string(name), key, now)
	} else if unnamed { // remembered over a restart
		s.mu.Lock()
		s.list[i-1].name = string(name)
		s.mu.Unlock()
	}
	return i, s.list[i-1].told.Load()
}

func (s *servers) nameOf(b *serverBlock) string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return b.name
}

func (s *servers) add(name string, key uint64, now int64) uint32 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i, ok := s.byName[key]; ok {
		return i
	}
	if s.n == maxServers {
		return maxServers
	}
	if s.byName == nil {
		s.byName = map[uint64]uint32{}
	}
	b := &s.list[s.n]
	b.name, b.key = name, key
	b.last.Store(now)
	s.n++
	s.byName[key] = uint32(s.n)
	return uint32(s.n)
}

// told is the keys of those that tell of ends.
func (s *servers) told() (keys []uint64) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for i := range s.list[:s.n] {
		if b := &s.list[i]; b.told.Load() {
			keys = append(keys, b.key)
		}
	}
	return keys
}

// remember takes a server for one that tells of ends, as it did before a restart.
func (s *servers) remember(key uint64) {
	s.list[s.add("", key, 0)-1].told.Store(true)
}

// given counts a lease, and says once if no end is ever told.
func (s *servers) given(log *slog.Logger, place uint32, now int64) {
	b := &s.list[place-1]
	n, since := b.since.Add(1), time.Duration(now-b.last.Load())
	if b.told.Load() {
		if n >= muteLeases && since > muteTime {
			b.told.Store(false)
			b.said.Store(false)
		}
		return
	}
	if n >= firstLeases && since > firstTime && b.said.CompareAndSwap(false, true) {
		log.Error("nginx has not told the end of any gated request of this server: each lease ends after "+unreleased.String()+
			", so more may be in flight than the budget; does the server have an access_log of its own? then include snippets/stile-lease.conf beside it",
			"server_name", s.nameOf(b), "leases", n)
	}
}

// ended counts an end that nginx has told of.
func (s *servers) ended(log *slog.Logger, place uint32, now int64) {
	if place == 0 || place > maxServers {
		return
	}
	b := &s.list[place-1]
	b.since.Store(0)
	b.last.Store(now)
	if !b.told.Swap(true) && b.said.Swap(false) {
		log.Info("nginx tells the ends of gated requests of this server now", "server_name", s.nameOf(b))
	}
}

// mute is how many servers have had leases and tell of no ends.
func (s *servers) mute() (n int) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for i := range s.list[:s.n] {
		if b := &s.list[i]; !b.told.Load() && b.since.Load() > 0 {
			n++
		}
	}
	return n
}
