// Package chromium starts the browser that tests look at pages with.
package chromium

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/chromedp/chromedp"
)

// Start starts a headless browser, and fails the test if it cannot. Where none is
// installed, CI fails and a laptop skips. preferences are JSON, as in a profile's file of
// that name; "" for the usual ones. stop ends the browser, at the latest when this
// process ends.
//
// It knows gate.test and other.test as this machine. Not being localhost, they are
// insecure contexts on plain http, as a site without a certificate is.
func Start(t testing.TB, preferences string) (browser context.Context, stop func()) {
	t.Helper()
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(find(t)),
		chromedp.NoSandbox, // CI runs as root
		chromedp.DisableGPU,
		chromedp.Flag("disable-quic", true),
		chromedp.Flag("disable-component-update", true),
		chromedp.Flag("accept-lang", "en"),
		chromedp.Flag("host-resolver-rules", "MAP gate.test 127.0.0.1, MAP other.test 127.0.0.1"),
		chromedp.ModifyCmdFunc(func(cmd *exec.Cmd) {
			cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
			for _, arg := range cmd.Args {
				if dir, ok := strings.CutPrefix(arg, "--user-data-dir="); ok && preferences != "" {
					dir = filepath.Join(dir, "Default")
					if err := os.MkdirAll(dir, 0o700); err != nil {
						t.Error(err)
					}
					if err := os.WriteFile(filepath.Join(dir, "Preferences"), []byte(preferences), 0o600); err != nil {
						t.Error(err)
					}
				}
			}
		}),
	)
	ctx, end := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, cancel := chromedp.NewContext(ctx)
	stop = func() {
		cancel()
		end()
	}
	if err := chromedp.Do(ctx); err != nil {
		stop()
		t.Fatal(err)
	}
	return ctx, stop
}

// find returns where the browser is.
func find(t testing.TB) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	if os.Getenv("CI") == "true" {
		t.Fatal("chromium is missing, and CI must have it: ./deploy.sh test installs what the tests need")
	}
	t.Skip("chromium is not installed")
	return ""
}
