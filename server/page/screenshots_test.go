package page

import (
	"context"
	"encoding/base64"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"stile/internal/chromium"
)

// go test ./server/page -run Screenshots -artifacts -outputdir DIR
//
// A picture of each state in each way of showing it, to be looked at. Without
// -artifacts it only finds pages that are wider than the window.
func TestScreenshots(t *testing.T) {
	if testing.Short() {
		t.Skip("short")
	}
	browser, stop := chromium.Start(t, "")
	t.Cleanup(stop)
	branded := New(Options{
		Title:   "Halogen Forge",
		Logo:    "data:image/svg+xml;base64," + base64.StdEncoding.EncodeToString([]byte(`<svg xmlns="http://www.w3.org/2000/svg" width="48" height="48"><circle cx="24" cy="24" r="22" fill="#c60"/></svg>`)),
		Contact: "Questions? help@forge.example, https://forge.example/contact.",
	})
	wait := Challenge{WaitToken: []byte("w"), WaitSeconds: 10}

	states := []struct {
		name  string
		ways  siteWays
		first string
		noJS  bool
		path  string
		pages *Pages
		ready string // expression
		then  string // evaluated before the picture
	}{
		{name: "solving", ways: siteWays{bits: 21}, ready: "document.querySelector('progress').value > 2"},
		{name: "branded", ways: siteWays{bits: 21}, pages: branded, ready: "document.querySelector('progress').value > 2"},
		{name: "slow", ways: siteWays{bits: 24}, first: fastTimers, ready: "document.querySelector('progress')",
			then: "new Promise(f => setTimeout(f, 9e3))"},
		{name: "cookies", ways: siteWays{keepsNoCookies: true}, ready: "document.querySelector('button')"},
		{name: "loop", ways: siteWays{stubborn: true}, ready: "document.querySelector('button')"},
		{name: "failed", ways: siteWays{always: &answer{400, "{}"}, options: wait}, ready: "document.querySelector('button')"},
		{name: "network", ways: siteWays{always: &answer{502, ""}}, first: fastTimers, ready: "document.querySelector('button')"},
		{name: "ceiling", ways: siteWays{always: &answer{429, `{"retry":7201}`}}, ready: "document.querySelector('button')"},
		{name: "proved", path: provePath, ready: "!document.querySelector('progress') && document.querySelector('#js p').textContent"},
		{name: "nojs", ways: siteWays{options: Challenge{WaitToken: []byte("w"), WaitSeconds: 600}}, noJS: true},
		{name: "nojs-cookies", ways: siteWays{options: Challenge{WaitToken: []byte("w"), NoCookies: true}}, noJS: true},
		{name: "nojs-needed", noJS: true},
		{name: "framed", ways: siteWays{options: Challenge{Framed: true}}, noJS: true},
		{name: "limit", ways: siteWays{refused: &Refused{Reason: Limit, RetrySeconds: 17, Support: "1f3e5d7c"}}},
		{name: "limit-posted", ways: siteWays{refused: &Refused{Reason: Limit, RetrySeconds: 170, Posted: true, Support: "1f3e5d7c"}}},
		{name: "busy", ways: siteWays{refused: &Refused{Reason: Busy, RetrySeconds: 60, Support: "1f3e5d7c"}}},
		{name: "denied", ways: siteWays{refused: &Refused{Reason: Denied}}},
		{name: "ceiling-page", ways: siteWays{refused: &Refused{Reason: Ceiling, RetrySeconds: 40000, Support: "1f3e5d7c"}}, pages: branded},
		{name: "unsafe", ways: siteWays{refused: &Refused{Reason: Unsafe, Posted: true, Support: "1f3e5d7c"}}},
		{name: "early", ways: siteWays{refused: &Refused{Reason: Early, RetrySeconds: 60, Support: "1f3e5d7c"}}},
		{name: "failed-page", ways: siteWays{refused: &Refused{Reason: Failed, Target: "/x", Support: "1f3e5d7c"}}},
	}
	for _, mode := range []struct {
		name          string
		width, height int64
		scheme        string
		language      string
	}{
		{"light", 1000, 700, "light", "en"},
		{"dark", 1000, 700, "dark", "de"},
		{"narrow", 320, 640, "light", "fi"},
		{"narrow-rtl", 320, 640, "dark", "ar"},
		{"urdu", 400, 700, "light", "ur"},
		{"hindi", 400, 700, "light", "hi"},
		{"japanese", 400, 700, "dark", "ja"},
	} {
		t.Run(mode.name, func(t *testing.T) {
			for _, x := range states {
				s := newSite(t, x.ways)
				if x.pages != nil {
					s.pages = x.pages
				}
				v := visitor(t, browser, x.first)
				call(v, emulation.SetLocaleOverride, emulation.SetLocaleOverrideParams{Locale: mode.language})
				call(v, emulation.SetUserAgentOverride, emulation.SetUserAgentOverrideParams{UserAgent: "test", AcceptLanguage: mode.language})
				call(v, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: mode.scheme}}})
				if err := chromedp.Do(v.ctx, chromedp.EmulateViewport(mode.width, mode.height)); err != nil {
					t.Fatal(err)
				}
				if x.noJS {
					call(v, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
				}
				path := x.path
				if path == "" {
					path = "/packages/halogen"
				}
				v.open(s.at("127.0.0.1", path))
				if x.ready != "" {
					v.until(x.ready)
				}
				if x.then != "" {
					v.eval(x.then)
				}
				if wide := v.eval("document.documentElement.scrollWidth > innerWidth"); wide != "false" {
					t.Errorf("%s: wider than the window", x.name)
				}
				v.picture(filepath.Join(t.ArtifactDir(), x.name+".png"))
				chromedp.Cancel(v.ctx)
			}
		})
	}
}

func (v tab) picture(file string) {
	v.Helper()
	png, err := chromedp.Run(context.WithoutCancel(v.ctx), chromedp.CaptureScreenshot())
	if err == nil {
		err = os.WriteFile(file, png, 0o644)
	}
	if err != nil {
		v.Fatal(err)
	}
}
