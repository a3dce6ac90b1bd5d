package budget

import (
	"strings"
	"testing"
	"time"
)

// What nginx 1.22.1 has written, and what it means.
func TestLine(t *testing.T) {
	const id = "74a07de8cacf3dd3e15747497b7a9868"
	f := func(rest string, want Line, end End, teaches bool) {
		t.Helper()
		want.ID = ID{0x74, 0xa0, 0x7d, 0xe8, 0xca, 0xcf, 0x3d, 0xd3, 0xe1, 0x57, 0x47, 0x49, 0x7b, 0x7a, 0x98, 0x68}
		for _, head := range []string{"<190>Nov 30 04:43:02 stile: ", "<190>Dec  1 04:43:02 www.example.org stile: "} {
			var l Line
			if err := l.Parse([]byte(head + id + rest)); err != nil {
				t.Errorf("%s: %v", rest, err)
			} else if l != want {
				t.Errorf("%s: %+v, want %+v", rest, l, want)
			} else if l.End() != end || l.Teaches() != teaches {
				t.Errorf("%s: end %v, teaches %v, want %v and %v", rest, l.End(), l.Teaches(), end, teaches)
			}
		}
	}
	ms := func(bytes, millis int64) Cost { return Cost{bytes, time.Duration(millis) * time.Millisecond} }
	f(" 200 1041 0.001 - OK", Line{Told: -1, Status: 200, Reached: true, Complete: true, Cost: ms(1041, 1)}, Finished, true)
	f(" 200 2000044 3.438 - OK", Line{Told: -1, Status: 200, Reached: true, Complete: true, Cost: ms(2000044, 3438)}, Finished, true)
	// The client went away in the middle, the location has the include.
	f(" 200 440044 0.514 - ", Line{Told: -1, Status: 200, Reached: true, Cost: ms(440044, 514)}, Cut, false)
	// It went away before the backend answered, the location has no include.
	f(" 499 0 0.461 - ", Line{Told: -1, Status: 499, Reached: true, Cost: ms(0, 461)}, Working, false)
	// It went away while it waited in the queue.
	f(" 499 - - - ", Line{Told: -1, Status: 499}, Finished, false)
	// A second backend was tried; then an error page from a third; X-Accel-Redirect; one
	// that led nowhere.
	f(" 200 0, 1041 0.000, 0.200 - OK", Line{Told: -1, Status: 200, Reached: true, Complete: true, Cost: ms(1041, 200)}, Finished, true)
	f(" 200 0, 0 : 1041 0.001, 0.002 : 0.003 - OK", Line{Told: -1, Status: 200, Reached: true, Complete: true, Cost: ms(1041, 6)}, Finished, true)
	f(" 200 67 : 1041 0.000 : 0.001 - OK", Line{Told: -1, Status: 200, Reached: true, Complete: true, Cost: ms(1108, 1)}, Finished, true)
	f(" 502 67 :  0.003 :  - OK", Line{Told: -1, Status: 502, Reached: true, Complete: true, Cost: ms(67, 3)}, Finished, false)
	f(" 502 67 :  0.003 :  - ", Line{Told: -1, Status: 502, Reached: true, Cost: ms(67, 3)}, Cut, false)
	f(" 504 0, - 60.000, - - OK", Line{Told: -1, Status: 504, Reached: true, Complete: true, Cost: ms(0, 60_000)}, Working, false)
	// An old worker's patience with its requests was over (worker_shutdown_timeout).
	f(" 000 0 0.461 - ", Line{Told: -1, Status: 0, Reached: true, Cost: ms(0, 461)}, Working, false)
	// No backend was asked.
	f(" 200 - - - OK", Line{Told: -1, Status: 200, Complete: true}, Finished, false)
	f(" 503 - - - OK", Line{Told: -1, Status: 503, Complete: true}, Finished, false)
	// The backend has said what it cost.
	f(" 200 1041 0.001 25000000 OK", Line{Told: 25000000, Status: 200, Reached: true, Complete: true, Cost: ms(1041, 1)}, Finished, true)
	f(" 502 67 :  0.003 :  7 OK", Line{Told: 7, Status: 502, Reached: true, Complete: true, Cost: ms(67, 3)}, Finished, false)
	// A log format without $request_completion teaches nothing.
	f(" 200 1041 0.001 -", Line{Told: -1, Status: 200, Reached: true, Cost: ms(1041, 1)}, Cut, false)
}

const goodLine = "<190>Nov 30 04:43:02 stile: 74a07de8cacf3dd3e15747497b7a9868 200 0, 1041 : 3 0.001, 12.200 : 0.000 512 OK"

