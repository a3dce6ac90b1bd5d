package page

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// What a text browser makes of the pages: the words of the way without JavaScript, the
// link that leads there, and nothing that is meant for others.
func TestTextBrowsers(t *testing.T) {
	browsers := map[string][]string{
		"lynx": {"-dump", "-nopause", "-display_charset=utf-8", "-assume_charset=utf-8", "-accept_all_cookies", "-width=78"},
		"w3m":  {"-dump", "-o", "display_link_number=1", "-O", "UTF-8", "-cols", "78"},
	}
	for name, flags := range browsers {
		t.Run(name, func(t *testing.T) {
			program := need(t, name)
			dump := func(name string, s *site, options ...string) string {
				t.Helper()
				args := append(append(flags[:len(flags):len(flags)], options...), s.at("127.0.0.1", "/packages/halogen?a=1&b=2"))
				cmd := exec.Command(program, args...)
				cmd.Env = append(os.Environ(), "HOME="+t.TempDir(), "LANG=C.UTF-8", "LC_ALL=C.UTF-8")
				out, err := cmd.Output()
				if len(out) == 0 { // lynx reports the status 503 by its own
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(t.ArtifactDir(), name+".txt"), out, 0o644); err != nil {
					t.Fatal(err)
				}
				return strings.Join(strings.Fields(string(out)), " ")
			}
			check := func(text string, want ...string) {
				t.Helper()
				for _, w := range append(want, "not {", "not function", "not @media", "not "+english.words.Work) {
					unwanted := false
					if w, unwanted = strings.CutPrefix(w, "not "); strings.Contains(text, w) == unwanted {
						t.Errorf("%q is in it: %v\n%s", w, unwanted, text)
					}
				}
			}
			w := &english.words

			s := newSite(t, siteWays{options: Challenge{WaitToken: []byte("w"), WaitSeconds: 10}})
			text := dump("challenge", s)
			check(text, w.Heading, w.Lead, "please wait 10 s, then follow this link", w.WaitLink, "/.stile/wait?t=w&u=L3BhY2thZ2VzL2hhbG9nZW4_YT0xJmI9Mg", "Support ID: 1f3e5d7c")

			s = newSite(t, siteWays{options: Challenge{WaitToken: []byte("w"), NoCookies: true}})
			check(dump("no cookies", s), w.Cookies, w.WaitLink, "/.stile/wait?t=w&u=")

			s = newSite(t, siteWays{})
			check(dump("needs JavaScript", s), w.NeedJS, "not /.stile/wait")

			s = newSite(t, siteWays{refused: &Refused{Reason: Busy, RetrySeconds: 17}})
			check(dump("busy", s), w.BusyHeading, w.Busy, "Waiting time: 17 s", w.Again)

			s = newSite(t, siteWays{options: Challenge{Framed: true, WaitToken: []byte("w"), WaitSeconds: 10}})
			check(dump("framed", s), w.Frame, w.NewTab, "not /.stile/wait")

			s = newSite(t, siteWays{refused: &Refused{Reason: Early, RetrySeconds: 7}})
			check(dump("early", s), w.Lead, "please wait 7 s, then follow this link", w.WaitLink)

			s = newSite(t, siteWays{refused: &Refused{Reason: Failed, Target: "/x?y&z"}})
			check(dump("failed", s), w.Failed, w.Again, "127.0.0.1", "/x?y&z")

			s = newSite(t, siteWays{refused: &Refused{Reason: Unsafe}})
			check(dump("unsafe", s), w.UnsafeHeading, w.Unsafe, w.UnsafeLink, w.UnsafeThen, "/.stile/prove")
		})
	}
}

// A visitor with lynx gets in by the link alone, cookies on: keys as typed.
func TestLynxGetsIn(t *testing.T) {
	program := need(t, "lynx")
	s := newSite(t, siteWays{options: Challenge{WaitToken: []byte("w"), WaitSeconds: 10}})
	keys := filepath.Join(t.TempDir(), "keys")
	// Down to the second link (the first is lynx's own, of the refresh), and open it.
	// The page itself has none, so quitting needs no more.
	script := "key Down Arrow\nkey Right Arrow\n" + "key Q\n"
	if err := os.WriteFile(keys, []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "-cmd_script="+keys, "-accept_all_cookies", "-nopause", s.at("127.0.0.1", "/x?a=1&b=2"))
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir(), "TERM=vt100", "LC_ALL=C.UTF-8")
	out, err := cmd.CombinedOutput()
	select {
	case target := <-s.entered:
		if target != "/x?a=1&b=2" {
			t.Errorf("it came to %s", target)
		}
	default:
		t.Errorf("not let in: %v %+v\n%s", err, s.counts(), out)
	}
}
