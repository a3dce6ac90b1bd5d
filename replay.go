package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"stile/replay"
)

func replayLogs(args []string) int {
	f := flags("replay", "[-c FILE] [--format FORMAT] [--html OUT] [--since TIME] [--until TIME] LOG...", `Runs access logs through the decision, with the log's own clock, and prints what would
have happened: who would have been asked for a proof or refused, by which rule and limit,
which limits would have asked nobody, and how gates would have filled.

LOG is a file of nginx's, plain or packed by gzip, or - for standard input. Several are
merged by time. Lines in the log's zone; nothing is sent anywhere, nothing is kept.
`)
	file := f.String("c", "", "configuration `file`")
	format := f.String("format", "", "`format` of the lines: combined, json, the string of a log_format in nginx.conf, or the whole directive (default: what the first lines look like)")
	html := f.String("html", "", "also write the report, with plots, to this `file`: one page without anything from elsewhere")
	since := f.String("since", "", "leave out what ended before this `time`, such as 2026-11-30 or 2026-11-30T06:37 (in the log's zone)")
	until := f.String("until", "", "leave out what ended after this `time`")
	if status, done := parse(f, args); done {
		return status
	}
	if f.NArg() == 0 {
		f.Usage()
		return 2
	}
	cfg, _, ok := load(*file)
	if !ok {
		return 1
	}
	var out *page
	if *html != "" { // a folder that is not there is said now, not after an hour
		var err error
		if out, err = openPage(*html); err != nil {
			return fail(err)
		}
	}
	p := newProgress(os.Stderr, f.Args())
	report, err := replay.Run(replay.Options{Config: cfg, Logs: f.Args(), Stdin: os.Stdin, Format: *format, Since: *since, Until: *until, Progress: p.update})
	p.end()
	if err != nil {
		out.leave()
		return fail(err)
	}
	// The page first: when nobody reads the tables any more (| head) this process ends.
	if err := errors.Join(out.write(report), report.WriteText(os.Stdout)); err != nil {
		return fail(err)
	}
	return 0
}

// page is the file of a report. Nothing is changed in it before there is a report.
type page struct {
	file *os.File
	made bool // it was not there before
}

const pageBegin = "<!DOCTYPE html>"

func openPage(name string) (*page, error) {
	// Addresses are in it, as in nginx's logs: it has their mode.
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o640)
	if err == nil {
		return &page{f, true}, nil
	}
	if !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	if f, err = os.OpenFile(name, os.O_RDWR, 0); err != nil {
		return nil, err
	}
	// Who forgets to name the report names a log in its place.
	if st, err := f.Stat(); err == nil && st.Mode().IsRegular() && st.Size() > 0 {
		begin := make([]byte, len(pageBegin))
		if _, err := f.ReadAt(begin, 0); err != nil || string(begin) != pageBegin {
			f.Close()
			return nil, fmt.Errorf("--html %s: the file is there and is no report: it would be lost; name another, or remove it", name)
		}
	}
	return &page{f, false}, nil
}

// write puts a report in the place of what was there.
func (p *page) write(r *replay.Report) error {
	if p == nil {
		return nil
	}
	if st, err := p.file.Stat(); err == nil && st.Mode().IsRegular() {
		if err := p.file.Truncate(0); err != nil {
			return err
		}
	}
	b := bufio.NewWriter(p.file)
	return errors.Join(r.WriteHTML(b), b.Flush(), p.file.Close())
}

// leave is for when there is no report.
func (p *page) leave() {
	if p == nil {
		return
	}
	p.file.Close()
	if p.made {
		os.Remove(p.file.Name())
	}
}

// progress is a bar on a terminal; elsewhere it does nothing.
type progress struct {
	out   io.Writer // nil: no terminal
	total int64     // bytes of the files; 0: not known
	begun time.Time
	last  atomic.Int64 // when it was drawn
}

func newProgress(out *os.File, names []string) *progress {
	p := &progress{begun: time.Now()}
	if st, err := out.Stat(); err != nil || st.Mode()&os.ModeCharDevice == 0 || os.Getenv("TERM") == "" || os.Getenv("TERM") == "dumb" {
		return p
	}
	p.out = out
	for _, name := range names {
		st, err := os.Stat(name)
		if err != nil || !st.Mode().IsRegular() {
			p.total = 0
			return p
		}
		p.total += st.Size()
	}
	return p
}

// update draws the bar, at most ten times a second.
func (p *progress) update(read int64) {
	if p.out == nil {
		return
	}
	now := time.Since(p.begun)
	if now < 200*time.Millisecond || int64(now)-p.last.Load() < int64(100*time.Millisecond) {
		return
	}
	p.last.Store(int64(now))
	fmt.Fprintf(p.out, "\r\x1b[K%s", progressLine(read, p.total, now))
}

func (p *progress) end() {
	if p.out != nil && p.last.Load() > 0 {
		fmt.Fprint(p.out, "\r\x1b[K")
	}
}

// progressLine is the bar: how much, how fast, and how long still.
func progressLine(read, total int64, spent time.Duration) string {
	speed := float64(read) / spent.Seconds()
	if total <= 0 {
		return fmt.Sprintf("%.0f MB  %.0f MB/s", float64(read)/1e6, speed/1e6)
	}
	share := min(float64(read)/float64(total), 1)
	const width = 30
	done := int(share * width)
	left := ""
	if speed > 0 {
		left = time.Duration(float64(total-min(read, total)) / speed * 1e9).Round(time.Second).String()
	}
	return fmt.Sprintf("[%s%s] %3.0f %%  %.0f MB/s  %s left", strings.Repeat("=", done), strings.Repeat(" ", width-done), 100*share, speed/1e6, left)
}
