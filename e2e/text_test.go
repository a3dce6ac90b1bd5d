package e2e

import (
	"fmt"
	"html"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// terminal is a program that somebody uses in a terminal.
type terminal struct {
	t    *testing.T
	keys io.Writer
	mu   sync.Mutex
	text strings.Builder
}

// startTerminal runs a shell command in a terminal of its own, with home as the place of its files.
func startTerminal(t *testing.T, home, command string) *terminal {
	t.Helper()
	cmd := exec.Command(need(t, "script"), "-q", "-f", "-c", "stty rows 40 cols 120; exec "+command, "/dev/null")
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "TERM=xterm", "LC_ALL=C.UTF-8"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	keys, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	term := &terminal{t: t, keys: keys}
	done := make(chan struct{})
	go func() {
		defer close(done)
		b := make([]byte, 4096)
		for {
			n, err := out.Read(b)
			term.mu.Lock()
			term.text.Write(b[:n])
			term.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		keys.Close()
		syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) // its group is ours
		<-done
		cmd.Wait()
		if t.Failed() {
			t.Logf("the terminal showed %q", term.shown())
		}
	})
	return term
}

var (
	right   = regexp.MustCompile(`\x1b\[[0-9]*C`) // the cursor skips a blank
	escapes = regexp.MustCompile(`\x1b(?:\[[0-9;?]*[A-Za-z]|[()][0-9A-B]|[=>78])|[\x00\x0e\x0f]`)
)

// shown is the text that was shown so far, in the order in which it was written.
func (term *terminal) shown() string {
	term.mu.Lock()
	defer term.mu.Unlock()
	return escapes.ReplaceAllString(right.ReplaceAllString(term.text.String(), " "), "")
}

// press sends keys and forgets what was shown before.
func (term *terminal) press(keys string) {
	term.t.Helper()
	term.mu.Lock()
	term.text.Reset()
	term.mu.Unlock()
	if _, err := io.WriteString(term.keys, keys); err != nil {
		term.t.Fatal(err)
	}
}

// see waits until a text is shown.
func (term *terminal) see(text string) {
	term.t.Helper()
	eventually(term.t, fmt.Sprintf("the terminal shows %q", text), func() bool { return strings.Contains(term.shown(), text) })
}

// textSite is a site whose page can be told from any other on a screen of which only the changes are written.
func textSite(t *testing.T) *site {
	s := open(t, houseRules, "")
	s.app.Handle(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, "<title>x</title>")
		for range 20 {
			fmt.Fprintf(w, "<p>ARRIVED at %s</p>", html.EscapeString(r.RequestURI))
		}
	})
	return s
}

var waitText = regexp.MustCompile(`please wait (\d+)[ \x{A0}]s, then\s+follow this\s+link`)

// told is how long a text says that its reader must wait.
func told(t *testing.T, name, text string) time.Duration {
	t.Helper()
	m := waitText.FindStringSubmatch(text)
	if m == nil {
		t.Fatalf("%s does not say how long to wait: %q", name, text)
	}
	n, err := strconv.Atoi(m[1])
	if err != nil || n < 2 || n > 60 {
		t.Fatalf("%s says to wait %q", name, m[1])
	}
	return time.Duration(n) * time.Second
}

