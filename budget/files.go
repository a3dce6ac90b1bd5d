package budget

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/cespare/xxhash/v2"
)

// Files knows what requests cost by the size of a file on disk, whose name is made of the
// segments of a request's path. Safe for concurrent use.
//
// A size is looked up on disk at most every filesAge, and remembered in a table of fixed
// size; a file that is not there is remembered as well. No name leaves the folder that
// the template begins with by way of "..": a segment that is empty, "." or "..", or has a
// slash or a NUL in it, is no file.
type Files struct {
	parts    []string // around the segments
	segments []int    // from 1
	slots    [filesSlots]fileSize
	locks    [filesLocks]sync.Mutex
	seed     uint64
}

const (
	filesSlots = 1 << 13
	filesLocks = 32
	filesAge   = 10 * time.Second
	maxName    = 4096 // Linux takes no longer one
	maxPart    = 16   // the deepest segment of a path
)

type fileSize struct {
	key  uint64
	at   int64 // when it was looked up, 0: never
	size int64 // -1: no file
}

// NewFiles makes a template such as "/srv/packages/{2}/{3}.json": {2} stands for the second
// segment of a request's path.
func NewFiles(template string) (*Files, error) {
	f := &Files{seed: rand.Uint64()}
	rest := template
	for {
		part, after, found := strings.Cut(rest, "{")
		f.parts = append(f.parts, part)
		if !found {
			break
		}
		number, after, found := strings.Cut(after, "}")
		n, err := strconv.Atoi(number)
		if !found || err != nil || n < 1 || n > maxPart || strconv.Itoa(n) != number {
			return nil, fmt.Errorf("file template %q: want {1} to {%d}", template, maxPart)
		}
		f.segments = append(f.segments, n)
		rest = after
	}
	if len(f.segments) == 0 || !strings.HasPrefix(template, "/") {
		return nil, errors.New("file template: want an absolute path with {1} to {16} in it")
	}
	return f, nil
}

// Largest is the largest Size of a path and of the other ways in which a backend may read
// it.
func (f *Files) Largest(path string, others []string, now int64) (size int64, ok bool) {
	size, ok = f.Size(path, now)
	for _, p := range others {
		if n, found := f.Size(p, now); found && (!ok || n > size) {
			size, ok = n, true
		}
	}
	return size, ok
}

// Size is the size of the file of a request's path, normalised, at a time of any one
// clock. ok is false if there is none. It does not allocate if it remembers.
func (f *Files) Size(path string, now int64) (size int64, ok bool) {
	var buf [512]byte
	name, ok := f.appendName(buf[:0], path)
	if !ok {
		return 0, false
	}
	var d xxhash.Digest
	d.ResetWithSeed(f.seed)
	d.Write(name)
	key := d.Sum64()
	i := key % filesSlots
	mu, slot := &f.locks[i%filesLocks], &f.slots[i]
	mu.Lock()
	e := *slot
	mu.Unlock()
	// Fast path: known, and not for too long.
	if age := now - e.at; e.key != key || e.at == 0 || age < 0 || age > int64(filesAge) {
		// Slow path: one look at the file system, with no lock held.
		e = fileSize{key: key, at: now, size: -1}
		if st, err := os.Stat(string(name)); err == nil && st.Mode().IsRegular() {
			e.size = st.Size()
		}
		mu.Lock()
		*slot = e
		mu.Unlock()
	}
	return e.size, e.size >= 0
}

// appendName fills the template in.
func (f *Files) appendName(dst []byte, path string) (name []byte, ok bool) {
	for i, n := range f.segments {
		s := pathSegment(path, n)
		if s == "" || s == "." || s == ".." || strings.IndexByte(s, 0) >= 0 {
			return nil, false
		}
		dst = append(append(dst, f.parts[i]...), s...)
		if len(dst) > maxName {
			return nil, false
		}
	}
	return append(dst, f.parts[len(f.parts)-1]...), true
}

// pathSegment is the n-th segment of a path, counted from 1; "" if there is none.
func pathSegment(path string, n int) string {
	for ; n > 0 && strings.HasPrefix(path, "/"); n-- {
		s := path[1:]
		if i := strings.IndexByte(s, '/'); i >= 0 {
			s, path = s[:i], s[i:]
		} else {
			path = ""
		}
		if n == 1 {
			return s
		}
	}
	return ""
}
