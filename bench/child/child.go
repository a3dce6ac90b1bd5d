// Package child starts the programs that a benchmark measures, nginx among them, and ends
// them.
package child

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/user"
	"time"
)

// Group is programs that end together. The zero value is an empty one.
type Group struct{ cmds []*exec.Cmd }

// patience is how long a program may take to end, or to listen.
const patience = 8 * time.Second

// Start starts a program, whose output goes to out, and tells its process id.
func (g *Group) Start(out io.Writer, program string, args ...string) (pid int, err error) {
	cmd := exec.Command(program, args...)
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	g.cmds = append(g.cmds, cmd)
	return cmd.Process.Pid, nil
}

// Stop interrupts all, the last one first, and waits for each; one that does not end is
// killed.
func (g *Group) Stop() {
	for i := len(g.cmds) - 1; i >= 0; i-- {
		cmd := g.cmds[i]
		cmd.Process.Signal(os.Interrupt)
		done := make(chan struct{})
		go func() { cmd.Wait(); close(done) }()
		select {
		case <-done:
		case <-time.After(patience):
			cmd.Process.Kill()
			<-done
		}
	}
	g.cmds = nil
}

// Listening waits until somebody listens on an address.
func Listening(network, address string) error {
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if c, err := net.Dial(network, address); err == nil {
			return c.Close()
		}
	}
	return fmt.Errorf("nothing listens on %s", address)
}

// Nginx is where the program nginx is.
func Nginx() string {
	if program, err := exec.LookPath("nginx"); err == nil {
		return program
	}
	return "/usr/sbin/nginx" // not in everybody's path
}

// Workers is as whom nginx's workers run, and to which group stile gives its sockets. Those
// of a root's nginx would be nobody, who may not open them; another user's have no choice.
func Workers() (directive, group string) {
	if os.Geteuid() != 0 {
		return "", ""
	}
	_, noUser := user.Lookup("www-data")
	_, noGroup := user.LookupGroup("www-data")
	if noUser != nil || noGroup != nil {
		return "user root;", ""
	}
	return "user www-data www-data;", "www-data"
}
