package install

import (
	"bufio"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// The stand-in for systemd, as far as deploy.sh asks it: process 1 of a sandbox holds the sockets of
// stile.socket, runs stile.service with them and waits for its READY=1, restarts it when it ends,
// and the same program under the name of systemctl tells it what to do. Units are read from where
// deploy.sh puts them. (The test with a real systemd is vm/test.sh.)

const (
	unitDir = "/etc/systemd/system"
	manager = "/run/systemd/stand-in.sock"
)

func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == "systemctl" {
		if len(os.Args) == 2 && os.Args[1] == "stand-in" {
			os.Exit(standIn())
		}
		os.Exit(systemctl(os.Args[1:]))
	}
	status := m.Run()
	os.RemoveAll(released.dir)
	os.Exit(status)
}

type answer struct {
	Text, Error string
	Status      int
}

// systemctl hands its arguments to process 1.
func systemctl(args []string) int {
	c, err := net.Dial("unix", manager)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer c.Close()
	json.NewEncoder(c).Encode(args)
	var a answer
	if err := json.NewDecoder(c).Decode(&a); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Print(a.Text)
	if a.Error != "" {
		fmt.Fprintln(os.Stderr, a.Error)
	}
	return a.Status
}

// units is what process 1 knows.
type units struct {
	mu      sync.Mutex
	enabled map[string]bool
	sockets []*os.File // of stile.socket; empty: it is not active
	listens string     // as `systemctl show -p Listen` says it
	service *exec.Cmd  // nil: stile.service is not active
	wanted  bool       // to be restarted when it ends
}

func standIn() int {
	l, err := net.Listen("unix", manager)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	u := &units{enabled: make(map[string]bool)}
	if err := releaseServer(); err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println("ready")
	go func() {
		io.Copy(io.Discard, os.Stdin) // the test has ended
		os.Exit(0)
	}()
	for {
		c, err := l.Accept()
		if err != nil {
			return 1
		}
		go func() {
			defer c.Close()
			var args []string
			if json.NewDecoder(c).Decode(&args) != nil {
				return
			}
			text, err := u.command(args)
			a := answer{Text: text}
			if err != nil {
				a = answer{Text: text, Error: err.Error(), Status: 1}
			}
			json.NewEncoder(c).Encode(a)
		}()
	}
}

// releaseServer serves /srv/release within the sandbox: on port 8443 with https, on 8480 with plain http. It cuts
// /cut/… in the middle, and sends /away/… on to plain http.
func releaseServer() error {
	files := http.NewServeMux()
	files.Handle("/", http.FileServer(http.Dir("/srv/release")))
	files.HandleFunc("/cut/{name}", func(w http.ResponseWriter, r *http.Request) {
		text, err := os.ReadFile("/srv/release/" + r.PathValue("name"))
		if err != nil {
			panic(err)
		}
		w.Header().Set("Content-Length", strconv.Itoa(len(text)))
		w.Write(text[:len(text)/2])
		panic(http.ErrAbortHandler)
	})
	files.HandleFunc("/away/{name}", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://127.0.0.1:8480/"+r.PathValue("name"), http.StatusFound)
	})
	plain, err := net.Listen("tcp", "127.0.0.1:8480")
	if err != nil {
		return err
	}
	go http.Serve(plain, files)
	secure := httptest.NewUnstartedServer(files)
	if secure.Listener, err = net.Listen("tcp", "127.0.0.1:8443"); err != nil {
		return err
	}
	secure.StartTLS()
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secure.Certificate().Raw})
	return os.WriteFile("/stand-in/ca.pem", certificate, 0o644)
}

