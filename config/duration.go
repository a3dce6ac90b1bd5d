package config

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

var units = []struct {
	name string
	is   time.Duration
}{ // "ms" before "m"
	{"ms", time.Millisecond}, {"s", time.Second}, {"m", time.Minute}, {"h", time.Hour}, {"d", 24 * time.Hour},
}

// parseDuration reads "90s", "1h30m", "0.5s", "30d": what time.ParseDuration reads,
// without signs and the units below a millisecond, and with days of 24 hours.
func parseDuration(s string) (time.Duration, error) {
	var sum float64
	for first := true; first || s != ""; first = false {
		end := strings.IndexFunc(s, func(r rune) bool { return (r < '0' || r > '9') && r != '.' })
		if end <= 0 {
			return 0, errors.New("want a number and a unit")
		}
		n, err := strconv.ParseFloat(s[:end], 64)
		if err != nil {
			return 0, err
		}
		s = s[end:]
		found := false
		for _, u := range units {
			if rest, ok := strings.CutPrefix(s, u.name); ok {
				sum += n * float64(u.is)
				s, found = rest, true
				break
			}
		}
		if !found {
			return 0, errors.New("want ms, s, m, h or d")
		}
	}
	if sum > math.MaxInt64/2 {
		return math.MaxInt64 / 2, nil
	}
	return time.Duration(sum), nil
}

// short writes a duration as the format has it: "30d", "1m", "100ms".
func short(d time.Duration) string {
	for i := len(units) - 1; i >= 0; i-- {
		if u := units[i]; d >= u.is && d%u.is == 0 {
			return fmt.Sprintf("%d%s", d/u.is, u.name)
		}
	}
	return d.String()
}