// C092: somebody with a text browser reads what is asked, waits, follows the link, and arrives; the pass is kept. Who
// follows the link too early is told how long it still takes, and can follow it again from there.
func TestC092InTerminals(t *testing.T) {
	t.Parallel()
	lynx, w3m := need(t, "lynx")+" -cfg="+lynxConfig(t), need(t, "w3m")+" -cookie"
	type visit struct {
		s      *site
		term   *terminal
		target string
		follow string // keys that follow the first link
		until  time.Time
	}
	arrive := func(name, command, target, follow string, early bool) *visit {
		v := &visit{s: textSite(t), target: target, follow: follow}
		v.term = startTerminal(t, t.TempDir(), command+" 'http://"+v.s.Addr(80)+target+"'")
		v.term.see("Continue to the page")
		v.until = time.Now().Add(told(t, name, v.term.shown()))
		if early {
			v.term.press(follow)
			eventually(t, name+" follows the link too early", func() bool { return v.s.daemon.metric("stile_challenges_failed_total", `reason="early"`) == 1 })
		}
		v.s.hits(name+" before the wait is over", 0)
		return v
	}
	all := map[string]*visit{
		"lynx":            arrive("lynx", lynx, "/heavy/x", "\r", false),
		"lynx, too early": arrive("lynx, too early", lynx, "/heavy/x?a=b%26c", "\r", true),
		"w3m, too early":  arrive("w3m, too early", w3m, "/heavy/x?a=b%26c", "\t\r", true),
	}
	for _, v := range all {
		time.Sleep(time.Until(v.until)) // as its reader was told
		v.term.press(v.follow)
	}
	for name, v := range all {
		v.term.see("ARRIVED at " + v.target)
		if hits := v.s.app.Hits(); len(hits) != 1 || hits[0].Target != v.target {
			t.Errorf("%s: the application was asked for %s", name, targetsOf(hits))
		}
	}
	v := all["lynx"]
	v.term.press("ghttp://" + v.s.Addr(80) + "/heavy/another\r")
	v.term.see("another") // of the other page only what differs is written
	eventually(t, "the other page was asked for", func() bool { return len(v.s.app.Hits()) == 2 })
}

// lynxConfig makes a configuration in which no message stands for seconds.
func lynxConfig(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "lynx.cfg")
	if err := os.WriteFile(file, []byte("INFOSECS:0\nMESSAGESECS:0\nALERTSECS:0\nACCEPT_ALL_COOKIES:TRUE\nPERSISTENT_COOKIES:TRUE\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// C092: both, run from a script: what is asked is plain text, the link is among the page's links, and the cookie is
// there the next time.
func TestC092InScripts(t *testing.T) {
	t.Parallel()
	f := func(t *testing.T, name string, page, visit []string) {
		program := need(t, name)
		s := textSite(t)
		home := t.TempDir()
		url := "http://" + s.Addr(80) + "/heavy/x"
		run := func(args []string, url string) string {
			t.Helper()
			cmd := exec.Command(program, append(args, url)...)
			cmd.Dir, cmd.Env = home, []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "TERM=xterm", "LC_ALL=C.UTF-8"}
			out, err := cmd.Output()
			if _, exited := err.(*exec.ExitError); err != nil && !exited { // lynx ends with 1 for a 503
				t.Fatal(err)
			}
			return string(out)
		}
		text := run(page, url)
		for _, want := range []string{"One moment, please", "This site is making sure", "Continue to the page", "Support ID:"} {
			if !strings.Contains(text, want) {
				t.Errorf("%s does not show %q: %s", name, want, text)
			}
		}
		if strings.Contains(text, "function") || strings.Contains(text, "{") {
			t.Errorf("%s shows code: %s", name, text)
		}
		links := regexp.MustCompile(`http://\S+/\.stile/wait\?\S+`).FindAllString(text, -1)
		if len(links) == 0 {
			t.Fatalf("%s shows no link: %s", name, text)
		}
		time.Sleep(told(t, name, text))
		for _, url := range []string{links[len(links)-1], url, url + "/more"} {
			if text := run(visit, url); !strings.Contains(text, "ARRIVED at /heavy/x") {
				t.Errorf("%s does not arrive at %s: %s", name, url, text)
			}
		}
	}
	t.Run("lynx", func(t *testing.T) {
		t.Parallel()
		f(t, "lynx", []string{"-dump"}, []string{"-dump", "-cfg=" + lynxConfig(t), "-cookie_file=jar", "-cookie_save_file=jar"})
	})
	t.Run("w3m", func(t *testing.T) {
		t.Parallel()
		f(t, "w3m", []string{"-dump", "-o", "display_link_number=1"}, []string{"-dump", "-cookie"})
	})
}
