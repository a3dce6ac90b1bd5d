package e2e

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"stile/nginx/nginxtest"
)

// codeHost is a forge under preset:forge and sites/forgejo.conf: git's own program and a
// server of large files at /o/r.git, and pages that say their address. Everybody comes from
// one address: git has no other.
type codeHost struct {
	*site
	bare string
	head string

	mu      sync.Mutex
	objects map[string][]byte // of git-lfs
	asked   []string
}

func openCodeHost(t *testing.T, rules string) *codeHost {
	t.Helper()
	backend := filepath.Join(strings.TrimSpace(gitCommand(t, "", "--exec-path")), "git-http-backend")
	root := t.TempDir()
	h := &codeHost{bare: filepath.Join(root, "o", "r.git"), objects: map[string][]byte{}}
	makeRepository(t, h.bare)
	h.head = strings.TrimSpace(gitCommand(t, h.bare, "rev-parse", "HEAD"))

	program := &cgi.Handler{Path: backend, Root: "/", Env: []string{"GIT_PROJECT_ROOT=" + root, "GIT_HTTP_EXPORT_ALL=1", "REMOTE_USER=a"}, Stderr: testLog{t}}
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		h.mu.Lock()
		h.asked = append(h.asked, r.Method+" "+r.URL.Path)
		h.mu.Unlock()
		w.Header().Set("ETag", `"1"`)
		if r.Header.Get("If-None-Match") == `"1"` {
			w.WriteHeader(304)
			return
		}
		io.WriteString(w, "page "+r.RequestURI)
	})
	mux.HandleFunc("/o/r.git/info/lfs/", h.lfs)
	mux.Handle("/o/r.git/", program)
	mux.HandleFunc("/o/r/releases/download/v1/r.bin", func(w http.ResponseWriter, r *http.Request) {
		http.ServeContent(w, r, "r.bin", time.Unix(1_700_000_000, 0), strings.NewReader(release))
	})
	mux.HandleFunc("/o/r/raw/", func(w http.ResponseWriter, r *http.Request) {
		http.ServeContent(w, r, "r.bin", time.Unix(1_700_000_000, 0), strings.NewReader(release))
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	h.site = build(t, "include = [\"preset:forge\"]\n"+rules, nginxtest.Options{Site: "forgejo.conf", App: server.Listener.Addr().String()})
	h.daemon.start()
	return h
}

var release = strings.Repeat("0123456789abcdef", 20_000)

// makeRepository makes a bare repository of twelve files in six commits, that can be cloned in part and pushed to.
func makeRepository(t *testing.T, bare string) {
	t.Helper()
	work := t.TempDir()
	gitCommand(t, "", "init", "-q", "-b", "main", work)
	for i := range 6 {
		for _, name := range []string{"a", "b"} {
			if err := os.WriteFile(filepath.Join(work, fmt.Sprint(name, i)), []byte(strings.Repeat(fmt.Sprintf("%s %d\n", name, i), 500)), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		gitCommand(t, work, "add", ".")
		gitCommand(t, work, "commit", "-q", "-m", fmt.Sprint("change ", i))
	}
	if err := os.MkdirAll(filepath.Dir(bare), 0o755); err != nil {
		t.Fatal(err)
	}
	gitCommand(t, "", "clone", "-q", "--bare", work, bare)
	for _, c := range []string{"uploadpack.allowFilter", "uploadpack.allowAnySHA1InWant", "http.receivepack"} {
		gitCommand(t, bare, "config", c, "true")
	}
	gitCommand(t, bare, "update-server-info")
}

// git runs git as a program without a terminal.
func (s *site) git(dir string, env []string, args ...string) (out string, ok bool) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, need(s.t, "git"), args...)
	cmd.Dir, cmd.Env = dir, gitEnv(append(env, "GIT_TERMINAL_PROMPT=0", "GIT_ASKPASS=/bin/false")...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // git's own helpers end with it
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	b, err := cmd.CombinedOutput()
	return string(b), err == nil
}

func (s *site) mustGit(dir string, args ...string) string {
	s.t.Helper()
	out, ok := s.git(dir, nil, args...)
	if !ok {
		s.t.Fatalf("git %q: %s", args, out)
	}
	return out
}

// exhaust asks for a page until a proof is asked for.
func (s *site) exhaust(target string) *visitor {
	s.t.Helper()
	v := s.visitorFrom("127.0.0.1", program...)
	v.kept = true
	for range 700 {
		if r := v.get(target); r.Status == 503 && isText(r) {
			return v
		} else if r.Status != 200 && r.Status != 304 {
			s.t.Fatalf("%s: %d %s", target, r.Status, r.Body)
		}
	}
	s.t.Fatalf("%s can be had for ever", target)
	return nil
}

// Git works for somebody who may not see another page: clones of each kind, a part of a repository with what is
// missing fetched later, a push. What only looks like git is refused to the same client.
func TestPresetForgeGit(t *testing.T) {
	t.Parallel()
	h := openCodeHost(t, "")
	v := h.exhaust("/o/r/src/branch/main/x")
	url := "http://" + h.Addr(80) + "/o/r.git"
	for what, env := range map[string][]string{
		"version 2": nil, "version 0": {"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=protocol.version", "GIT_CONFIG_VALUE_0=0"}, "dumb": dumb, "another's": {"GIT_HTTP_USER_AGENT=Mozilla/5.0"},
	} {
		dir := filepath.Join(t.TempDir(), "c")
		if out, ok := h.git("", env, "clone", "-q", url, dir); !ok {
			t.Errorf("%s: %s", what, out)
		} else if got := strings.TrimSpace(h.mustGit(dir, "rev-parse", "HEAD")); got != h.head {
			t.Errorf("%s: head %s, want %s", what, got, h.head)
		}
	}

	// Without file contents; then each old version is fetched by itself, in dozens of small requests.
	part := filepath.Join(t.TempDir(), "part")
	h.mustGit("", "clone", "-q", "--filter=blob:none", "--no-checkout", url, part)
	before := h.daemon.metric("stile_rule_hits_total", "forge/git-fetch")
	h.mustGit(part, "checkout", "-q", "main")
	for i := range 6 {
		h.mustGit(part, "checkout", "-q", fmt.Sprintf("main~%d", i))
		h.mustGit(part, "cat-file", "-p", fmt.Sprintf("HEAD:a%d", 5-i))
	}
	h.mustGit(part, "fsck", "--connectivity-only")
	if n := h.daemon.metric("stile_rule_hits_total", "forge/git-fetch") - before; n < 1 {
		t.Errorf("the checkouts of a partial clone fetched %v times", n)
	}

	h.mustGit(part, "checkout", "-q", "main")
	h.mustGit(part, "commit", "-q", "--allow-empty", "-m", "pushed")
	h.mustGit(part, "push", "-q", "origin", "main")
	if got, want := gitCommand(t, h.bare, "rev-parse", "main"), h.mustGit(part, "rev-parse", "HEAD"); got != want {
		t.Errorf("pushed %s, there is %s", want, got)
	}

	for _, target := range []string{
		"/o/r/src/branch/main/x?service=git-upload-pack", "/o/r/src/info/refs?service=git-upload-pack", "/o/r/commit/abc?go-get=1",
		"/o/r/blame/objects/ab/0123456789abcdef0123456789abcdef012345", "/assets/..%2fo/r/graph", "/api/%2e%2e/o/r/compare/a...b",
	} {
		if r := v.get(target, "User-Agent: git/2.39.5", "Authorization: Bearer junk", "Accept: application/activity+json"); r.Status != 503 || !isText(r) {
			t.Errorf("%s: %d %.80s", target, r.Status, r.Body)
		}
	}
}

// However few requests git has, it clones the right thing or fails, and says why.
func TestPresetForgeGitUnderTheSmallestLimits(t *testing.T) {
	t.Parallel()
	meter := func(n int) string {
		return fmt.Sprintf("[[meter]]\nname = \"git\"\nwindow = \"1h\"\nstranger = %d\npass = 1000\n", n)
	}
	h := openCodeHost(t, meter(1))
	f := &forge{h.site, h.head}
	cloned, refused := 0, 0
	for n := 1; n <= 8; n++ {
		if n > 1 {
			// Another window begins with another meter: what the smaller one counted is gone.
			h.daemon.configure("include = [\"preset:forge\"]\n" + strings.Replace(meter(n), "1h", fmt.Sprintf("%dm", 60+n), 1))
			h.daemon.signal(1)
			h.daemon.waitLog("msg=reloaded", n-1)
		}
		env := smart
		if n%2 == 0 {
			env = dumb
		}
		dir := filepath.Join(t.TempDir(), "c")
		out, ok := h.git("", env, "clone", "-q", "http://"+h.Addr(80)+"/o/r.git", dir)
		c := clone{ok: ok, said: out}
		if _, err := os.Stat(filepath.Join(dir, "a0")); err == nil {
			c.head = strings.TrimSpace(gitCommand(t, dir, "rev-parse", "HEAD"))
		}
		f.right(t, fmt.Sprintf("%d requests", n), c)
		if ok {
			cloned++
		} else {
			refused++
		}
	}
	if cloned == 0 || refused == 0 {
		t.Errorf("%d clones, %d refusals: the test tries nothing", cloned, refused)
	}
}

// A working day within the preset's own limits: somebody signs in, looks around, and a program of theirs goes on.
func TestPresetForgeWalk(t *testing.T) {
	t.Parallel()
	h := openCodeHost(t, "")
	v := h.visitorFrom("127.0.0.1", firefox...)
	v.kept = true
	ok := func(method, target, body string, header ...string) {
		t.Helper()
		if r := v.ask(method, target, body, header...); r.Status != 200 {
			t.Errorf("%s %s: %d %.80s", method, target, r.Status, r.Body)
		}
	}
	form := "Content-Type: application/x-www-form-urlencoded"
	ok("GET", "/user/login", "")
	ok("POST", "/user/login", "user_name=a&password=b", form)
	for i := range 60 {
		ok("GET", fmt.Sprintf("/assets/js/%d.js?v=9", i), "", "Sec-Fetch-Dest: script", "Sec-Fetch-Mode: no-cors")
	}
	ok("GET", "/o/r", "")
	for i := range 20 {
		ok("GET", "/o/r/src/branch/main", "", "Sec-Fetch-Dest: document", "Sec-Fetch-Mode: navigate")
		ok("GET", fmt.Sprintf("/o/r/raw/branch/main/%d.png", i), "", "Sec-Fetch-Dest: image", "Sec-Fetch-Mode: no-cors")
		ok("GET", "/api/v1/notifications/new", "", "Sec-Fetch-Dest: empty", "Sec-Fetch-Mode: cors")
	}
	ok("GET", "/login/oauth/authorize?client_id=x&state=y", "")
	p := h.visitorFrom("127.0.0.1", program...)
	p.kept, v = true, p
	ok("POST", "/login/oauth/access_token", "grant_type=authorization_code&code=x", form, "Accept: application/json")
	ok("GET", "/login/oauth/userinfo", "", "Authorization: Bearer x")
	ok("GET", "/api/v1/version", "")
	ok("GET", "/o/r.rss", "")

	dir := filepath.Join(t.TempDir(), "c")
	h.mustGit("", "clone", "-q", "http://"+h.Addr(80)+"/o/r.git", dir)
	h.mustGit(dir, "commit", "-q", "--allow-empty", "-m", "x")
	h.mustGit(dir, "push", "-q", "origin", "main")
	sha := strings.TrimSpace(h.mustGit(dir, "rev-parse", "HEAD"))
	for range 100 {
		ok("POST", "/api/v1/repos/o/r/statuses/"+sha, `{"state":"success"}`, "Content-Type: application/json", "Authorization: token x")
		ok("GET", "/api/v1/repos/o/r/commits/"+sha+"/status", "", "Authorization: token x")
	}
	if n := h.daemon.metric("stile_rule_hits_total", "forge/tokens"); n != 200 {
		t.Errorf("%v requests with a token were counted, want 200", n)
	}
}

// Whoever has used up the pages, and whose pass is worth nothing any more, goes on downloading where the line broke.
// Where the file itself is refused, curl fails and leaves what it has.
func TestPresetForgeResumedDownload(t *testing.T) {
	t.Parallel()
	h := openCodeHost(t, "")
	h.exhaust("/o/r/src/branch/main/x")
	dir := t.TempDir()
	half := func() string {
		file := filepath.Join(dir, "r.bin")
		if err := os.WriteFile(file, []byte(release[:100_000]), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	file := half()
	stale := "stile=AQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
	if out, status := h.curl("/o/r/releases/download/v1/r.bin", "-f", "-C", "-", "-b", stale, "-o", file); status != 206 {
		t.Errorf("resumed: %d %s", status, out)
	}
	if got, _ := os.ReadFile(file); string(got) != release {
		t.Errorf("the file has %d bytes, want %d", len(got), len(release))
	}

	h.exhaust("/o/r/raw/branch/main/r.bin")
	for _, args := range [][]string{{"-f"}, {}} {
		file := half()
		out, status := h.curl("/o/r/raw/branch/main/r.bin", append(args, "-C", "-", "-b", stale, "-o", file)...)
		got, _ := os.ReadFile(file)
		if status != 503 || string(got) != release[:100_000] {
			t.Errorf("curl %v: %d, and the file has %d bytes: %s", args, status, len(got), out)
		}
	}
}

// A feed reader's questions whether there is anything new are answered by the application, also to whoever is refused
// pages; and they are counted.
func TestPresetForgeFeedReader(t *testing.T) {
	t.Parallel()
	h := openCodeHost(t, "")
	h.exhaust("/o/r/commits/branch/main")
	v := h.visitorFrom("127.0.0.1", "User-Agent: Mozilla/5.0 (compatible; Miniflux/2.2)", "Accept: application/atom+xml, application/rss+xml")
	v.kept = true
	for i := range 600 {
		if r := v.get("/o/r.atom", `If-None-Match: "1"`); r.Status != 304 {
			t.Fatalf("question %d: %d", i, r.Status)
		}
	}
	if r := v.get("/o/r.atom", `If-None-Match: "1"`); r.Status != 429 || r.Header.Get("Retry-After") == "" || !isText(r) {
		t.Errorf("question 601: %d %v", r.Status, r.Header)
	}
}

// ---- Large files -----------------------------------------------------------------------

// lfs is a server of git-lfs's batch API and basic transfers.
func (h *codeHost) lfs(w http.ResponseWriter, r *http.Request) {
	const media = "application/vnd.git-lfs+json"
	rest := strings.TrimPrefix(r.URL.Path, "/o/r.git/info/lfs/")
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case rest == "locks/verify" || rest == "locks":
		w.Header().Set("Content-Type", media)
		io.WriteString(w, `{"ours":[],"theirs":[],"locks":[]}`)
	case rest == "objects/batch":
		var in struct {
			Operation string
			Objects   []struct {
				OID  string
				Size int64
			}
		}
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
			http.Error(w, err.Error(), 422)
			return
		}
		type object = map[string]any
		objects := []object{}
		for _, o := range in.Objects {
			out := object{"oid": o.OID, "size": o.Size, "authenticated": true}
			if _, there := h.objects[o.OID]; there == (in.Operation == "download") {
				out["actions"] = object{in.Operation: object{"href": "http://" + r.Header.Get("X-Site") + "/o/r.git/info/lfs/objects/" + o.OID}}
			}
			objects = append(objects, out)
		}
		w.Header().Set("Content-Type", media)
		json.NewEncoder(w).Encode(object{"transfer": "basic", "objects": objects})
	case r.Method == "PUT":
		b, err := io.ReadAll(r.Body)
		oid := strings.TrimPrefix(rest, "objects/")
		if sum := sha256.Sum256(b); err != nil || hex.EncodeToString(sum[:]) != oid {
			http.Error(w, "another file", 422)
			return
		}
		h.objects[oid] = b
	default:
		b, ok := h.objects[strings.TrimPrefix(rest, "objects/")]
		if !ok {
			http.NotFound(w, r)
			return
		}
		w.Write(b)
	}
}

// C112: real git-lfs pushes and fetches, and of a refusal makes a failure.
func TestPresetForgeLFS(t *testing.T) {
	t.Parallel()
	need(t, "git-lfs")
	h := openCodeHost(t, "")
	h.exhaust("/o/r/src/branch/main/x")
	url := "http://" + h.Addr(80) + "/o/r.git"
	home := t.TempDir()
	lfs := func(dir string, args ...string) (string, bool) {
		return h.git(dir, []string{"HOME=" + home, "GIT_CONFIG_GLOBAL=" + filepath.Join(home, ".gitconfig"), "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=http.extraHeader", "GIT_CONFIG_VALUE_0=X-Site: " + h.Addr(80)}, args...)
	}
	must := func(dir string, args ...string) {
		t.Helper()
		if out, ok := lfs(dir, args...); !ok {
			t.Fatalf("git %q: %s", args, out)
		}
	}
	work := filepath.Join(t.TempDir(), "w")
	must("", "lfs", "install", "--skip-repo")
	must("", "clone", "-q", url, work)
	must(work, "lfs", "track", "*.bin")
	for i := range 20 {
		if err := os.WriteFile(filepath.Join(work, fmt.Sprint(i, ".bin")), []byte(fmt.Sprint(i, release)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	must(work, "add", ".")
	must(work, "commit", "-q", "-m", "large")
	must(work, "push", "-q", "origin", "main")
	if len(h.objects) != 20 {
		t.Errorf("%d objects were pushed, want 20", len(h.objects))
	}
	again := filepath.Join(t.TempDir(), "a")
	must("", "clone", "-q", url, again)
	if got, _ := os.ReadFile(filepath.Join(again, "7.bin")); string(got) != "7"+release {
		t.Errorf("the file has %d bytes", len(got))
	}

	// Refused in the middle it waits as it is told, and comes again.
	h.daemon.configure("include = [\"preset:forge\"]\n[[meter]]\nname = \"git\"\nwindow = \"1s\"\nstranger = 8\npass = 8\n")
	h.daemon.signal(1)
	h.daemon.waitLog("msg=reloaded", 1)
	third := filepath.Join(t.TempDir(), "b")
	out, ok := lfs("", "clone", "-q", url, third)
	right := true
	for i := range 20 {
		got, _ := os.ReadFile(filepath.Join(third, fmt.Sprint(i, ".bin")))
		right = right && string(got) == fmt.Sprint(i, release)
	}
	if ok != right {
		t.Errorf("refused in the middle: git says ok: %v, the files are right: %v, and: %s", ok, right, out)
	}
	if h.daemon.metric("stile_checks_total", `reason="meter"`) == 0 {
		t.Error("nothing was refused: the test tries nothing")
	}
}
