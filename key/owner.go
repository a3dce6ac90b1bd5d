package key

import (
	"io/fs"
	"os"
	"syscall"
)

// chownLike gives a file the owner that another one has.
func chownLike(file string, like fs.FileInfo) error {
	if st, ok := like.Sys().(*syscall.Stat_t); ok {
		return os.Chown(file, int(st.Uid), int(st.Gid))
	}
	return nil
}
