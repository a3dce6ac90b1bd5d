package e2e

import (
	"os"
	"os/exec"
	"testing"
)

// A job has the whole budget: a visitor's browser says that the site is busy, tries again
// by itself, ever later, and shows the page when the job is over.
func TestBrowserBusyUntilAJobIsOver(t *testing.T) {
	t.Parallel()
	s := open(t, gateRules("budget = 2\nqueue = 0"), gateSite)
	s.pages(map[string]string{"/heavy/x?y=%2F": "<title>inside</title>"})
	job := exec.Command(built, "hold", "-c", s.daemon.file(), "--gate", "kiln", "--cost", "2", "--", "cat")
	in, err := job.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	job.Stderr = os.Stderr
	if err := job.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { in.Close(); job.Wait() })
	s.leases(1)

	v := s.tab("")
	address := s.at("127.0.0.1", "/heavy/x?y=%2F#part")
	v.open(address)
	v.says("busy_heading")
	v.says("busy")
	if status := v.eval("performance.getEntriesByType('navigation')[0].responseStatus"); status != "503" {
		t.Errorf("status %s", status)
	}
	v.picture("busy")
	v.hurry()
	eventually(t, "it has tried three times", func() bool { return s.daemon.metric("stile_gate_refused_total", "") >= 3 })
	in.Close()
	if err := job.Wait(); err != nil {
		t.Error(err)
	}
	v.inside(address)
	if n := v.eval("history.length"); n != "2" { // with about:blank
		t.Errorf("%s entries in the history", n)
	}
}