func TestBadLines(t *testing.T) {
	var l Line
	if err := l.Parse([]byte(goodLine)); err != nil {
		t.Fatal(err)
	}
	f := func(old, new string) {
		t.Helper()
		l := Line{Status: 1}
		bad := strings.Replace(goodLine, old, new, 1)
		if bad == goodLine {
			t.Fatalf("%q is not in the line", old)
		}
		if err := l.Parse([]byte(bad)); err == nil {
			t.Errorf("%q was taken", bad)
		} else if l != (Line{}) {
			t.Errorf("%q: an error, and %+v", bad, l)
		}
	}
	f(goodLine, "")
	f("<190>", "<>")
	f("<190>", "<192>")
	f("<190>", "<0190>")
	f("<190>", "<-1>")
	f("<190>", "190")
	f("Nov 30", "Nov 3")
	f("Nov 30", "2026-11-30")
	f("04:43:02", "04.43.02")
	f("stile: ", "nginx: ")
	f("stile: ", "stile:")
	f("stile: ", "host name stile: ")
	f("stile: ", "  stile: ")
	f("74a0", "74A0")
	f("74a0", "74g0")
	f("74a0", "74a")
	f("74a0", "74a00")
	f(" 200 ", " 20 ")
	f(" 200 ", " 2000 ")
	f(" 200 ", " 099 ")
	f(" 200 ", " -20 ")
	f(" 200 ", "  200 ")
	f("0, 1041", "0,1041")
	f("0, 1041", "0,  1041")
	f("0, 1041", ", 1041")
	f("0, 1041", "1041") // not as many as times
	f("1041 : 3", "1041 : 3 : ")
	f("1041", "10.41")
	f("1041", "1234567890123456")
	f("0.001", "0.01")
	f("0.001", "0.0010")
	f("0.001", ".001")
	f("0.001", "0,001")
	f("0.001", "12345678.001")
	f(" 512", "")
	f(" 512", " 5.12")
	f(" 512", " -512")
	f(" 512", " 1234567890123456")
	f(" 512", "  512")
	f(" OK", " ok")
	f(" OK", " OK ")
	f(" OK", " OK\n")
	f(" OK", "  ")
	f(" OK", "OK")
	f(" OK", " -")
	f(" OK", strings.Repeat(" ", 5000))
	for n := range len(goodLine) {
		l := Line{Status: 1}
		if err := l.Parse([]byte(goodLine[:n])); err == nil && n < len(goodLine)-len("12 OK") {
			t.Errorf("%q was taken", goodLine[:n])
		}
	}
}

// The longest line that is read cannot overflow.
func TestLongLine(t *testing.T) {
	bytes, times := strings.Repeat("999999999999999, ", 120), strings.Repeat("9999999.999, ", 120)
	var l Line
	if err := l.Parse([]byte("<0>Nov 30 04:43:02 stile: 74a07de8cacf3dd3e15747497b7a9868 200 " + bytes + "1 " + times + "0.001 - OK")); err != nil {
		t.Fatal(err)
	}
	if l.Cost.Bytes != 120*999999999999999+1 || l.Cost.Time != 120*(10_000_000*time.Second-time.Millisecond)+time.Millisecond {
		t.Errorf("%+v", l.Cost)
	}
}

func FuzzLine(f *testing.F) {
	f.Add([]byte(goodLine))
	for _, rest := range []string{"200 1041 0.001 -", "499 - - - ", "502 67 :  0.003 :  12 OK", "504 0, - 60.000, - - OK"} {
		f.Add([]byte("<190>Dec  1 04:43:02 www stile: 74a07de8cacf3dd3e15747497b7a9868 " + rest))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var l Line
		if l.Parse(b) != nil {
			if l != (Line{}) {
				t.Errorf("%q: an error, and %+v", b, l)
			}
			return
		}
		if l.Cost.Bytes < 0 || l.Cost.Time < 0 || l.Status != 0 && l.Status < 100 || l.Status > 999 || !l.Reached && l.Cost != (Cost{}) {
			t.Errorf("%q: %+v", b, l)
		}
	})
}

func BenchmarkLine(b *testing.B) {
	line := []byte("<190>Nov 30 04:43:02 stile: 74a07de8cacf3dd3e15747497b7a9868 200 1041 0.001 - OK")
	b.ReportAllocs()
	var l Line
	for b.Loop() {
		if l.Parse(line) != nil {
			b.Fatal("not a line")
		}
	}
}
