package botauth

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// kept is a directory's keys as they are kept over a restart: an agent whose server is
// down on that day is still known.
type kept struct {
	Origin  string    `json:"origin"`
	Fetched time.Time `json:"fetched"`
	Keys    []keptKey `json:"keys"` // a JSON Web Key Set
}

type keptKey struct {
	Kty string `json:"kty"`
	Crv string `json:"crv"`
	X   string `json:"x"`
	Nbf int64  `json:"nbf,omitempty"`
	Exp int64  `json:"exp,omitempty"`
}

// file is where the keys of a directory are kept. The name tells people whose; the
// origin in it is what counts.
func (v *Verifier) file(origin string) string {
	return filepath.Join(v.dir, strings.NewReplacer("://", "-", ":", "_", "/", "_").Replace(origin)+".json")
}

// save keeps the keys of a directory. The old file stays whole until the new one is.
func (v *Verifier) save(origin string, keys []Key) {
	if v.dir == "" {
		return
	}
	k := kept{Origin: origin, Fetched: v.now().UTC().Truncate(time.Second), Keys: []keptKey{}}
	for i := range keys {
		k.Keys = append(k.Keys, keptKey{"OKP", "Ed25519", base64.RawURLEncoding.EncodeToString(keys[i].Public), keys[i].NotBefore, keys[i].NotAfter})
	}
	if err := write(v.file(origin), &k); err != nil {
		v.log.Warn("an agent's keys cannot be kept for the next start", "directory", origin, "error", err.Error())
	}
}

func write(file string, k *kept) (err error) {
	b, err := json.Marshal(k)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(file), ".keys-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	_, err = f.Write(append(b, '\n'))
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), file)
}

// restoreLocked puts the kept keys of a directory in force, until it has been fetched.
func (v *Verifier) restoreLocked(d *directory) {
	if v.dir == "" {
		return
	}
	keys, at, err := read(v.file(d.origin), d.origin)
	switch now := v.now(); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		v.log.Warn("the kept keys of an agent cannot be read, and are fetched anew", "directory", d.origin, "error", err.Error())
	case at.After(now): // the clock has been set back: they are not trusted for longer
		d.keys, d.good = keys, now
	case now.Sub(at) <= keptFor:
		d.keys, d.good = keys, at
	}
}

func read(file, origin string) (keys []Key, at time.Time, err error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, at, err
	}
	var k kept
	if err := json.Unmarshal(b, &k); err != nil {
		return nil, at, fmt.Errorf("%s: %w", file, err)
	}
	if k.Origin != origin {
		return nil, at, fmt.Errorf("%s: it has the keys of %q", file, k.Origin)
	}
	keys, _, err = ParseDirectory(b)
	return keys, k.Fetched, err
}
