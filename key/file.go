package key

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// The file: one key a line, "ID HEX", the signing key first; '#' begins a comment.
const fileHeader = "# stile's keys: the first signs, all verify. Keep this file secret; copy it to every replica.\n"

// maxFileBytes bounds what Load reads.
const maxFileBytes = 16 << 10

// startAnew is the way out of a file that holds no keys.
const startAnew = "restore a copy of it, or move it away and start stile anew (all passes end then)"

// Load reads a key file. A file that others than its owner may read is an error.
func Load(file string) (*Ring, error) {
	st, err := os.Stat(file)
	if err != nil {
		return nil, fmt.Errorf("reading keys: %w", outOf(err, file))
	}
	if st.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("reading keys: %s can be read by others (mode %04o): run chmod 600 %s", file, st.Mode().Perm(), file)
	}
	if st.Size() > maxFileBytes {
		return nil, fmt.Errorf("reading keys: %s: %d bytes: too long for a key file: %s", file, st.Size(), startAnew)
	}
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrPermission) && !ours(st) {
		return nil, fmt.Errorf("reading keys: %s belongs to another user than the one who runs stile (%s): chown it", file, me())
	}
	if err != nil {
		return nil, fmt.Errorf("reading keys: %w", err)
	}
	keys, err := parse(text)
	if err != nil {
		return nil, fmt.Errorf("reading keys: %s:%w: %s", file, err, startAnew)
	}
	r, err := NewRing(keys...)
	if err != nil {
		return nil, fmt.Errorf("reading keys: %s: %w: %s", file, err, startAnew)
	}
	return r, nil
}

// LoadOrCreate reads a key file, and makes it with one new key if it is not there.
func LoadOrCreate(file string) (r *Ring, created bool, err error) {
	r, err = Load(file)
	if !errors.Is(err, fs.ErrNotExist) {
		return r, false, err
	}
	if err := Create(file); err != nil {
		if errors.Is(err, fs.ErrExist) { // another process was faster
			r, err = Load(file)
			return r, false, err
		}
		return nil, false, err
	}
	r, err = Load(file)
	return r, err == nil, err
}

// Create makes a key file with one new key, mode 0600. It never overwrites. Made by
// root, the file belongs to the owner of its folder: the user who runs the daemon.
func Create(file string) error {
	if err := write(file, []Key{Generate(1)}, false); err != nil {
		return fmt.Errorf("making a key file: %w", outOf(err, file))
	}
	return nil
}

// Rotate puts a new key in front of a file's keys and keeps at most keep old ones.
// Drop old keys only when the passes that they signed have ended.
func Rotate(file string, keep int) (*Ring, error) {
	r, err := Load(file)
	if err != nil {
		return nil, err
	}
	keep = min(max(keep, 0), MaxKeys-1)
	used := map[byte]bool{}
	old := r.keys[:min(len(r.keys), keep)]
	for _, k := range r.keys {
		used[k.ID] = true // also of those dropped now: their tokens must not meet a new key
	}
	id := r.keys[0].ID
	for ok := true; ok; ok = used[id] {
		id++
	}
	keys := append([]Key{Generate(id)}, old...)
	if err := write(file, keys, true); err != nil {
		return nil, fmt.Errorf("rotating keys: %w", outOf(err, file))
	}
	return NewRing(keys...)
}

func parse(text []byte) ([]Key, error) {
	var keys []Key
	for i, line := range strings.Split(string(bytes.TrimRight(text, "\n")), "\n") {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		id, secret, ok := strings.Cut(line, " ")
		n, err := strconv.ParseUint(id, 10, 8)
		raw, err2 := hex.DecodeString(strings.TrimSpace(secret))
		if !ok || err != nil || err2 != nil || len(raw) != 32 {
			// The line is a secret, even when it is wrong: it is not quoted.
			return nil, fmt.Errorf("%d: want an id from 0 to 255, a space, and 64 hex digits", i+1)
		}
		k := Key{ID: byte(n)}
		copy(k.Secret[:], raw)
		keys = append(keys, k)
	}
	return keys, nil
}

// write puts the keys beside the file, syncs, and moves them into place.
func write(file string, keys []Key, replace bool) (err error) {
	var b strings.Builder
	b.WriteString(fileHeader)
	for _, k := range keys {
		fmt.Fprintf(&b, "%d %x\n", k.ID, k.Secret)
	}
	f, err := os.CreateTemp(filepath.Dir(file), ".key-*") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.WriteString(b.String())
	err = errors.Join(err, f.Sync(), f.Close())
	if err != nil {
		return err
	}
	// Root makes and rotates the key of the daemon's user. If it may not give files
	// away the daemon will say whose this one is.
	like := filepath.Dir(file)
	if replace {
		like = file
	}
	if st, err := os.Stat(like); err == nil && (replace || os.Geteuid() == 0) {
		_ = chownLike(f.Name(), st)
	}
	if replace {
		return os.Rename(f.Name(), file)
	}
	if err := os.Link(f.Name(), file); err != nil { // Link does not replace
		if errors.Is(err, fs.ErrExist) {
			return &fs.PathError{Op: "create", Path: file, Err: fs.ErrExist}
		}
		return err
	}
	return nil
}