// command does what one call of systemctl asks for.
func (u *units) command(args []string) (string, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	var verb, property string
	var names []string
	now, quiet := false, false
	for i := 0; i < len(args); i++ {
		switch a := args[i]; {
		case a == "-p":
			i++
			property = args[i]
		case a == "--now":
			now = true
		case a == "-q":
			quiet = true
		case strings.HasPrefix(a, "-"):
		case verb == "":
			verb = a
		default:
			names = append(names, a)
		}
	}
	if verb == "daemon-reload" || verb == "reset-failed" {
		return "", nil
	}
	var text string
	var all error
	for _, name := range names {
		if name == "nginx" {
			name = "nginx.service"
		}
		out, err := u.one(verb, name, property, now)
		text += out
		all = errors.Join(all, err)
	}
	if quiet && (verb == "is-active" || verb == "is-enabled") && all != nil {
		all = errors.New("")
	}
	return text, all
}

var errNo = errors.New("inactive")

func (u *units) one(verb, name, property string, now bool) (string, error) {
	if name == "nginx.service" {
		pid, err := nginxPID()
		switch verb {
		case "is-active":
			return "", err
		case "show":
			return fmt.Sprintln(pid), nil
		case "reload":
			if _, err := os.Stat("/run/systemd/refuse-reload"); err == nil {
				os.Remove("/run/systemd/refuse-reload") // once
				return "", errors.New("Job for nginx.service failed.")
			}
			return "", exec.Command("nginx", "-s", "reload").Run()
		}
	}
	switch verb {
	case "enable":
		if _, err := unit(name); err != nil {
			return "", err
		}
		u.enabled[name] = true
	case "disable":
		delete(u.enabled, name)
		if now {
			u.stop(name)
		}
	case "is-enabled":
		if !u.enabled[name] {
			return "", errors.New("disabled")
		}
	case "is-active":
		if name == "stile.service" && u.service == nil || name == "stile.socket" && len(u.sockets) == 0 {
			return "", errNo
		}
	case "show":
		if property == "MainPID" {
			if u.service == nil {
				return "0\n", nil
			}
			return fmt.Sprintln(u.service.Process.Pid), nil
		}
		return u.listens, nil
	case "stop":
		u.stop(name)
	case "start", "restart":
		if name == "stile.socket" {
			return "", u.listen()
		}
		if verb == "restart" {
			u.stop(name)
		}
		if u.service != nil {
			return "", nil
		}
		if len(u.sockets) == 0 {
			if err := u.listen(); err != nil {
				return "", err
			}
		}
		return "", u.run()
	default:
		return "", fmt.Errorf("the stand-in does not know systemctl %s", verb)
	}
	return "", nil
}

func nginxPID() (int, error) {
	b, err := os.ReadFile("/run/nginx.pid")
	if err != nil {
		return 0, err
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		return 0, err
	}
	return pid, syscall.Kill(pid, 0)
}

// unit reads the assignments of a unit's file.
func unit(name string) ([][2]string, error) {
	f, err := os.Open(filepath.Join(unitDir, name))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var all [][2]string
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if key, value, ok := strings.Cut(lines.Text(), "="); ok && !strings.HasPrefix(key, "#") {
			all = append(all, [2]string{key, value})
		}
	}
	return all, nil
}

func value(all [][2]string, key string) string {
	for _, kv := range all {
		if kv[0] == key {
			return kv[1]
		}
	}
	return ""
}

// listen opens the sockets of stile.socket.
func (u *units) listen() error {
	if len(u.sockets) > 0 {
		return nil
	}
	all, err := unit("stile.socket")
	if err != nil {
		return err
	}
	owner, err := user.Lookup(value(all, "SocketUser"))
	if err != nil {
		return err
	}
	group, err := user.LookupGroup(value(all, "SocketGroup"))
	if err != nil {
		return err
	}
	uid, _ := strconv.Atoi(owner.Uid)
	gid, _ := strconv.Atoi(group.Gid)
	mode, err := strconv.ParseUint(value(all, "SocketMode"), 8, 32)
	if err != nil {
		return err
	}
	for _, kv := range all {
		if !strings.HasPrefix(kv[0], "Listen") {
			continue
		}
		file, err := open(strings.TrimPrefix(kv[0], "Listen"), kv[1])
		if err != nil {
			return err
		}
		if strings.HasPrefix(kv[1], "/") {
			if err := errors.Join(os.Chown(kv[1], uid, gid), os.Chmod(kv[1], os.FileMode(mode))); err != nil {
				return err
			}
		}
		u.sockets = append(u.sockets, file)
		u.listens += fmt.Sprintf("%s (%s)\n", kv[1], strings.TrimPrefix(kv[0], "Listen"))
	}
	return nil
}

