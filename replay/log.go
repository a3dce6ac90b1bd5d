package replay

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// Skipped counts lines that are no requests, for the report.
type Skipped struct {
	Unfit    int64    // lines that do not have the format's shape, no address or no time in them, or too long
	Examples []string // of them, as they are in the log, at most 200 bytes of each
	Own      int64    // requests that nginx answers itself: unreadable, or stile's own pages
	Outside  int64    // before --since or after --until
	Late     int64    // requests judged later than they came: they lasted longer than the buffer reaches
	Back     int64    // lines older than one before them by more than a second
	MostBack time.Duration
}

const (
	maxExamples = 5
	firstLines  = 1000 // of which at most half may be unfit
)

// log is one file of those that are replayed.
type log struct {
	name   string
	lines  *lines
	parser parser
	seen   int64 // lines
	unfit  int64
	skip   *Skipped
	head   record
	ready  bool  // there is one in head
	first  int64 // time of its first request
	ahead  []string
}

// next reads the next request.
func (l *log) next(r *record) error {
	for {
		var line string
		if len(l.ahead) > 0 {
			line, l.ahead = l.ahead[0], l.ahead[1:]
		} else {
			var err error
			if line, err = l.lines.next(); err != nil {
				if err == io.EOF && l.seen > 0 && l.unfit*2 > l.seen {
					return l.misfit()
				}
				return err
			}
		}
		l.seen++
		switch l.parser.read(line, r) {
		case fine:
			return nil
		case noAsk:
			l.skip.Own++
		default:
			l.unfit++
			l.skip.Unfit++
			if len(l.skip.Examples) < maxExamples {
				l.skip.Examples = append(l.skip.Examples, fmt.Sprintf("%s:%d: %s", l.name, l.seen, strings.Clone(line[:min(len(line), 200)])))
			}
			if l.seen <= firstLines && l.unfit > firstLines/2 {
				return l.misfit()
			}
		}
	}
}

func (l *log) misfit() error {
	example, way := "", "give the log_format of nginx.conf by --format"
	if len(l.skip.Examples) > 0 {
		example = ", such as " + fmt.Sprintf("%.240q", l.skip.Examples[len(l.skip.Examples)-1])
	}
	f := l.parser.format
	if f.learned {
		var missing []string
		for _, k := range f.lacks() {
			missing = append(missing, fmt.Sprintf("no %s (such as %s)", needs[k].what, needs[k].keys))
		}
		if missing != nil {
			way = "its first objects have " + strings.Join(missing, ", ") + ": those keys are what stile knows them by"
		}
	}
	return fmt.Errorf("%s: %d of the first %d lines do not have the format that was tried (%s)%s: %s", l.name, l.unfit, l.seen, f.name, example, way)
}

// binary says so if a log is no text.
func (l *log) binary(err error) error {
	for _, line := range l.ahead {
		if strings.IndexByte(line, 0) >= 0 {
			return fmt.Errorf("%s is no log: it has binary data in it", l.name)
		}
	}
	return fmt.Errorf("%s: %w", l.name, err)
}
