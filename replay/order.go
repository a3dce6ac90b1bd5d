package replay

import (
	"io"
	"time"
)

// nginx logs a request when it ends. What came when is known if its duration is: then
// requests are put in the order in which they came, as far as a buffer of so many, and so
// long, reaches.
const (
	reorderMost = 1 << 16
	reorderTime = int64(2 * time.Minute)
	secondMost  = 1 << 14 // lines of one second that are spread over it
)

// order puts the requests of a feed in the order in which they came.
type order struct {
	feed   *feed
	late   soonest[int32] // into kept, by arrival
	kept   []record
	free   []int32
	newest int64 // end
	ended  bool
	whole  bool // the clock has whole seconds only
	second []record
	begin  record // the first of the next second
	has    bool
}

// next is the next request by the time at which it came.
func (o *order) next(r *record) error {
	for !o.ended && (len(o.late) == 0 || len(o.late) < reorderMost && o.late[0].at+reorderTime > o.newest) {
		switch err := o.readSecond(); {
		case err == io.EOF:
			o.ended = true
		case err != nil:
			return err
		}
	}
	if len(o.late) == 0 {
		return io.EOF
	}
	_, i := o.late.pop()
	*r = o.kept[i]
	o.kept[i] = record{} // lets go of the log's text
	o.free = append(o.free, i)
	return nil
}

// readSecond reads the requests that ended in one second of the log's clock. If it has whole
// seconds only they are spread evenly over it: else all of them would come at once.
func (o *order) readSecond() error {
	o.second = o.second[:0]
	var err error
	if o.has {
		o.second, o.has = append(o.second, o.begin), false
	}
	for err == nil && len(o.second) < secondMost {
		var r record
		if err = o.feed.next(&r); err != nil {
			break
		}
		if len(o.second) > 0 && r.end/1e9 != o.second[0].end/1e9 {
			o.begin, o.has = r, true
			break
		}
		o.second = append(o.second, r)
	}
	n := int64(len(o.second))
	for i := range o.second {
		r := &o.second[i]
		if r.end%1e9 == 0 && o.whole {
			by := (2*int64(i) + 1) * 1e9 / (2 * n)
			r.end, r.at = r.end+by, r.at+by
		}
		o.newest = max(o.newest, r.end)
		o.keep(r)
	}
	if n > 0 && err == io.EOF {
		return nil // and again the next time
	}
	return err
}

func (o *order) keep(r *record) {
	if len(o.free) == 0 {
		o.kept = append(o.kept, record{})
		o.free = append(o.free, int32(len(o.kept)-1))
	}
	i := o.free[len(o.free)-1]
	o.free = o.free[:len(o.free)-1]
	o.kept[i] = *r
	o.late.push(r.at, i)
}
