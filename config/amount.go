package config

import (
	"fmt"
	"strconv"
	"time"
)

// Amount is a cost in a gate's unit, as one writes it: "16MiB", "8s", "8 requests".
func (g *Gate) Amount(n int64) string {
	switch g.Unit {
	case Bytes:
		return size(n)
	case Micros:
		return (time.Duration(n) * time.Microsecond).String()
	}
	if n == 1 {
		return "1 request"
	}
	return strconv.FormatInt(n, 10) + " requests"
}

// size is a number of bytes in the largest unit that shows two digits of it.
func size(n int64) string {
	units := [...]string{"B", "KiB", "MiB", "GiB", "TiB", "PiB"}
	x, i := float64(n), 0
	for ; x >= 1024 && i < len(units)-1; i++ {
		x /= 1024
	}
	return fmt.Sprintf("%.4g%s", x, units[i])
}
