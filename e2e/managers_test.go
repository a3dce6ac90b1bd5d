package e2e

import (
	"archive/zip"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"stile/nginx/nginxtest"
)

// index is a proxy of Go modules and an index of Python packages, with twelve of each.
func index(t *testing.T) http.HandlerFunc {
	archive := func(files map[string]string) string {
		var b bytes.Buffer
		z := zip.NewWriter(&b)
		for name, text := range files {
			w, err := z.Create(name)
			if err == nil {
				_, err = io.WriteString(w, text)
			}
			if err != nil {
				t.Error(err)
			}
		}
		z.Close()
		return b.String()
	}
	files := map[string]string{}
	for i := range 12 {
		mod := fmt.Sprintf("example.org/m%d", i)
		next := ""
		if i < 11 {
			next = fmt.Sprintf("require example.org/m%d v1.0.0\n", i+1)
		}
		goMod := "module " + mod + "\n" + next
		files["/"+mod+"/@v/v1.0.0.info"] = `{"Version":"v1.0.0"}`
		files["/"+mod+"/@v/list"] = "v1.0.0\n"
		files["/"+mod+"/@v/v1.0.0.mod"] = goMod
		files["/"+mod+"/@v/v1.0.0.zip"] = archive(map[string]string{mod + "@v1.0.0/go.mod": goMod, mod + "@v1.0.0/m.go": "package m\n"})
		p := fmt.Sprintf("p%d", i)
		needs := ""
		if i < 11 {
			needs = fmt.Sprintf("Requires-Dist: p%d\n", i+1)
		}
		info := p + "-1.0.dist-info/"
		wheel := "/packages/" + p + "/" + p + "-1.0-py3-none-any.whl"
		files[wheel] = archive(map[string]string{
			p + ".py": "x = 1\n", info + "METADATA": "Metadata-Version: 2.1\nName: " + p + "\nVersion: 1.0\n" + needs,
			info + "WHEEL": "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n", info + "RECORD": "",
		})
		files["/simple/"+p+"/"] = fmt.Sprintf(`{"meta":{"api-version":"1.0"},"name":%q,"files":[{"filename":"%s-1.0-py3-none-any.whl","url":%q,"hashes":{}}]}`, p, p, wheel)
	}
	return func(w http.ResponseWriter, r *http.Request) {
		text, ok := files[r.URL.Path]
		switch {
		case strings.HasPrefix(r.URL.Path, "/page"):
		case !ok:
			http.NotFound(w, r)
		case strings.HasPrefix(r.URL.Path, "/simple/"):
			w.Header().Set("Content-Type", "application/vnd.pypi.simple.v1+json")
			io.WriteString(w, text)
		default:
			http.ServeContent(w, r, "", time.Time{}, strings.NewReader(text))
		}
	}
}

// C114, C116: real package managers install for somebody who has used up the pages; and refused in the middle they
// fail. (Go says that it is for 429; pip says that there is no such package where it is its index that is refused.)
func TestPackageManagers(t *testing.T) {
	t.Parallel()
	for _, preset := range []string{"generic", "packages"} {
		t.Run(preset, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(index(t))
			t.Cleanup(server.Close)
			include := "include = [\"preset:" + preset + "\"]\n"
			s := build(t, include, nginxtest.Options{App: server.Listener.Addr().String()})
			s.daemon.start()
			s.exhaust("/page")
			run := func(name string, args []string, env ...string) (string, bool) {
				t.Helper()
				ctx, cancel := context.WithTimeout(context.Background(), 120*time.Second)
				defer cancel()
				cmd := exec.CommandContext(ctx, need(t, name), args...)
				cmd.Dir = t.TempDir()
				cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + cmd.Dir, "LC_ALL=C"}, env...)
				cmd.WaitDelay = time.Second
				out, err := cmd.CombinedOutput()
				return string(out), err == nil
			}
			install := func(name string) (string, bool) {
				t.Helper()
				if name == "go" {
					return run("go", []string{"mod", "download", "-json", "example.org/m0@v1.0.0", "example.org/m1@v1.0.0", "example.org/m2@v1.0.0", "example.org/m3@v1.0.0"},
						"GOPROXY=http://"+s.Addr(80), "GONOSUMDB=*", "GONOSUMCHECK=1", "GOFLAGS=-modcacherw", "GOMODCACHE="+t.TempDir(), "GOTOOLCHAIN=local")
				}
				return run("python3", []string{"-m", "pip", "--isolated", "--disable-pip-version-check", "--no-cache-dir", "--retries", "0", "download", "-q", "--index-url", "http://" + s.Addr(80) + "/simple/", "-d", t.TempDir(), "p0"})
			}
			managers := []string{"go"}
			if _, ok := run("python3", []string{"-m", "pip", "--version"}); ok || os.Getenv("CI") == "true" {
				managers = append(managers, "pip")
			}
			for _, name := range managers {
				if out, ok := install(name); !ok {
					t.Errorf("%s: %s", name, out)
				}
			}
			s.daemon.configure(include + "[[meter]]\nname = \"machines\"\nwindow = \"1h\"\nstranger = 3\npass = 3\n[[meter]]\nname = \"assets\"\nwindow = \"1h\"\nstranger = 3\npass = 3\n" +
				map[string]string{"packages": "[[meter]]\nname = \"index\"\nwindow = \"1h\"\nstranger = 3\npass = 3\n[[meter]]\nname = \"packages\"\nwindow = \"1h\"\nstranger = 3\npass = 3\n"}[preset])
			s.daemon.signal(1)
			s.daemon.waitLog("msg=reloaded", 1)
			for _, name := range managers {
				if out, ok := install(name); ok || name == "go" && !strings.Contains(out, "429") || strings.Contains(out, "<html") {
					t.Errorf("%s, refused in the middle: it says ok: %v: %s", name, ok, out)
				}
			}
		})
	}
}
