package replay

import (
	"time"

	"github.com/cespare/xxhash/v2"

	"stile/config"
	"stile/decide"
)

// places of the tables; callers that ask for little are forgotten when there are more.
const (
	callerPlaces  = 1 << 16
	widePlaces    = 1 << 15
	segmentPlaces = 1 << 15
)

// demands is what is asked of the meters, whatever their limits: what limits can be chosen
// from.
type demands struct {
	meters  []config.Meter
	callers *crowd // by network, or by user
	wide    *crowd // the networks around strangers
	pieces  *crowd // of meters per segment: by their key
	all     []total
	sum     uint64 // of touch, which must not be left out
}

// total is what is asked of a meter by all strangers together, or by all callers of a pool.
type total struct {
	asked          int64
	begin, n, peak int64 // in windows that begin with the first request
	peakAt         int64 // when the window with the peak began
	minute, m      int64 // in minutes of the clock
	peakMinute     int64
	peakMinuteAt   int64
}

func newDemands(meters []config.Meter) *demands {
	d := &demands{meters: meters, callers: newCrowd(callerPlaces, len(meters)), wide: newCrowd(widePlaces, len(meters)), all: make([]total, len(meters))}
	d.callers.around = d.wide
	for _, m := range meters {
		if len(m.Per.Segments) > 0 && d.pieces == nil {
			d.pieces = newCrowd(segmentPlaces, len(meters))
		}
	}
	return d
}

// touch looks at the places of the callers of requests that come next, and of the networks
// around them: so these come from memory side by side, not one after the other
// (BenchmarkReplay).
func (d *demands) touch(requests []request) {
	sum := uint64(0)
	for i := range requests {
		r := &requests[i]
		sum += d.callers.keys[d.callers.bucket(uint64(r.from))]
		sum += d.wide.keys[d.wide.bucket(uint64(r.from.Wider()[0]))]
	}
	for i := range requests {
		r := &requests[i]
		r.place, _ = d.callers.find(uint64(r.from))
		r.around, _ = d.wide.find(uint64(r.from.Wider()[0]))
	}
	for i := range requests {
		r := &requests[i]
		sum += d.callers.look(r.place) + d.wide.look(r.around)
	}
	d.sum += sum
}

// count counts a request that falls under a rule with these meters; at is its caller's place.
func (d *demands) count(r *decide.Request, meters []int, at, around int, now int64) {
	for _, m := range meters {
		c := &d.meters[m]
		if r.Caller.Kind == decide.Stranger {
			d.all[m].add(now, c.Window)
		}
		switch {
		case len(c.Per.Segments) > 0:
			key := uint64(m)
			if c.Per.Caller {
				key = spread(key ^ d.callers.keys[at])
			}
			for _, n := range c.Per.Segments {
				key = spread(key ^ xxhash.Sum64String(decide.Segment(r.Path, n)))
			}
			i := d.pieces.at(key | 1)
			e := d.pieces.caller(i)
			e.requests++
			e.factor = uint16(b2i(r.Caller.Kind == decide.Stranger))
			d.pieces.want(i, m, now, c.Window)
		case c.Per.Caller:
			d.callers.want(at, m, now, c.Window)
		}
	}
	if r.Caller.Kind != decide.Stranger || len(meters) == 0 {
		return
	}
	for i, w := range r.From.Wider() {
		if w == 0 {
			continue
		}
		if !d.wide.is(around, uint64(w)) {
			around = d.wide.at(uint64(w))
		}
		at := around
		e := d.wide.caller(at)
		e.requests++
		e.factor = uint16(decide.WideFactor(r.From, i))
		for _, m := range meters {
			if c := &d.meters[m]; c.Per.Caller && len(c.Per.Segments) == 0 {
				d.wide.want(at, m, now, c.Window)
			}
		}
	}
}

func (t *total) add(now int64, window time.Duration) {
	t.asked++
	if t.n == 0 || now-t.begin >= int64(window) {
		t.begin, t.n = now, 0
	}
	if t.n++; t.n > t.peak {
		t.peak, t.peakAt = t.n, t.begin
	}
	if minute := now - now%int64(time.Minute); minute != t.minute {
		t.minute, t.m = minute, 0
	}
	if t.m++; t.m > t.peakMinute {
		t.peakMinute, t.peakMinuteAt = t.m, t.minute
	}
}

// settle is for the end: what callers asked for goes into the histograms.
func (d *demands) settle() {
	d.callers.settleAll() // looks at the networks around them
	d.wide.settleAll()
	if d.pieces != nil {
		d.pieces.settleAll()
	}
}

// of is what strangers asked of a meter in their busiest windows, and needed.
func (d *demands) of(m int) (peaks, needs *histogram) {
	if len(d.meters[m].Per.Segments) > 0 {
		return d.pieces.peaks[m], d.pieces.needs[m]
	}
	return d.callers.peaks[m], d.callers.needs[m]
}
