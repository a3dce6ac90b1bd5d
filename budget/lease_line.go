package budget

import (
	"bytes"
	"encoding/hex"
	"errors"
	"time"
)

// Line is what nginx tells at the end of a request, in a datagram of its access log:
//
//	log_format stile_lease '$request_id $status $upstream_bytes_received $upstream_response_time $stile_cost $request_completion';
//	access_log syslog:server=unix:…,tag=stile stile_lease;
//
// where $stile_cost is a number that the backend sent in a header, or "-".
type Line struct {
	ID     ID
	Status int // 0: none was sent
	// Reached tells whether a backend was asked.
	Reached bool
	// Complete tells whether the client was sent the whole answer. False if the line has no
	// $request_completion.
	Complete bool
	// Cost is of all backends together that were asked.
	Cost Cost
	// Told is what the backend said that the request costs, in a unit of its own; -1: nothing.
	Told int64
}

// End is what a line says of the backend's work.
type End uint8

const (
	Finished End = iota // it has been done
	// Cut: the client went away in the middle of an answer, and nginx has closed its connection
	// to the backend, also where proxy_ignore_client_abort is on (nginx 1.22). The backend
	// notices when it next writes. A client that read slowly and left after the backend was
	// done looks the same.
	Cut
	// Working: the backend works on. The client went away (499) from a location without
	// proxy_ignore_client_abort, nginx has lost patience with the backend (504), or one of its
	// old workers was ended (000).
	Working
)

// End tells whether the backend has done its work, so that the lease may end.
func (l *Line) End() End {
	switch {
	case !l.Reached:
		return Finished
	case l.Status == 499 || l.Status == 504 || l.Status == 0:
		return Working
	case !l.Complete:
		return Cut
	}
	return Finished
}

// Teaches tells whether the line, if it is of a plain GET, says what the request costs. It
// does not if the client went away in the middle: that too has status 200 (nginx 1.22, with
// and without proxy_ignore_client_abort), and the bytes until then. Nor does it if the backend
// has sent nothing: then nginx had the answer from elsewhere (proxy_cache_use_stale, an error
// page with status 200), and the backend may have died of this very page.
func (l *Line) Teaches() bool {
	return l.Status == 200 && l.Reached && l.Complete && l.Cost.Bytes > 0
}

// maxLine is longer than any line that nginx writes for a request that has asked a
// hundred backends.
const maxLine = 4096

var errLine = errors.New("not a line of nginx's lease log")

// Parse reads a datagram. Anything but exactly what nginx writes is an error. It does not
// allocate.
func (l *Line) Parse(datagram []byte) error {
	*l = Line{}
	if len(datagram) > maxLine || !l.parse(datagram) {
		*l = Line{}
		return errLine
	}
	return nil
}

func (l *Line) parse(b []byte) bool {
	b, ok := cutHeader(b)
	if !ok || len(b) < 32+1+3+1 || b[32] != ' ' || b[36] != ' ' {
		return false
	}
	for _, c := range b[:32] {
		if c >= 'A' && c <= 'F' { // one spelling
			return false
		}
	}
	if _, err := hex.Decode(l.ID[:], b[:32]); err != nil {
		return false
	}
	status, none, ok := cutNumber(b[33:36], 3)
	if !ok || len(none) != 0 || status < 100 && status != 0 {
		return false
	}
	l.Status = int(status)

	asked, b, ok := l.cutList(b[37:], false)
	if !ok || len(b) == 0 || b[0] != ' ' {
		return false
	}
	timed, b, ok := l.cutList(b[1:], true)
	if !ok || asked != timed {
		return false
	}
	if len(b) == 0 || b[0] != ' ' {
		return false
	}
	if b = b[1:]; len(b) > 0 && b[0] == '-' {
		l.Told, b = -1, b[1:]
	} else if l.Told, b, ok = cutNumber(b, 15); !ok {
		return false
	}
	l.Complete = string(b) == " OK"
	return l.Complete || len(b) == 0 || string(b) == " "
}

// cutHeader cuts off "<190>Nov 30 04:43:02 host stile: "; the host may be missing. See RFC
// 3164, 4.1.
func cutHeader(b []byte) (rest []byte, ok bool) {
	if len(b) == 0 || b[0] != '<' {
		return nil, false
	}
	priority, b, ok := cutNumber(b[1:], 3)
	if !ok || priority > 191 || len(b) < 17 || b[0] != '>' {
		return nil, false
	}
	const stamp = "aaa 00 00:00:00 " // the day may begin with a space
	for i, c := range b[1:17] {
		switch stamp[i] {
		case 'a':
			ok = c >= 'A' && c <= 'z'
		case '0':
			ok = c >= '0' && c <= '9' || i == 4 && c == ' '
		default:
			ok = c == stamp[i]
		}
		if !ok {
			return nil, false
		}
	}
	b = b[17:]
	if rest, ok := bytes.CutPrefix(b, []byte("stile: ")); ok {
		return rest, true
	}
	if i := bytes.IndexByte(b, ' '); i > 0 {
		return bytes.CutPrefix(b[i+1:], []byte("stile: "))
	}
	return nil, false
}

// cutList reads one value for each backend that was asked, with ", " between those that
// were tried one after the other and " : " after an internal redirect, which may also be
// the end. It counts the values, below zero if that is the end.
func (l *Line) cutList(b []byte, times bool) (n int, rest []byte, ok bool) {
	for {
		if times {
			b, ok = l.cutTime(b)
		} else {
			b, ok = l.cutBytes(b)
		}
		if !ok {
			return 0, nil, false
		}
		n++
		switch {
		case bytes.HasPrefix(b, []byte(", ")):
			b = b[2:]
		case bytes.HasPrefix(b, []byte(" : ")):
			if b = b[3:]; len(b) == 0 || b[0] == ' ' {
				return -n, b, true
			}
		default:
			return n, b, true
		}
	}
}

func (l *Line) cutBytes(b []byte) (rest []byte, ok bool) {
	if len(b) > 0 && b[0] == '-' {
		return b[1:], true
	}
	l.Reached = true
	n, rest, ok := cutNumber(b, 15)
	l.Cost.Bytes += n
	return rest, ok
}

func (l *Line) cutTime(b []byte) (rest []byte, ok bool) {
	if len(b) > 0 && b[0] == '-' {
		return b[1:], true
	}
	l.Reached = true
	seconds, b, ok := cutNumber(b, 7)
	if !ok || len(b) < 4 || b[0] != '.' {
		return nil, false
	}
	millis, none, ok := cutNumber(b[1:4], 3)
	if !ok || len(none) != 0 {
		return nil, false
	}
	l.Cost.Time += time.Duration(seconds)*time.Second + time.Duration(millis)*time.Millisecond
	return b[4:], true
}

// cutNumber cuts off a decimal number of at most so many digits. With fifteen, the sum of
// all that a line has room for does not overflow.
func cutNumber(b []byte, digits int) (n int64, rest []byte, ok bool) {
	i := 0
	for i < len(b) && b[i] >= '0' && b[i] <= '9' {
		if i == digits {
			return 0, nil, false
		}
		n = 10*n + int64(b[i]-'0')
		i++
	}
	return n, b[i:], i > 0
}
