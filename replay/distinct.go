package replay

import (
	"math"
	"math/bits"
)

// distinct estimates how many different keys it has been given, within about 1 %, in
// 16 KiB (HyperLogLog, Flajolet and others 2007, with 2^14 registers; small numbers by how
// many registers are empty). Keys need not be hashes.
type distinct struct{ registers [1 << distinctBits]uint8 }

const distinctBits = 14

func (d *distinct) add(key uint64) {
	h := spread(key)
	r := &d.registers[h>>(64-distinctBits)]
	if n := uint8(bits.LeadingZeros64(h<<distinctBits|1<<(distinctBits-1))) + 1; n > *r {
		*r = n
	}
}

func (d *distinct) count() int {
	const m = 1 << distinctBits
	sum, empty := 0.0, 0
	for _, r := range d.registers {
		sum += math.Ldexp(1, -int(r))
		empty += b2i(r == 0)
	}
	estimate := 0.7213 / (1 + 1.079/m) * m * m / sum
	if estimate <= 2.5*m && empty > 0 {
		estimate = m * math.Log(float64(m)/float64(empty))
	}
	return int(math.Round(estimate))
}

// spread is a bijection that mixes a key well (the finisher of SplitMix64, Steele 2014).
func spread(x uint64) uint64 {
	x += 0x9E3779B97F4A7C15
	x = (x ^ x>>30) * 0xBF58476D1CE4E5B9
	x = (x ^ x>>27) * 0x94D049BB133111EB
	return x ^ x>>31
}
