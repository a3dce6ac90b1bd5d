package systemd

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestMain is also the process that sockets are handed over to: systemd counts them from
// descriptor 3, which a test's own process has long used for other things.
func TestMain(m *testing.M) {
	if want, ok := os.LookupEnv("STILE_TEST_TAKE"); ok {
		os.Setenv("LISTEN_PID", fmt.Sprint(os.Getpid()))
		fmt.Println(report(strings.Fields(want)))
		return
	}
	os.Exit(m.Run())
}

// report says what became of the sockets when those addresses were asked for.
func report(addresses []string) string {
	s, err := FromEnvironment()
	if err != nil {
		return "error: " + err.Error()
	}
	var said []string
	for _, address := range addresses {
		packets := strings.HasPrefix(address, "datagrams:")
		address = strings.TrimPrefix(address, "datagrams:")
		switch {
		case packets && s.PacketConn(address) != nil, !packets && s.Listener(address) != nil:
			said = append(said, "got")
		default:
			said = append(said, "none")
		}
	}
	if err := s.Left(); err != nil {
		said = append(said, err.Error())
	}
	if _, left := os.LookupEnv("LISTEN_FDS"); left {
		said = append(said, "LISTEN_FDS is left for children")
	}
	return strings.Join(said, " ")
}

func TestSockets(t *testing.T) {
	dir := t.TempDir()
	file := func(l interface{ File() (*os.File, error) }) *os.File {
		f, err := l.File()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return f
	}
	listen := func(network, address string) (*os.File, string) {
		l, err := net.Listen(network, address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		return file(l.(interface{ File() (*os.File, error) })), l.Addr().String()
	}
	packets := func(network, address string) *os.File {
		p, err := net.ListenPacket(network, address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { p.Close() })
		return file(p.(interface{ File() (*os.File, error) }))
	}
	check, _ := listen("unix", filepath.Join(dir, "check"))
	lease := packets("unixgram", filepath.Join(dir, "lease"))
	admin, port := listen("tcp", "127.0.0.1:0")
	udp := packets("udp", "127.0.0.1:0")
	sequence, _ := listen("unixpacket", filepath.Join(dir, "sequence"))

	f := func(want string, asked string, handed ...*os.File) {
		t.Helper()
		child := exec.Command(os.Args[0])
		child.Env = append(os.Environ(), "STILE_TEST_TAKE="+strings.ReplaceAll(asked, "DIR", "unix:"+dir), fmt.Sprintf("LISTEN_FDS=%d", len(handed)))
		child.ExtraFiles = handed
		out, err := child.CombinedOutput()
		if got := strings.ReplaceAll(strings.TrimSpace(string(out)), dir, "DIR"); err != nil || !strings.HasPrefix(got, want) || (want == "got" && got != want) {
			t.Errorf("asked for %s:\n got %s (%v)\nwant %s", asked, got, err, want)
		}
	}
	f("got got got", "DIR/check datagrams:DIR/lease "+port, check, lease, admin)
	f("got got got", "datagrams:DIR/lease "+port+" DIR/check", admin, check, lease)
	f("got", "[::ffff:127.0.0.1]"+strings.TrimPrefix(port, "127.0.0.1"), admin)

	// Not of that kind, not there, taken before, nothing handed over.
	f("none got", "datagrams:DIR/check DIR/check", check)
	f("none got", "DIR/lease datagrams:DIR/lease", lease)
	f("got none", "DIR/check "+port, check)
	f("got none", "DIR/check DIR/check", check)
	f("none", "DIR/check")

	// Left over: whoever connects would wait for ever.
	f("got systemd has handed over "+port+", which is none of [listen]", "DIR/check", check, admin)
	f("got systemd has handed over unix:DIR/lease (datagrams), which", "DIR/check", check, lease)

	// Of a kind that nothing can be done with.
	f(`error: systemd has handed over "LISTEN_FD_3"`, "DIR/check", udp)
	f(`error: systemd has handed over "LISTEN_FD_4", a socket of the kind unixpacket`, "DIR/check", check, sequence)
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	f(`error: systemd has handed over "LISTEN_FD_3", which nothing can be made of`, "DIR/check", null)
}

// What was handed over stays on disk when the process that has it is done with it.
func TestClosingLeavesTheSocket(t *testing.T) {
	name := filepath.Join(t.TempDir(), "check")
	l, err := net.Listen("unix", name)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	f, err := l.(*net.UnixListener).File()
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	s, err := fromFile(f)
	if err != nil {
		t.Fatal(err)
	}
	s.listener.Close()
	c, err := net.Dial("unix", name)
	if err != nil {
		t.Fatalf("after the daemon has closed it: %s", err)
	}
	c.Close()
}

func TestTells(t *testing.T) {
	name := filepath.Join(t.TempDir(), "notify")
	p, err := net.ListenPacket("unixgram", name)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	t.Setenv("NOTIFY_SOCKET", name)
	s := new(Service)
	f := func(want string, tell func()) {
		t.Helper()
		tell()
		b := make([]byte, 1000)
		n, _, err := p.ReadFrom(b)
		if err != nil || !strings.HasPrefix(string(b[:n]), want) {
			t.Errorf("told %q (%v), want %q", b[:n], err, want)
		}
	}
	f("READY=1\nSTATUS=7 rules STOPPING=1", func() { s.Ready("7 rules\nSTOPPING=1") })
	f("RELOADING=1\nMONOTONIC_USEC=", s.Reloading)
	f("STOPPING=1", s.Stopping)
	f("WATCHDOG=1", s.Alive)

	t.Setenv("NOTIFY_SOCKET", "")
	s.Alive() // nobody to tell
	t.Setenv("NOTIFY_SOCKET", name+".gone")
	s.Alive()
}

func TestWatchdog(t *testing.T) {
	f := func(usec, pid, want string) {
		t.Helper()
		t.Setenv("WATCHDOG_USEC", usec)
		t.Setenv("WATCHDOG_PID", pid)
		s, err := FromEnvironment()
		got := ""
		if err != nil {
			got = "error"
		} else {
			got = s.Watchdog.String()
		}
		if got != want {
			t.Errorf("WATCHDOG_USEC=%s WATCHDOG_PID=%s: %s, want %s", usec, pid, got, want)
		}
	}
	own := fmt.Sprint(os.Getpid())
	f("10000000", own, "10s")
	f("10000000", "", "10s")
	f("10000000", "1", "0s") // another process's
	f("", "", "0s")
	f("ten", own, "error")
}
