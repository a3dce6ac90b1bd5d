package main

import (
	"bytes"
	"compress/gzip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const combinedLine = `192.0.2.1 - - [30/Nov/2026:06:37:11 +0100] "GET /search?q=x HTTP/1.1" 200 512 "-" "test/1"` + "\n"

func TestReplay(t *testing.T) {
	dir := t.TempDir()
	log, page := filepath.Join(dir, "access.log"), filepath.Join(dir, "report.html")
	if err := os.WriteFile(log, []byte(strings.Repeat(combinedLine, 40)), 0o600); err != nil {
		t.Fatal(err)
	}
	out, errs, status := stile(t, "replay", "-c", write(t, ""), "--html", page, log)
	if status != 0 || errs != "" {
		t.Fatalf("status %d, stderr %q", status, errs)
	}
	// 30 in a minute are a stranger's of expensive pages.
	for _, want := range []string{"requests  40", "asked for a proof             10", "generic/search"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in:\n%s", want, out)
		}
	}
	if html, err := os.ReadFile(page); err != nil || !bytes.HasSuffix(html, []byte("</html>\n")) {
		t.Errorf("%v; %d bytes", err, len(html))
	}
}

func TestReplayPacked(t *testing.T) {
	log := filepath.Join(t.TempDir(), "access.log.2")
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write([]byte(strings.Repeat(combinedLine, 1000))); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(log, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, errs, status := stile(t, "replay", "-c", write(t, ""), log); status != 0 || !strings.Contains(out, "requests  1,000") {
		t.Errorf("%d %s %s", status, out, errs)
	}
	if err := os.Truncate(log, int64(b.Len()-10)); err != nil {
		t.Fatal(err)
	}
	if out, errs, status := stile(t, "replay", "-c", write(t, ""), log); status != 1 || out != "" || !strings.Contains(errs, "cut off") {
		t.Errorf("cut off: %d %s %s", status, out, errs)
	}
}

func TestReplayCalledWrongly(t *testing.T) {
	f := func(want int, message string, args ...string) {
		t.Helper()
		out, errs, status := stile(t, append([]string{"replay", "-c", write(t, "")}, args...)...)
		if status != want || !strings.Contains(errs, message) || out != "" {
			t.Errorf("%q: status %d, stdout %q, stderr %q", args, status, out, errs)
		}
	}
	f(2, "usage: stile replay")
	f(1, "no such file", "/nonexistent.log")
	f(1, "no line in", "-") // nothing on standard input
	f(1, "want combined, json, or a log_format", "--format", "apache", "-")
	log := filepath.Join(t.TempDir(), "access.log")
	if err := os.WriteFile(log, []byte(combinedLine), 0o600); err != nil {
		t.Fatal(err)
	}
	f(1, "no such file", "--html", "/nonexistent/report.html", log) // before the log is read
	f(1, "is a directory", "--html", t.TempDir(), log)
	f(1, "is no report: it would be lost", "--html", log, log) // the name of the report was forgotten
	if b, err := os.ReadFile(log); err != nil || string(b) != combinedLine {
		t.Errorf("the log is %q, %v", b, err)
	}
}

// TestReplayIntoHead: who reads no more than the beginning of the tables has the page all the same.
func TestReplayIntoHead(t *testing.T) {
	log, html := filepath.Join(t.TempDir(), "access.log"), filepath.Join(t.TempDir(), "report.html")
	if err := os.WriteFile(log, []byte(combinedLine), 0o600); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	r.Close() // as head does when it has its lines
	cmd := exec.Command(self, "replay", "-c", write(t, ""), "--html", html, log)
	cmd.Env = append(os.Environ(), "STILE_TEST_RUN=1")
	cmd.Stdout = w
	if err := cmd.Run(); err == nil {
		t.Error("it takes no notice that nobody reads")
	}
	w.Close()
	if b, err := os.ReadFile(html); err != nil || !bytes.HasSuffix(b, []byte("</html>\n")) {
		t.Errorf("%v; %d bytes", err, len(b))
	}
}

// TestReplayKeepsReports: a run that fails leaves the report of the one before as it is, and
// none where there was none.
func TestReplayKeepsReports(t *testing.T) {
	dir := t.TempDir()
	old, none := filepath.Join(dir, "old.html"), filepath.Join(dir, "none.html")
	if err := os.WriteFile(old, []byte("<!DOCTYPE html>the one before"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, page := range []string{old, none} {
		if _, _, status := stile(t, "replay", "-c", write(t, ""), "--html", page, "/nonexistent.log"); status != 1 {
			t.Errorf("status %d", status)
		}
	}
	if b, err := os.ReadFile(old); err != nil || string(b) != "<!DOCTYPE html>the one before" {
		t.Errorf("%q %v", b, err)
	}
	if _, err := os.Stat(none); !os.IsNotExist(err) {
		t.Errorf("an empty report: %v", err)
	}
}

func TestProgressLine(t *testing.T) {
	if got := progressLine(500e6, 1000e6, 2*time.Second); got != "[===============               ]  50 %  250 MB/s  2s left" {
		t.Errorf("%q", got)
	}
	if got := progressLine(500e6, 0, 2*time.Second); got != "500 MB  250 MB/s" {
		t.Errorf("%q", got)
	}
	if got := progressLine(0, 100, time.Second); !strings.HasPrefix(got, "[   ") {
		t.Errorf("%q", got)
	}
}
