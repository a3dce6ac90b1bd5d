package config

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// sizes are the units of bytes, the larger of two that fit first.
var sizes = []struct {
	name string
	is   int64
}{
	{"TiB", 1 << 40}, {"TB", 1e12}, {"GiB", 1 << 30}, {"GB", 1e9}, {"MiB", 1 << 20}, {"MB", 1e6}, {"KiB", 1 << 10}, {"KB", 1e3}, {"B", 1},
}

var amountText = regexp.MustCompile(`^([0-9]+(?:\.[0-9]+)?)([A-Za-z]*)$`)

// Parse reads an amount as a gate's budget and costs are written: "16MiB" or "1.5GB"
// of bytes, "8s" or "500ms" of backend time, "8" requests. It is rounded to whole bytes
// and microseconds. The error says what to write. It allows 0 and knows no
// bounds; an absurd amount is a large one.
func (u Unit) Parse(s string) (int64, error) {
	switch u {
	case Bytes:
		if g := amountText.FindStringSubmatch(s); g != nil {
			for _, size := range sizes {
				if size.name == g[2] {
					n, _ := strconv.ParseFloat(g[1], 64) // an infinite one is large
					return int64(min(math.Round(n*float64(size.is)), 1<<62)), nil
				}
			}
		}
		if hint := meantSize(s); hint != "" {
			return 0, fmt.Errorf("did you mean %q?", hint)
		}
		if _, err := parseDuration(s); err == nil {
			return 0, errors.New(`the budget is in bytes: want a size such as "1MiB"`)
		}
		return 0, errors.New(`want a number and a unit (B, KB, MB, GB, TB, KiB, MiB, GiB, TiB), such as "1MiB"`)
	case Micros:
		if d, err := parseDuration(s); err == nil {
			return d.Round(time.Microsecond).Microseconds(), nil
		}
		if hint := meantDuration(s); hint != "" {
			return 0, fmt.Errorf("did you mean %q?", hint)
		}
		if _, err := Bytes.Parse(s); err == nil {
			return 0, errors.New(`the budget is a time: want a duration such as "500ms"`)
		}
		return 0, errors.New(`want a number and a unit (ms, s, m, h, d), such as "500ms"`)
	}
	if !isDigits(s) {
		return 0, errors.New("the budget counts requests: want a whole number, such as 1")
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		n = 1 << 62
	}
	return n, nil
}

// Format writes an amount as Parse reads it: "16MiB", "1.5ms", "8".
func (u Unit) Format(n int64) string {
	switch u {
	case Bytes:
		for _, size := range sizes {
			if n >= size.is && n%size.is == 0 {
				return fmt.Sprintf("%d%s", n/size.is, size.name)
			}
		}
		return fmt.Sprintf("%dB", n)
	case Micros:
		if n%1000 != 0 {
			return strconv.FormatFloat(float64(n)/1000, 'f', -1, 64) + "ms"
		}
		return short(time.Duration(n) * time.Microsecond)
	}
	return strconv.FormatInt(n, 10)
}

// written is an amount as it stands in a file: with quotes if it has a unit.
func (u Unit) written(n int64) string {
	if u == Requests {
		return u.Format(n)
	}
	return strconv.Quote(u.Format(n))
}

// least is the smallest amount that a budget or a cost may be.
func (u Unit) least() int64 {
	if u == Micros {
		return 1000
	}
	return 1
}

// most is the largest that a budget may be. More requests than that are no machine's:
// then bytes were meant.
func (u Unit) most() int64 {
	switch u {
	case Bytes:
		return 1 << 50
	case Micros:
		return int64(13031 * 24 * time.Hour / time.Microsecond) // whole days below 2^50
	}
	return 1_000_000
}