// open opens one socket, as a file to hand over.
func open(kind, address string) (*os.File, error) {
	if !strings.HasPrefix(address, "/") {
		l, err := net.Listen("tcp", address)
		if err != nil {
			return nil, err
		}
		defer l.Close()
		return l.(*net.TCPListener).File()
	}
	if err := os.MkdirAll(filepath.Dir(address), 0o755); err != nil {
		return nil, err
	}
	os.Remove(address)
	if kind == "Datagram" {
		p, err := net.ListenPacket("unixgram", address)
		if err != nil {
			return nil, err
		}
		defer func() { p.Close() }()
		return p.(*net.UnixConn).File()
	}
	l, err := net.Listen("unix", address)
	if err != nil {
		return nil, err
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	defer l.Close()
	return l.(*net.UnixListener).File()
}

// run starts stile.service, and returns when it says that it is ready.
func (u *units) run() error {
	all, err := unit("stile.service")
	if err != nil {
		return err
	}
	owner, err := user.Lookup(value(all, "User"))
	if err != nil {
		return err
	}
	uid, _ := strconv.Atoi(owner.Uid)
	gid, _ := strconv.Atoi(owner.Gid)
	state := filepath.Join("/var/lib", value(all, "StateDirectory"))
	if err := errors.Join(os.MkdirAll(state, 0o700), os.Chown(state, uid, gid)); err != nil {
		return err
	}
	notify := "/run/systemd/notify"
	os.Remove(notify)
	p, err := net.ListenPacket("unixgram", notify)
	if err != nil {
		return err
	}
	defer p.Close()
	os.Chmod(notify, 0o666)
	log, err := os.OpenFile("/run/systemd/journal", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	// The shell keeps its process id when it becomes the daemon: LISTEN_PID is right.
	cmd := exec.Command("/bin/sh", "-c", "LISTEN_PID=$$ exec "+value(all, "ExecStart"))
	cmd.Env = []string{"PATH=/usr/bin:/bin", "NOTIFY_SOCKET=" + notify, fmt.Sprintf("LISTEN_FDS=%d", len(u.sockets))}
	cmd.Dir, cmd.Stderr = "/", log
	cmd.ExtraFiles = u.sockets
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	ready := make(chan error, 1)
	go func() {
		b := make([]byte, 4096)
		for {
			n, _, err := p.ReadFrom(b)
			if err != nil || strings.Contains("\n"+string(b[:n])+"\n", "\nREADY=1\n") {
				ready <- err
				return
			}
		}
	}()
	select {
	case err := <-ended:
		return fmt.Errorf("stile.service ended before it was ready: %v", err)
	case <-time.After(20 * time.Second):
		cmd.Process.Kill()
		return errors.New("stile.service is not ready")
	case err := <-ready:
		if err != nil {
			return err
		}
	}
	u.service, u.wanted = cmd, true
	go func() {
		<-ended
		u.mu.Lock()
		defer u.mu.Unlock()
		if u.service == cmd {
			u.service = nil
			if u.wanted {
				u.run() // Restart=always
			}
		}
	}()
	return nil
}

func (u *units) stop(name string) {
	if name == "stile.socket" {
		for _, f := range u.sockets {
			f.Close()
		}
		u.sockets, u.listens = nil, ""
		return
	}
	cmd := u.service
	u.service, u.wanted = nil, false
	if cmd == nil {
		return
	}
	cmd.Process.Signal(syscall.SIGTERM)
	defer syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // what it has left
	for range 100 {
		if cmd.Process.Signal(syscall.Signal(0)) != nil {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	cmd.Process.Kill()
}
