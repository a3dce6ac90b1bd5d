package replay

import (
	"fmt"
	"strings"
	"testing"

	"stile/replay/replaytest"
)

// TestGatesAddUp: whatever a gate counts in, everybody who came to it is admitted, refused
// or asked, nobody waits longer than wait, and no more is in flight than the budget, or one
// request that costs more.
func TestGatesAddUp(t *testing.T) {
	name := madeFile(t, replaytest.Log{Lines: 20_000, Addresses: 300, Seed: 4, Timed: true})
	for _, gate := range []string{
		"budget = 1\nqueue = 4\nwait = \"2s\"", "budget = 3\nqueue = 0", "budget = 8\nper_caller = 1\nlease = \"1s\"",
		"budget = \"200KiB\"\nqueue = 10\nwait = \"1s\"", "budget = \"4s\"\nfree_below = \"100ms\"\nwait = \"25s\"", "budget = \"1MiB\"\ncost = \"300KiB\"",
		"budget = \"1MiB\"\ncost = \"file:/nonexistent/{2}\"", "budget = \"2s\"\ncost = \"header\"",
	} {
		policy := "include = []\n[[meter]]\nname = \"m\"\nwindow = \"1m\"\nstranger = 1000\npass = 1000\nuser = 1000\n[[gate]]\nname = \"g\"\n" + gate + "\n[[rule]]\nname = \"all\"\npath = \"/project/**\"\ndo = \"meter\"\nmeter = [\"m\"]\ngate = \"g\"\n"
		r := run(t, policy, Options{Logs: []string{name}})
		if len(r.Gates) != 2 {
			t.Errorf("%q: %d gates", gate, len(r.Gates))
			continue
		}
		for _, g := range r.Gates {
			if g.Admitted+g.RefusedCount+g.Asked != g.Requests || g.Requests < 1000 || g.WaitMost.Seconds() > 25.1 {
				t.Errorf("%q: %+v", gate, g)
			}
		}
		t.Logf("%q: %d asked, %d admitted, %d waited, %s", gate, r.Gates[0].Asked, r.Gates[0].Admitted, r.Gates[0].Waited, r.Gates[0].Refused)
	}
}

// TestCostsByHeaders: as in the daemon, what is learned of a page by one Accept says nothing
// of it by another. A log without the header is told so.
func TestCostsByHeaders(t *testing.T) {
	const policy = "include = []\n[[gate]]\nname = \"g\"\nbudget = \"2MiB\"\nunseen = \"300KiB\"\n[[rule]]\nname = \"all\"\npath = \"/**\"\ndo = \"allow\"\ngate = \"g\"\n"
	var lines []string
	for i, accept := range []string{"application/json", "text/html", "text/html"} {
		lines = append(lines, fmt.Sprintf(`192.0.2.1 %.3f "GET /x HTTP/1.1" 200 1000 1.000 "%s"`, 1796020200+10*float64(min(i, 1)), accept))
	}
	file := write(t, "access.log", lines...)
	f := func(last, want string, says bool) {
		t.Helper()
		r := run(t, policy, Options{Logs: []string{file}, Format: `$remote_addr $msec "$request" $status $body_bytes_sent $request_time "` + last + `"`})
		if got := r.Gates[0].MostInFlight; got != want {
			t.Errorf("%s: most in flight %s, want %s", last, got, want)
		}
		if got := strings.Join(r.Assumed, "\n"); strings.Contains(got, "Accept, ") != says || !strings.Contains(got, "HX-Request, Turbo-Frame") {
			t.Errorf("%s: %s", last, got)
		}
	}
	f("$http_accept", "600KiB", false)
	f("$http_x", "300KiB", true)
}
