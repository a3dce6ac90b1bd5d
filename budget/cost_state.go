package budget

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

// The state of Costs, in little-endian binary:
//
//	"stile costs 2\n"
//	number of routes, number of paths: 4 bytes each
//	routes: key 8, period 8, worst 4 + 4, before 4 + 4, paths seen 4
//	paths: key 8, blocks 4, micros 4
//	CRC-32 (IEEE) of all that
const (
	costMagic   = "stile costs "
	costVersion = "2\n"
	costHeader  = len(costMagic) + len(costVersion) + 8
	routeSize   = 36
	pathSize    = 16
)

// AppendState appends what has been learned, to be kept over a restart. It holds no
// names, only the keys.
func (c *Costs) AppendState(dst []byte) []byte {
	start := len(dst)
	dst = append(dst, costMagic+costVersion+"\x00\x00\x00\x00\x00\x00\x00\x00"...)
	le := binary.LittleEndian
	c.mu.RLock()
	routes := len(c.routes)
	for key, r := range c.routes {
		dst = le.AppendUint64(dst, key)
		dst = le.AppendUint64(dst, uint64(r.period))
		dst = le.AppendUint32(r.before.append(r.worst.append(dst)), r.seen)
	}
	c.mu.RUnlock()
	paths := 0
	c.walk(func(e pathCost) {
		paths++
		dst = e.append(le.AppendUint64(dst, e.key))
	})
	counts := dst[start+costHeader-8:]
	le.PutUint32(counts, uint32(routes))
	le.PutUint32(counts[4:], uint32(paths))
	return le.AppendUint32(dst, crc32.ChecksumIEEE(dst[start:]))
}

func (l learned) append(dst []byte) []byte {
	return binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(dst, l.blocks), l.micros)
}

// Restore takes back what AppendState has written, in place of what has been learned
// since. If the table is smaller now, paths are left out. In case of an error nothing has
// changed: to start without what was learned is safe, only slower.
func (c *Costs) Restore(state []byte) error {
	if len(state) < costHeader+4 || string(state[:len(costMagic)]) != costMagic {
		return errors.New("restoring costs: this is no state of costs")
	}
	if v := string(state[len(costMagic) : costHeader-8]); v != costVersion {
		return fmt.Errorf("restoring costs: version %q, want %q", v, costVersion)
	}
	le := binary.LittleEndian
	routes, paths := int64(le.Uint32(state[costHeader-8:])), int64(le.Uint32(state[costHeader-4:]))
	if want := int64(costHeader) + routes*routeSize + paths*pathSize + 4; int64(len(state)) != want {
		return fmt.Errorf("restoring costs: %d bytes, want %d for %d routes and %d paths", len(state), want, routes, paths)
	}
	body, sum := state[:len(state)-4], le.Uint32(state[len(state)-4:])
	if crc32.ChecksumIEEE(body) != sum {
		return errors.New("restoring costs: wrong checksum")
	}
	if routes > maxRoutes {
		return fmt.Errorf("restoring costs: %d routes, want at most %d", routes, maxRoutes)
	}
	read := func(b []byte) learned { return learned{blocks: le.Uint32(b), micros: le.Uint32(b[4:])} }
	fresh := NewCosts(c.Cap(), c.unseen)
	rest := body[costHeader:]
	for ; routes > 0; routes, rest = routes-1, rest[routeSize:] {
		key := le.Uint64(rest)
		r := &route{period: int64(le.Uint64(rest[8:])), worst: read(rest[16:]), before: read(rest[24:]), seen: min(le.Uint32(rest[32:]), enoughPaths)}
		if fresh.routes[key] != nil || r.worst.blocks == 0 || r.worst.micros == 0 {
			return fmt.Errorf("restoring costs: route %#x is there twice, or has no cost", key)
		}
		fresh.routes[key] = r
	}
	for ; paths > 0; paths, rest = paths-1, rest[pathSize:] {
		e := pathCost{key: le.Uint64(rest), learned: read(rest[8:])}
		b, _ := fresh.bucket(e.key)
		i := 0
		for i < len(b)-1 && b[i].blocks != 0 && b[i].key != e.key {
			i++
		}
		switch {
		case e.blocks == 0 || e.micros == 0 || b[i].key == e.key && b[i].blocks != 0:
			return fmt.Errorf("restoring costs: path %#x is there twice, or has no cost", e.key)
		case b[i].blocks == 0:
			b[i] = e
		}
	}

	for i := range c.locks {
		c.locks[i].Lock()
	}
	c.mu.Lock()
	copy(c.buckets, fresh.buckets)
	c.routes = fresh.routes
	c.mu.Unlock()
	for i := range c.locks {
		c.locks[i].Unlock()
	}
	return nil
}