// meantSize is the size that was most likely meant by one in other letters, "" if none
// is near. A K, M, G or T alone is taken as nginx takes it: as a power of 1024.
func meantSize(s string) string {
	g := amountText.FindStringSubmatch(strings.ReplaceAll(strings.TrimSpace(s), " ", ""))
	if g == nil {
		return ""
	}
	switch unit := strings.ToLower(g[2]); unit {
	case "byte", "bytes":
		return g[1] + "B"
	case "k", "m", "g", "t", "ki", "mi", "gi", "ti":
		return g[1] + strings.ToUpper(unit[:1]) + "iB"
	default:
		for _, size := range sizes {
			if strings.EqualFold(size.name, unit) {
				return g[1] + size.name
			}
		}
	}
	return ""
}

// meantDuration is the same of a time.
func meantDuration(s string) string {
	g := amountText.FindStringSubmatch(strings.ReplaceAll(strings.TrimSpace(s), " ", ""))
	if g == nil || g[2] == "M" {
		return ""
	}
	unit := strings.ToLower(g[2])
	switch unit {
	case "sec", "secs", "second", "seconds":
		unit = "s"
	case "min", "mins", "minute", "minutes":
		unit = "m"
	case "msec", "millisecond", "milliseconds":
		unit = "ms"
	}
	if _, err := parseDuration(g[1] + unit); err != nil {
		return ""
	}
	return g[1] + unit
}

// amount is a key in a gate's unit, from low to high. more says more about one above.
func (t *table) amount(key string, u Unit, low, high int64, more string) (n int64, ok bool) {
	switch v := t.keys[key].(type) {
	case nil:
		return 0, false
	case int64:
		if u != Requests {
			t.wrong(key, "%s", u.bare(v, low, high))
			return 0, false
		}
		n = v
	case string:
		if u == Requests && isDigits(v) {
			t.wrong(key, "want the number without quotes: %s = %s", key, v)
			return 0, false
		}
		if u != Requests && isDigits(v) {
			n, _ := Requests.Parse(v)
			t.wrong(key, "%s", u.bare(n, low, high))
			return 0, false
		}
		var err error
		if n, err = u.Parse(v); err != nil {
			t.wrong(key, "%v", err)
			return 0, false
		}
	default:
		t.wrong(key, "want %s", u.example())
		return 0, false
	}
	switch {
	case n > high:
		t.wrong(key, "%swant %s to %s", more, u.written(low), u.written(high))
	case n < low:
		t.wrong(key, "want %s to %s", u.written(low), u.written(high))
	default:
		return n, true
	}
	return 0, false
}

// bare says what to write in place of a number without a unit.
func (u Unit) bare(n, low, high int64) string {
	switch {
	case u == Bytes && n >= low && n <= high:
		return "want a size such as " + u.written(n)
	case u == Micros && n <= math.MaxInt32 && n*1e6 >= low && n*1e6 <= high:
		return "want a duration such as " + u.written(n*1e6)
	}
	return "want " + u.example()
}

func (u Unit) example() string {
	switch u {
	case Bytes:
		return `a size such as "1MiB"`
	case Micros:
		return `a duration such as "500ms"`
	}
	return "a whole number of requests"
}

// Amount is a cost in a gate's unit, to be read and not to be read in again: "16MiB",
// "8s", "8 requests".
func (g *Gate) Amount(n int64) string {
	switch g.Unit {
	case Bytes:
		return roughly(n)
	case Micros:
		return (time.Duration(n) * time.Microsecond).String()
	}
	if n == 1 {
		return "1 request"
	}
	return strconv.FormatInt(n, 10) + " requests"
}

// roughly is a number of bytes in the largest unit that shows two digits of it.
func roughly(n int64) string {
	units := [...]string{"B", "KiB", "MiB", "GiB", "TiB", "PiB"}
	x, i := float64(n), 0
	for ; x >= 1024 && i < len(units)-1; i++ {
		x /= 1024
	}
	return fmt.Sprintf("%.4g%s", x, units[i])
}

// WantsPass tells whether a stranger needs a pass for a request of that cost: for more
// than half the budget. One at a time of a budget of one is no reason to ask.
func (g *Gate) WantsPass(cost int64) bool { return cost > g.Budget/2 && cost > 1 }
