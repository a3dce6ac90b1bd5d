package install

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// patience ends whatever hangs. Nothing that goes well takes that long.
const patience = 2 * time.Minute

// sandbox is this machine once more, for one test: namespaces of its own for mounts, processes
// and the network, and over the whole file system a layer that takes all that is written. What
// deploy.sh does there it does for real, as root, at the real paths, to the real nginx; only systemd
// is a stand-in (standin_test.go).
type sandbox struct {
	t     *testing.T
	pid   int
	layer string // as the mount namespace sees it, outside of the new root
	repo  string
}

// setup is run as process 1. $1: the directory of stubs; the rest is exec'ed in the new root.
const setup = `
set -e
mount --make-rprivate /
layer=$(mktemp -d /tmp/stile-install.XXXXXX)
echo "$layer"
mount -t tmpfs -o size=2g,mode=755 layer "$layer"
mkdir "$layer/up" "$layer/work" "$layer/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$layer/up,workdir=$layer/work" "$layer/root"
root=$layer/root
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
mount -t tmpfs -o mode=755 run "$root/run"
ip link set lo up
echo 512 >/proc/sys/net/unix/max_dgram_qlen # as systemd does
rm -rf "$root/etc/stile" "$root/var/lib/stile" "$root/usr/local/lib/stile" "$root/usr/local/bin/stile"
mkdir -p "$root/run/systemd/system" "$root/stand-in/bin" "$root/srv/site"
cp "$1" "$root/stand-in/bin/systemctl"
printf '#!/bin/sh\nexec tail -n 15 /run/systemd/journal\n' >"$root/stand-in/bin/journalctl"
chmod 755 "$root/stand-in/bin/journalctl"
shift
cp -r "$1" "$root/srv/release"
exec chroot "$root" /bin/bash -c '/stand-in/bin/systemctl stand-in <&0 & wait $!' # bash reaps orphans, as systemd does
`

// start makes a sandbox with a running nginx and one site, without stile.
func start(t *testing.T) *sandbox {
	t.Helper()
	need(t, "nginx", "curl", "ip", "unshare", "nsenter")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	repo, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/bin/sh", "-c", setup, "setup", self, releases(t))
	cmd.Env = append(os.Environ(), "PATH="+path)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET}
	hold, err := cmd.StdinPipe() // closed with this process, which ends the sandbox
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		if os.Getenv("CI") == "" {
			t.Skipf("no namespaces for a sandbox: %s", err)
		}
		t.Fatal(err)
	}
	s := &sandbox{t: t, pid: cmd.Process.Pid, repo: repo}
	t.Cleanup(func() {
		hold.Close()
		cmd.Process.Kill()
		cmd.Wait()
		os.Remove(s.layer)
	})
	ready := make(chan string, 1)
	go func() {
		var all []byte
		b := make([]byte, 1000)
		for !bytes.HasSuffix(all, []byte("\nready\n")) {
			n, err := out.Read(b)
			all = append(all, b[:n]...)
			if err != nil {
				break
			}
		}
		ready <- string(all)
		io.Copy(io.Discard, out)
	}()
	select {
	case said := <-ready:
		layer, ok := strings.CutSuffix(said, "\nready\n")
		if !ok {
			t.Fatalf("the sandbox did not start: %q", said)
		}
		s.layer = layer
	case <-time.After(patience):
		t.Fatal("the sandbox did not start")
	}
	s.write("/etc/nginx/sites-enabled/default", site)
	s.write("/srv/site/index.html", "the site\n")
	s.do("nginx && systemctl is-active nginx")
	return s
}

const site = `server {
    listen 80 default_server;
    server_name www.example.org;
    root /srv/site;
}
`

const path = "/stand-in/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/go/bin"

// need skips the test, or fails it in CI, where a program is missing or nobody is root.
func need(t *testing.T, programs ...string) {
	t.Helper()
	complain := t.Skipf
	if os.Getenv("CI") != "" {
		complain = t.Fatalf
	}
	if os.Geteuid() != 0 {
		complain("deploy.sh install is for root, and so is its test")
	}
	for _, name := range programs {
		if _, err := exec.LookPath(name); err != nil {
			complain("%s", err)
		}
	}
}

// command is a shell script in the sandbox.
func (s *sandbox) command(ctx context.Context, script string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "nsenter", "-t", fmt.Sprint(s.pid), "-m", "-n", "-p", "-r", "-w", "--", "/bin/bash", "-c", "cd "+s.repo+"; "+script)
	cmd.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "PATH=") }), "PATH="+path+":"+os.Getenv("PATH"))
	cmd.WaitDelay = time.Second
	return cmd
}

// try runs a script in the sandbox, and returns what it printed and its exit status.
func (s *sandbox) try(script string) (string, int) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := s.command(ctx, script)
	out, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		s.t.Fatalf("%s: hangs\n%s", script, out)
	}
	if err != nil && cmd.ProcessState == nil {
		s.t.Fatalf("%s: %s", script, err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

// do runs a script that must succeed.
func (s *sandbox) do(script string) string {
	s.t.Helper()
	out, status := s.try(script)
	if status != 0 {
		s.t.Fatalf("%s: exit status %d\n%s", script, status, out)
	}
	return out
}

func (s *sandbox) write(file, text string) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := s.command(ctx, "mkdir -p "+filepath.Dir(file)+" && cat >"+file)
	cmd.Stdin = strings.NewReader(text)
	if out, err := cmd.CombinedOutput(); err != nil {
		s.t.Fatalf("writing %s: %s\n%s", file, err, out)
	}
}

// changes is everything in the sandbox that is not as on this machine, a line a file: its mode,
// owner and sum. What every program may write is left out, and what useradd keeps for itself.
func (s *sandbox) changes() string {
	s.t.Helper()
	const list = `cd "$1/up" && find . -mindepth 1 \( -path ./stand-in -o -path ./srv/release -o -path ./tmp -o -path ./root -o -path ".$2/bin" \
		-o -path ./var/log -o -path ./var/cache -o -path ./var/lib/nginx \) -prune -o \( -type f -printf '%y %m %u:%g ' -exec sha256sum {} \; \) -o -printf '%y %m %u:%g -  %p\n'`
	out, err := exec.Command("nsenter", "-t", fmt.Sprint(s.pid), "-m", "--", "/bin/sh", "-c", list, "list", s.layer, s.repo).Output()
	if err != nil {
		s.t.Fatalf("listing the layer: %s", err)
	}
	var lines []string
	for line := range strings.Lines(string(out)) {
		line = strings.TrimSuffix(line, "\n")
		what, name, _ := strings.Cut(line, "  .")
		switch name {
		case "/etc/passwd-", "/etc/group-", "/etc/shadow-", "/etc/gshadow-", "/etc/subuid-", "/etc/subgid-", "/etc/.pwd.lock", "/etc",
			"/var/lib/stile/learned": // the daemon's own, at each stop
			continue
		}
		// Some are in the layer because of what is in them, or are again as they were.
		if st, err := os.Lstat(name); err == nil && st.IsDir() && what[0] == 'd' {
			continue
		} else if err == nil && st.Mode().IsRegular() && what[0] == 'f' {
			if text, err := os.ReadFile(name); err == nil && strings.HasSuffix(what, sum(text)) {
				continue
			}
		}
		lines = append(lines, line)
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// deploy runs deploy.sh.
func (s *sandbox) deploy(args string) (string, int) {
	s.t.Helper()
	out, status := s.try("./deploy.sh " + args)
	s.t.Logf("./deploy.sh %s: %d\n%s", args, status, out)
	return out, status
}
