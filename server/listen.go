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

// listen opens "unix:/path" or "host:port". key is what to set in [listen] to have it
// elsewhere. A unix socket is the owner's alone until open says otherwise.
func listen(address, key string) (net.Listener, error) {
	file, ok := strings.CutPrefix(address, "unix:")
	if !ok {
		ln, err := net.Listen("tcp", address)
		if errors.Is(err, syscall.EADDRINUSE) {
			return nil, fmt.Errorf("listening on %s: another process has it: stop that, or set [listen] %s", address, key)
		}
		if err != nil {
			return nil, fmt.Errorf("listening: %w: set [listen] %s", err, key)
		}
		return ln, nil
	}
	if err := removeStale(file, "unix", key); err != nil {
		return nil, err
	}
	return listenUnix(file, key, func() (net.Listener, error) { return net.Listen("unix", file) })
}

// listenUnix opens a socket at a file, which is the owner's alone.
func listenUnix[T any](file, key string, open func() (T, error)) (T, error) {
	old := syscall.Umask(0o177)
	ln, err := open()
	syscall.Umask(old)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = fmt.Errorf("listening on %s: its folder is not there: make it, or set [listen] %s", file, key)
	case errors.Is(err, fs.ErrPermission):
		err = fmt.Errorf("listening on %s: user id %d may not make a socket there: chown its folder, or set [listen] %s", file, os.Geteuid(), key)
	case err != nil:
		err = fmt.Errorf("listening: %w", err)
	}
	return ln, err
}

// removeStale removes a socket that nobody listens on any more. One that is in use,
// and anything that is no socket, is an error.
func removeStale(file, network, key string) error {
	st, err := os.Lstat(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("listening: %w", err)
	}
	if st.Mode()&fs.ModeSocket == 0 {
		return fmt.Errorf("listening: %s exists and is no socket: remove it, or set [listen] %s", file, key)
	}
	conn, err := net.Dial(network, file)
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

// openToNginx lets nginx's workers connect to the socket, by their group: the one that is
// given, or the first of those that nginx's packages make. Where that cannot be done
// everybody on this machine may connect, and that is said. It returns who may.
func openToNginx(file, group string, log *slog.Logger) (string, error) {
	names := []string{"nginx", "www-data", "http"}
	if group != "" {
		names = []string{group}
	}
	for _, name := range names {
		g, err := user.LookupGroup(name)
		if err != nil {
			continue
		}
		gid, err := strconv.Atoi(g.Gid)
		if err == nil && os.Chown(file, -1, gid) == nil {
			return "group " + name, os.Chmod(file, 0o660)
		}
	}
	if group != "" {
		return "", fmt.Errorf("listening on %s: it cannot be given to the group %q: run stile as root or as a member of that group, or set [listen] group", file, group)
	}
	log.Warn("the socket is open to every user of this machine: run stile as root, or with nginx's group among its own, to close it", "socket", file)
	return "everybody", os.Chmod(file, 0o666)
}
