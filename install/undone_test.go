package install

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"
)

// state is all of a sandbox that an undone installation must leave as it was: the files, what runs, and
// what is answered. Processes may be others.
func (s *sandbox) state() string {
	s.t.Helper()
	return s.changes() + "\n" + s.do(`
		for unit in stile.socket stile.service; do systemctl -q is-active $unit && echo $unit active; systemctl -q is-enabled $unit && echo $unit enabled; done
		pid=$(systemctl show -p MainPID --value stile.service)
		[ "$pid" = 0 ] || sha256sum </proc/$pid/exe
		curl -s http://127.0.0.1/
		ls /run/stile /etc/nginx/snippets 2>/dev/null
		true`)
}

// Failures that show only when something has been changed already are undone, on a machine without
// stile and on one with an older version alike.
func TestUndone(t *testing.T) {
	t.Parallel()
	for _, installed := range []bool{false, true} {
		t.Run(fmt.Sprintf("installed=%t", installed), func(t *testing.T) {
			t.Parallel()
			s := start(t)
			if installed {
				s.install("stile")
				s.protect()
			}
			f := func(want, prepare, args, restore string) {
				t.Helper()
				s.do(prepare)
				before := s.state()
				out, status := s.deploy(args)
				if status == 0 || !strings.Contains(out, want) || !strings.Contains(out, "everything is as it was before") {
					t.Errorf("%s; ./deploy.sh %s: exit status %d, want %q", prepare, args, status, want)
				}
				if after := s.state(); after != before {
					t.Errorf("%s; ./deploy.sh %s leaves\n%s\nwas\n%s", prepare, args, after, before)
				}
				s.do(restore)
			}
			newer := "install --from " + release + "newer"
			f("ended within", ":", "install --from "+release+"dies", ":")
			f("cannot start", ":", "install --from "+release+"start", ":")
			if !installed {
				f("nginx -t refuses the new files", "echo 'upstream stile { server 127.0.0.1:1; }' >/etc/nginx/conf.d/x.conf", newer, "rm /etc/nginx/conf.d/x.conf")
				f("does not include conf.d", "sed -i 's/include .*conf.d.*/#&/' /etc/nginx/nginx.conf", newer, "sed -i 's/#include/include/' /etc/nginx/nginx.conf")
				f("No space left on device", "cp -r /etc/nginx/snippets /tmp/snippets; mount -t tmpfs -o nr_inodes=8 full /etc/nginx/snippets; cp /tmp/snippets/* /etc/nginx/snippets/", newer, "umount /etc/nginx/snippets")
				f("does not take the new files", "touch /run/systemd/refuse-reload", newer, ":")
				f("no request through nginx was decided", "echo 'server { listen 81; include snippets/stile.conf; return 200; }' >/etc/nginx/conf.d/x.conf; mkdir -p /etc/nginx/snippets; touch /etc/nginx/snippets/stile.conf", newer,
					"rm /etc/nginx/conf.d/x.conf /etc/nginx/snippets/stile.conf")
			}
			if installed {
				if out, status := s.deploy("verify"); status != 0 {
					t.Errorf("verify after all that: %d\n%s", status, out)
				}
			}
		})
	}
}

// Ctrl-C at any moment undoes what was done until then; a script that is killed is undone by the next.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	moments := []string{"checking nginx", "writing files", "starting stile.service", "asking the running daemon", "reloading nginx"}
	for _, signal := range []string{"INT", "TERM", "KILL"} {
		t.Run(signal, func(t *testing.T) {
			t.Parallel()
			s := start(t)
			before := s.state()
			moments := moments
			if signal == "TERM" {
				moments = moments[2:3] // it is handled as INT is
			}
			for _, moment := range moments {
				out, status := s.interrupt("install --from "+release+"stile", moment, signal)
				if want := map[string]int{"INT": 130, "TERM": 143, "KILL": 137}[signal]; status != want {
					t.Errorf("%s at %q: exit status %d, want %d\n%s", signal, moment, status, want, out)
				}
				if signal == "KILL" {
					out, status := s.deploy("install --preset none --from " + release + "stile")
					begun := moment != moments[0] && moment != moments[1] // there, perhaps
					if status == 0 || begun && !strings.Contains(out, "undoing it first") {
						t.Errorf("killed at %q: the next run says\n%s", moment, out)
					}
				}
				if after := s.state(); after != before {
					t.Errorf("%s at %q leaves\n%s\nwas\n%s\nsaid\n%s", signal, moment, after, before, out)
				}
			}
			if signal != "INT" {
				return
			}
			s.install("stile")
			s.protect()
			before = s.state()
			for _, moment := range moments[1:4] {
				if out, _ := s.interrupt("install --from "+release+"newer", moment, signal); s.state() != before {
					t.Errorf("an upgrade with %s at %q leaves\n%s\nwas\n%s\nsaid\n%s", signal, moment, s.state(), before, out)
				}
			}
			for _, moment := range []string{"taking stile out of nginx", "taking away the daemon"} {
				if out, _ := s.interrupt("uninstall", moment, signal); s.state() != before {
					t.Errorf("uninstall with %s at %q leaves\n%s\nwas\n%s\nsaid\n%s", signal, moment, s.state(), before, out)
				}
			}
		})
	}
}

// interrupt runs deploy.sh, as a terminal would, in a process group of its own, and sends that a signal as
// soon as the script says moment.
func (s *sandbox) interrupt(args, moment, signal string) (string, int) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := s.command(ctx, fmt.Sprintf(`set -m
		mkfifo /tmp/said 2>/dev/null
		./deploy.sh %[1]s >/tmp/said 2>&1 &
		sent=
		while read -r line; do
			echo "$line"
			if [[ -z $sent && $line == *%[2]q* ]]; then kill -%[3]s -- -$! $([ %[3]s != KILL ] || printf -- '-%%s ' $(pgrep -P $!)); sent=yes; fi
		done </tmp/said
		wait $!`, args, moment, signal))
	start := time.Now()
	out, err := cmd.CombinedOutput()
	if err == nil || cmd.ProcessState == nil {
		s.t.Fatalf("%s: %v after %s\n%s", args, err, time.Since(start), out)
	}
	return string(out), cmd.ProcessState.ExitCode()
}
