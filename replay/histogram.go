package replay

import "math/bits"

// histogram counts values of 0 and more, the small ones exactly and others within 1/32. It
// has a fixed size (15 KiB).
type histogram struct {
	counts [60 * 32]uint64
	n      uint64
	max    int64
}

// slot is where a value is counted: values below 32 by themselves, others with the 32
// values of their five leading bits after the first.
func slot(v int64) int {
	if v < 32 {
		return int(v)
	}
	shift := bits.Len64(uint64(v)) - 6
	return 32*(shift+1) + int(v>>shift) - 32
}

// top is the largest value that is counted in a slot.
func top(i int) int64 {
	if i < 32 {
		return int64(i)
	}
	shift := i/32 - 1
	return (int64(i%32)+33)<<shift - 1
}

func (h *histogram) add(v int64) {
	v = max(v, 0)
	h.counts[slot(v)]++
	h.n++
	h.max = max(h.max, v)
}

// below is a value that at least that share of all are not above; 0 if there are none.
func (h *histogram) below(share float64) int64 {
	want, seen := share*float64(h.n), uint64(0)
	for i, n := range h.counts {
		if seen += n; n > 0 && float64(seen) >= want {
			return min(top(i), h.max)
		}
	}
	return h.max
}
