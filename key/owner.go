package key

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// chownLike gives a file the owner that another one has.
func chownLike(file string, like fs.FileInfo) error {
	if st, ok := like.Sys().(*syscall.Stat_t); ok {
		return os.Chown(file, int(st.Uid), int(st.Gid))
	}
	return nil
}

// ours tells whether a file belongs to the user who runs this process.
func ours(f fs.FileInfo) bool {
	st, ok := f.Sys().(*syscall.Stat_t)
	return !ok || int(st.Uid) == os.Geteuid()
}

// me is the user who runs this process, as chown takes it.
func me() string {
	if u, err := user.LookupId(strconv.Itoa(os.Geteuid())); err == nil {
		return u.Username
	}
	return strconv.Itoa(os.Geteuid())
}

// outOf says what to do about a folder in which a key file cannot be found or made.
// What it returns still wraps fs.ErrNotExist where err does, for a file that may be
// made in a folder that is there.
func outOf(err error, file string) error {
	folder, owner := filepath.Dir(file), me()
	if owner == "root" {
		owner = "USER" // root makes it for another
	}
	switch _, missing := os.Stat(folder); {
	case errors.Is(err, fs.ErrNotExist) && errors.Is(missing, fs.ErrNotExist):
		return fmt.Errorf("%s: %w: make its folder: install -d -o %s %s", file, fs.ErrNotExist, owner, folder)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%s: the folder %s is closed to the user who runs stile (%s): chown it", file, folder, me())
	}
	return err
}
