package replay

import (
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
