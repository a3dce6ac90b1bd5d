package replay

import (
	"math"
	"math/bits"
)

// distinct estimates how many different keys it has been given, within about 1 %, in
// 16 KiB (HyperLogLog, Flajolet and others 2007, with 2^14 registers). Keys need not be hashes.
type distinct struct{ registers [1 << distinctBits]uint8 }

const distinctBits = 14

func (d *distinct) add(key uint64) {
	h := spread(key)
	r := &d.registers[h>>(64-distinctBits)]
	if n := uint8(bits.LeadingZeros64(h<<distinctBits|1<<(distinctBits-1))) + 1; n > *r {
		*r = n
	}
}

// count is the estimate, by Ertl's formula (2017, arXiv 1702.01284, algorithm 6): it has no
// bias between small and large numbers, as the older ones have.
func (d *distinct) count() int {
	const m, q = 1 << distinctBits, 64 - distinctBits
	var have [q + 2]float64
	for _, r := range d.registers {
		have[r]++
	}
	z := m * tau(1-have[q+1]/m)
	for k := q; k > 0; k-- {
		z = (z + have[k]) / 2
	}
	z += m * sigma(have[0]/m)
	return int(math.Round(m * m / (2 * math.Ln2) / z))
}

// sigma is x + x² + 2x⁴ + 4x⁸ + …
func sigma(x float64) float64 {
	if x == 1 {
		return math.Inf(1)
	}
	z, y := x, 1.0
	for {
		x *= x
		before := z
		z += x * y
		y += y
		if z == before {
			return z
		}
	}
}

// tau is the like for registers that are full.
func tau(x float64) float64 {
	if x == 0 || x == 1 {
		return 0
	}
	z, y := 1-x, 1.0
	for {
		x = math.Sqrt(x)
		before := z
		y /= 2
		z -= (1 - x) * (1 - x) * y
		if z == before {
			return z / 3
		}
	}
}

// spread is a bijection that mixes a key well (the finisher of SplitMix64, Steele 2014).
func spread(x uint64) uint64 {
	x += 0x9E3779B97F4A7C15
	x = (x ^ x>>30) * 0xBF58476D1CE4E5B9
	x = (x ^ x>>27) * 0x94D049BB133111EB
	return x ^ x>>31
}
