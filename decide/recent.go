package decide

import (
	"encoding/binary"
	"sync"
	"time"
)

// recent remembers the verdicts of the last requests by nginx's request id: internal
// redirects (index, try_files, error_page) run the check again for one request of the
// client, and it is charged once.
//
// It holds recentSlots verdicts for at most recentAge; when it is full the oldest of
// a set of four goes. An id that is forgotten is charged again, no worse.
type recent struct {
	sets [recentSlots / 4]recentSet
}

const (
	recentSlots = 1 << 14
	recentAge   = 2 * time.Minute // longer than any wait in a gate, and an internal redirect after it
)

type recentSet struct {
	mu   sync.Mutex
	ids  [4][16]byte
	at   [4]int64
	kept [4]Verdict
}

func (t *recent) set(id *[16]byte) *recentSet {
	// The ids are random: nginx makes them, clients cannot.
	return &t.sets[binary.LittleEndian.Uint64(id[:])%uint64(len(t.sets))]
}

// get finds the verdict of a request id that is not older than recentAge.
func (t *recent) get(id *[16]byte, now int64) (v Verdict, ok bool) {
	s := t.set(id)
	s.mu.Lock()
	for i := range s.ids {
		if s.ids[i] == *id && s.at[i] != 0 {
			if age := now - s.at[i]; age <= int64(recentAge) && age >= -int64(recentAge) {
				v, ok = s.kept[i], true
			}
			break
		}
	}
	s.mu.Unlock()
	return v, ok
}

// put remembers a verdict.
func (t *recent) put(id *[16]byte, v Verdict, now int64) {
	s := t.set(id)
	s.mu.Lock()
	oldest := 0
	for i := range s.at {
		if s.ids[i] == *id {
			oldest = i
			break
		}
		if s.at[i] < s.at[oldest] {
			oldest = i
		}
	}
	s.ids[oldest], s.at[oldest], s.kept[oldest] = *id, now, v
	s.mu.Unlock()
}
