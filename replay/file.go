package replay

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync/atomic"
)

const (
	pieceSize = 256 << 10 // a log is read in pieces
	// maxLine is the longest line that is taken for one: nginx takes header lines of four
	// times 8 KiB, and writes a byte as up to four.
	maxLine = pieceSize / 2
)

// lines reads a log piece by piece, and hands out its lines.
type lines struct {
	name  string
	in    io.Reader
	close func() error
	done  *atomic.Int64 // bytes of the file that have been read

	piece string // what has been read and not handed out
	buf   []byte
	tail  int   // bytes at the beginning of buf: the beginning of a line
	err   error // of in, handed out after the last line
	skip  bool  // the rest of a line that is too long
	long  int64 // how many were too long
	bytes int64 // of lines, unpacked
}

// open opens a log; "-" is stdin. What is compressed by gzip is unpacked, whatever its name.
func open(name string, stdin io.Reader, done *atomic.Int64) (*lines, error) {
	l := &lines{name: name, done: done, close: func() error { return nil }}
	var file io.Reader = stdin
	if name == "-" {
		l.name = "standard input"
	} else {
		f, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		if st, err := f.Stat(); err == nil && st.IsDir() {
			f.Close()
			return nil, fmt.Errorf("%s is a folder: name the logs in it", name)
		}
		file, l.close = f, f.Close
	}
	if err := l.unpack(counting{file, done}); err != nil {
		l.close()
		return nil, err
	}
	l.buf = make([]byte, pieceSize)
	return l, nil
}

// unpack looks at the first bytes for how the log is packed.
func (l *lines) unpack(file io.Reader) error {
	b := bufio.NewReaderSize(file, 64<<10)
	begin, err := b.Peek(6)
	if err != nil && err != io.EOF {
		return fmt.Errorf("%s: %w", l.name, err)
	}
	for _, p := range [...]struct{ magic, program string }{{"\x28\xb5\x2f\xfd", "zstd -dc"}, {"BZh", "bzip2 -dc"}, {"\xfd7zXZ\x00", "xz -dc"}, {"\x04\x22\x4d\x18", "lz4 -dc"}} {
		if bytes.HasPrefix(begin, []byte(p.magic)) {
			return fmt.Errorf("%s is packed in a way that stile does not unpack: %s %s | stile replay -", l.name, p.program, l.name)
		}
	}
	l.in = b
	if !bytes.HasPrefix(begin, []byte{0x1f, 0x8b}) {
		return nil
	}
	z, err := gzip.NewReader(b)
	if err != nil {
		return l.wrap(err)
	}
	l.in = z
	return nil
}

func (l *lines) wrap(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%s: the compressed log is cut off: it ends before its end is said; was it still being written? (zcat FILE | stile replay - reads what is there)", l.name)
	}
	if errors.Is(err, gzip.ErrHeader) || errors.Is(err, gzip.ErrChecksum) {
		return fmt.Errorf("%s: the compressed log is broken: %w", l.name, err)
	}
	return fmt.Errorf("%s: %w", l.name, err)
}

// next is the next line that is not empty, without its end. At the end of the log, io.EOF.
// The line is part of a piece of 256 KiB, which stays in memory as long as it is kept.
func (l *lines) next() (string, error) {
	for {
		for l.piece != "" {
			line := l.piece
			if n := strings.IndexByte(line, '\n'); n >= 0 {
				line, l.piece = line[:n], line[n+1:]
			} else {
				l.piece = ""
			}
			if n := len(line); n > 0 && line[n-1] == '\r' {
				line = line[:n-1]
			}
			if line != "" {
				return line, nil
			}
		}
		if l.err != nil {
			return "", l.err
		}
		l.fill()
	}
}

// fill reads the next piece: whole lines, and at the end of the log what is left.
func (l *lines) fill() {
	n, err := l.in.Read(l.buf[l.tail:min(l.tail+128<<10, len(l.buf))])
	l.bytes += int64(n)
	b := l.buf[:l.tail+n]
	if err != nil {
		l.err, l.tail = err, 0
		if err != io.EOF {
			l.err = l.wrap(err)
		}
		if !l.skip {
			l.piece = string(b)
		}
		return
	}
	end := bytes.LastIndexByte(b, '\n') + 1
	if l.skip {
		begin := bytes.IndexByte(b, '\n') + 1
		if begin == 0 {
			l.tail = 0
			return
		}
		l.skip = false
		b, end = b[begin:], end-begin
	}
	// A copy of its own, so that lines may be kept: 1 % of the time (BenchmarkReplay).
	l.piece = string(b[:end])
	l.tail = copy(l.buf, b[end:])
	if l.tail > maxLine {
		l.long++
		l.skip, l.tail = true, 0
	}
}

// counting counts what is read.
type counting struct {
	r io.Reader
	n *atomic.Int64
}

func (c counting) Read(b []byte) (int, error) {
	n, err := c.r.Read(b)
	c.n.Add(int64(n))
	return n, err
}
