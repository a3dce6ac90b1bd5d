package server

import (
	"context"
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// What gates have learned is kept in one file, little-endian:
//
//	"stile learned 1\n"
//	seed of the keys: 8 bytes
//	number of servers that tell of ends: 4 bytes, and a key of 8 for each
//	the state of budget.Costs
//
// There are only hashes in it, no paths and no addresses. The seed is beside them, or they
// would be of no use: who may read the file can find out whether a URL that he guesses has
// been asked for.
const (
	learnedFile  = "learned"
	learnedMagic = "stile learned 1\n"
	saveEvery    = 5 * time.Minute
)

var errLearned = errors.New("this is not what stile has learned, or another version's")

// restore takes what was learned before the last stop. A file that cannot be used is as
// good as none: it is said, and learning begins anew.
func (s *Server) restore() {
	file := filepath.Join(s.started.State.Dir, learnedFile)
	// What a save leaves behind that was killed.
	if left, err := filepath.Glob(file + ".new-*"); err == nil {
		for _, name := range left {
			os.Remove(name)
		}
	}
	b, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err == nil {
		err = s.gates.restore(b)
	}
	if err != nil {
		s.log.Warn("what gates had learned is not used: costs are learned anew", "file", file, "error", err.Error())
	}
}

// save writes what has been learned.
func (s *Server) save() {
	file := filepath.Join(s.started.State.Dir, learnedFile)
	if err := writeFile(file, s.gates.appendState(nil)); err != nil {
		s.stats.saveErrors.Inc()
		if held, ok := s.stats.saidSave.say(); ok {
			s.log.Error("what gates have learned cannot be kept", "error", err.Error(), "not_logged", held)
		}
	}
}

// saveNowAndThen saves every saveEvery until ctx ends.
func (s *Server) saveNowAndThen(ctx context.Context) {
	t := time.NewTicker(saveEvery)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			s.save()
		}
	}
}

// writeFile writes a file whole or not at all, also if the machine stops meanwhile.
func writeFile(name string, b []byte) error {
	f, err := os.CreateTemp(filepath.Dir(name), filepath.Base(name)+".new-*")
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return err
}

func (g *gates) appendState(dst []byte) []byte {
	le := binary.LittleEndian
	dst = le.AppendUint64(append(dst, learnedMagic...), g.seed)
	told := g.servers.told()
	dst = le.AppendUint32(dst, uint32(len(told)))
	for _, key := range told {
		dst = le.AppendUint64(dst, key)
	}
	return g.costs.AppendState(dst)
}

// restore is for before the first request.
func (g *gates) restore(b []byte) error {
	const head = len(learnedMagic) + 8 + 4
	if len(b) < head || string(b[:len(learnedMagic)]) != learnedMagic {
		return errLearned
	}
	le := binary.LittleEndian
	seed, n := le.Uint64(b[head-12:]), le.Uint32(b[head-4:])
	b = b[head:]
	if n > maxServers || len(b) < int(n)*8 {
		return errLearned
	}
	if err := g.costs.Restore(b[n*8:]); err != nil {
		return err
	}
	g.seed = seed
	for range n {
		g.servers.remember(le.Uint64(b))
		b = b[8:]
	}
	return nil
}
