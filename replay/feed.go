package replay

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync/atomic"
)

// feed is all logs, merged by time.
type feed struct {
	waiting []*log // not opened again yet, by the time of their first request, the last one first
	open    []*log // with a request in head
	formats []string
	done    atomic.Int64 // bytes read
	stdin   io.Reader
	skip    Skipped
	bytes   int64            // of lines
	has     [fieldCount]bool // of any of the logs
	offset  int              // of the logs' clock, seconds east of Greenwich
}

// titles are logs as the operator is told of them.
func titles(names []string) string {
	list := slices.Clone(names)
	for i := range list {
		if list[i] == "-" {
			list[i] = "standard input"
		}
	}
	return strings.Join(list, ", ")
}

// twice is an error if two names are one log's: its requests would count twice.
func twice(names []string) error {
	var seen []os.FileInfo
	for _, name := range names {
		st, err := os.Stat(name)
		for k, other := range seen {
			if names[k] == name || err == nil && other != nil && os.SameFile(st, other) {
				return fmt.Errorf("%s and %s are the same log: its requests would count twice; name it once", names[k], name)
			}
		}
		if err != nil {
			st = nil
		}
		seen = append(seen, st)
	}
	return nil
}

// newFeed looks at the beginning of each log, for its format and for when it begins.
func newFeed(names []string, text, passCookie string, stdin io.Reader) (*feed, error) {
	if err := twice(names); err != nil {
		return nil, err
	}
	f := &feed{stdin: stdin}
	var given *format
	if text != "" {
		var err error
		if given, err = compile(text, passCookie); err != nil {
			return nil, err
		}
	}
	var errs []error
	for _, name := range names {
		l, err := f.peek(name, given, passCookie)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if l != nil {
			f.waiting = append(f.waiting, l)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if len(f.waiting) == 0 {
		return nil, fmt.Errorf("there is no line in %s", titles(names))
	}
	f.offset = f.waiting[0].parser.clock.offset
	for _, l := range f.waiting {
		for k, has := range l.parser.format.has {
			f.has[k] = f.has[k] || has
		}
	}
	slices.SortStableFunc(f.waiting, func(a, b *log) int { return cmpInt(b.first, a.first) })
	f.done.Store(0)
	return f, nil
}

func cmpInt(a, b int64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// peek opens a log, and reads its first lines. A log without any is nil: one is made by
// each rotation. A file is closed again until its turn comes: there may be hundreds.
func (f *feed) peek(name string, given *format, passCookie string) (*log, error) {
	in, err := open(name, f.stdin, &f.done)
	if err != nil {
		return nil, err
	}
	l := &log{name: in.name, lines: in, skip: &f.skip}
	for len(l.ahead) < detectLines {
		line, err := in.next()
		if err == io.EOF {
			break
		}
		if err != nil {
			in.close()
			return nil, err
		}
		l.ahead = append(l.ahead, line)
	}
	if len(l.ahead) == 0 {
		in.close()
		return nil, nil
	}
	fm := given
	if given == nil {
		if fm, err = detect(l.ahead, passCookie); err != nil {
			in.close()
			return nil, l.binary(err)
		}
	} else if given.object != nil {
		given.learn(l.ahead)
	}
	l.parser.format = fm
	if !slices.Contains(f.formats, fm.name) {
		f.formats = append(f.formats, fm.name)
	}
	var r record
	for _, line := range l.ahead {
		if why := l.parser.read(line, &r); why == fine || why == noAsk {
			l.first = r.end
			break
		}
	}
	if name != "-" {
		l.ahead, l.lines = nil, nil
		in.close()
	}
	l.name = name
	return l, nil
}

// next is the next request of all logs, by the time of its end; io.EOF after the last.
func (f *feed) next(r *record) error {
	if len(f.waiting) == 0 && len(f.open) == 1 {
		// Fast path: the only log, or the last.
		l := f.open[0]
		if l.ready {
			*r, l.ready = l.head, false
			return nil
		}
		if err := l.next(r); err != nil {
			return f.end(l, err)
		}
		return nil
	}
	for {
		least := f.least()
		if n := len(f.waiting); n > 0 && (least < 0 || f.waiting[n-1].first <= f.open[least].head.end) {
			if err := f.start(f.waiting[n-1]); err != nil {
				return err
			}
			f.waiting = f.waiting[:n-1]
			continue
		}
		if least < 0 {
			return io.EOF
		}
		l := f.open[least]
		*r = l.head
		return f.advance(l)
	}
}

// nothing is the error when there was no request to replay.
func (f *feed) nothing(names []string) error {
	k := &f.skip
	var why []string
	for _, c := range []struct {
		n    int64
		what string
	}{
		{k.Outside, "ended outside of the time that was asked for (--since, --until)"},
		{k.Own, "nginx answered without stile (it could not read them), or were for stile's own pages"},
		{k.Unfit, "are lines that do not have the format's shape"},
	} {
		if c.n > 0 {
			why = append(why, count(c.n)+" "+c.what)
		}
	}
	return fmt.Errorf("none of the %s requests in %s can be replayed: %s", count(k.Outside+k.Own+k.Unfit), titles(names), strings.Join(why, ", "))
}

// least is the log whose next request is the oldest; of equals the first.
func (f *feed) least() int {
	if len(f.open) == 0 {
		return -1
	}
	at := 0
	for i := 1; i < len(f.open); i++ {
		if f.open[i].head.end < f.open[at].head.end {
			at = i
		}
	}
	return at
}

func (f *feed) start(l *log) error {
	if l.lines == nil {
		in, err := open(l.name, f.stdin, &f.done)
		if err != nil {
			return err
		}
		l.lines = in
	}
	f.open = append(f.open, l)
	return f.advance(l)
}

// advance reads a log's next request, and closes it after the last.
func (f *feed) advance(l *log) error {
	err := l.next(&l.head)
	if l.ready = err == nil; l.ready {
		return nil
	}
	if err = f.end(l, err); err == io.EOF {
		return nil
	}
	return err
}

// end closes a log after its last request.
func (f *feed) end(l *log, err error) error {
	f.bytes += l.lines.bytes
	f.skip.Unfit += l.lines.long
	l.lines.close()
	f.open = slices.DeleteFunc(f.open, func(o *log) bool { return o == l })
	return err
}

// close closes what is open.
func (f *feed) close() {
	for _, l := range f.open {
		l.lines.close()
	}
}

// timed tells whether a log says how long requests took.
func (f *feed) timed() bool { return f.has[fieldTook] || f.has[fieldUpstreamTime] }
