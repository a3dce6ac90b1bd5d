// Package nginx holds the configuration files that a site includes to stand behind
// stile: stile.conf for the http level, snippets/ for servers and locations, sites/
// with complete examples, and beside one of them the stile.toml that it needs. Their
// only absolute path is Prefix.
package nginx

import (
	"embed"
	"io/fs"
	"path"
	"strings"
)

// Prefix is the directory of the daemon's socket, and the only absolute path in the
// shipped files: replacing it everywhere moves an installation.
const Prefix = "/run/stile"

//go:embed stile.conf snippets sites
var files embed.FS

// Files returns the shipped files for nginx by their path under nginx's configuration directory,
// which is how they include each other, with Prefix replaced. stile.conf is at conf.d/stile.conf,
// where Debian's nginx finds it.
func Files(prefix string) map[string]string {
	all := make(map[string]string)
	err := fs.WalkDir(files, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || path.Ext(name) != ".conf" {
			return err
		}
		text, err := files.ReadFile(name)
		if err != nil {
			return err
		}
		if name == "stile.conf" {
			name = path.Join("conf.d", name)
		}
		all[name] = strings.ReplaceAll(string(text), Prefix, prefix)
		return nil
	})
	if err != nil {
		panic("BUG: cannot read the embedded files: " + err.Error())
	}
	return all
}
