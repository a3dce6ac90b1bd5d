package server

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"os/user"
	"strconv"
	"strings"
	"syscall"
)

// listen opens "unix:/path" or "host:port".
func listen(address string, log *slog.Logger) (net.Listener, error) {
	file, ok := strings.CutPrefix(address, "unix:")
	if !ok {
		ln, err := net.Listen("tcp", address)
		if err != nil {
			return nil, fmt.Errorf("listening: %w", err)
		}
		return ln, nil
	}
	if err := removeStale(file); err != nil {
		return nil, err
	}
	ln, err := net.Listen("unix", file)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("listening on %s: its folder is not there: make it, or set [listen] check", file)
		}
		return nil, fmt.Errorf("listening: %w", err)
	}
	if err := openToNginx(file, log); err != nil {
		return nil, errors.Join(err, ln.Close())
	}
	return ln, nil
}

// removeStale removes a socket that nobody listens on any more. One that is in use,
// and anything that is no socket, is an error.
func removeStale(file string) error {
	st, err := os.Lstat(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("listening: %w", err)
	}
	if st.Mode()&fs.ModeSocket == 0 {
		return fmt.Errorf("listening: %s exists and is no socket: remove it, or set [listen] check", file)
	}
	conn, err := net.Dial("unix", file)
	if err == nil {
		conn.Close()
		return fmt.Errorf("listening: another process listens on %s: stop it first", file)
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("listening: %w", err)
	}
	if err := os.Remove(file); err != nil {
		return fmt.Errorf("listening: %w", err)
	}
	return nil
}

// openToNginx lets nginx's workers connect: by their group where that can be given, else
// by letting everybody on this machine connect.
func openToNginx(file string, log *slog.Logger) error {
	for _, name := range []string{"www-data", "nginx", "http"} {
		g, err := user.LookupGroup(name)
		if err != nil {
			continue
		}
		gid, err := strconv.Atoi(g.Gid)
		if err == nil && os.Chown(file, -1, gid) == nil {
			return os.Chmod(file, 0o660)
		}
	}
	log.Warn("the socket is open to every user of this machine: run stile as root, or with nginx's group among its own, to close it", "socket", file)
	return os.Chmod(file, 0o666)
}
