package replay

import (
	"strings"
	"time"
)

// clock reads times. Lines come in bursts of the same minute, so it remembers the last one.
type clock struct {
	minute string // "30/Nov/2026:06:37" or "2026-11-30T06:37", as it was
	zone   string // what followed the seconds
	start  int64  // of that minute, unix nanoseconds
	offset int    // seconds east of Greenwich
	known  bool
}

// time is when a line's request ended.
func (p *parser) time() (int64, bool) {
	v := &p.v
	if s := v[fieldMsec]; s != "" {
		return unix(s)
	}
	if s := v[fieldISO]; s != "" {
		if len(s) > 16 {
			return p.clock.read(s, 16, "2006-01-02T15:04Z07:00")
		}
		return unix(s)
	}
	return p.clock.read(v[fieldLocal], 17, "02/Jan/2006:15:04 -0700")
}

// read is a time whose first n bytes are the minute. Seconds may have a fraction.
func (c *clock) read(s string, n int, layout string) (int64, bool) {
	if len(s) < n+4 || s[n] != ':' {
		return 0, false
	}
	tens, ones := s[n+1]-'0', s[n+2]-'0'
	if tens > 6 || ones > 9 { // 60 is a leap second
		return 0, false
	}
	rest, fraction := s[n+3:], int64(0)
	if rest[0] == '.' || rest[0] == ',' {
		end := 1
		for end < len(rest) && '0' <= rest[end] && rest[end] <= '9' {
			end++
		}
		fraction, rest = max(nanos(rest[1:end]), 0), rest[end:]
	}
	if !c.known || s[:n] != c.minute || rest != c.zone {
		t, err := time.Parse(layout, strings.Replace(s[:n], " ", "T", b2i(n == 16))+rest)
		if err != nil || t.Year() < 1980 || t.Year() > 2200 {
			return 0, false
		}
		c.minute, c.zone, c.start, c.known = strings.Clone(s[:n]), strings.Clone(rest), t.UnixNano(), true
		_, c.offset = t.Zone()
	}
	return c.start + int64(tens*10+ones)*1e9 + fraction, true
}

// unix is "1732950000.123", or the same in milliseconds.
func unix(s string) (int64, bool) {
	whole, fraction, _ := strings.Cut(s, ".")
	n, part := number(whole), nanos(fraction)
	switch {
	case part < 0:
	case n > 315_532_800_000 && n < 7_258_118_400_000: // 1980 to 2200 in milliseconds
		return n * 1e6, true
	case n > 315_532_800 && n < 7_258_118_400:
		return n*1e9 + part, true
	}
	return 0, false
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}
