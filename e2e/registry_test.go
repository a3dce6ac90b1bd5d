package e2e

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"stile/nginx/nginxtest"
)

// registry is a container registry (OCI distribution) that wants a token, and has one to give.
type registry struct {
	mu    sync.Mutex
	site  string
	parts map[string][]byte // uploads that are not finished
	blobs map[string][]byte
	tags  map[string][]byte
}

func (g *registry) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	defer g.mu.Unlock()
	path := r.URL.Path
	if path == "/v2/token" {
		io.WriteString(w, `{"token":"abc"}`)
		return
	}
	if !strings.HasPrefix(path, "/v2/") {
		io.WriteString(w, "a page")
		return
	}
	w.Header().Set("Docker-Distribution-Api-Version", "registry/2.0")
	if r.Header.Get("Authorization") != "Bearer abc" {
		w.Header().Set("WWW-Authenticate", `Bearer realm="http://`+g.site+`/v2/token",service="container_registry",scope="*"`)
		w.WriteHeader(401)
		io.WriteString(w, `{"errors":[{"code":"UNAUTHORIZED"}]}`)
		return
	}
	name := path[strings.LastIndexByte(path, '/')+1:]
	switch {
	case path == "/v2/":
	case r.Method == "POST" && strings.HasSuffix(path, "/blobs/uploads/"):
		if from := r.URL.Query().Get("mount"); g.blobs[from] != nil {
			w.WriteHeader(201)
			return
		}
		w.Header().Set("Location", path+"5f0e?_state=x%2By%3D%3D")
		w.WriteHeader(202)
	case r.Method == "PATCH":
		b, err := io.ReadAll(r.Body)
		if err != nil || r.URL.Query().Get("_state") != "x+y==" {
			w.WriteHeader(400)
			return
		}
		g.parts[name] = append(g.parts[name], b...)
		w.Header().Set("Location", path+"?_state=x%2By%3D%3D")
		w.Header().Set("Range", fmt.Sprintf("0-%d", len(g.parts[name])-1))
		w.WriteHeader(202)
	case r.Method == "PUT" && strings.Contains(path, "/blobs/uploads/"):
		digest, sum := r.URL.Query().Get("digest"), sha256.Sum256(g.parts[name])
		if digest != "sha256:"+hex.EncodeToString(sum[:]) {
			w.WriteHeader(400)
			return
		}
		g.blobs[digest] = g.parts[name]
		delete(g.parts, name)
		w.WriteHeader(201)
	case r.Method == "PUT" && strings.Contains(path, "/manifests/"):
		g.tags[name], _ = io.ReadAll(r.Body)
		w.WriteHeader(201)
	default:
		b, ok := g.blobs[name]
		if !ok {
			b, ok = g.tags[name]
		}
		if !ok {
			w.WriteHeader(404)
			return
		}
		http.ServeContent(w, r, "", time.Time{}, strings.NewReader(string(b)))
	}
}

// C113, C007: an image is pushed and pulled by somebody who has used up the pages, in chunks whose length nobody
// says and of one that is larger than what nginx takes by itself, with the registry's own 401 and its token; refused
// it gets a 429 that says when, in JSON, and never a password question of ours.
func TestRegistryPushesAndPulls(t *testing.T) {
	t.Parallel()
	for _, preset := range []string{"generic", "forge", "gitlab", "packages"} {
		t.Run(preset, func(t *testing.T) {
			t.Parallel()
			g := &registry{parts: map[string][]byte{}, blobs: map[string][]byte{}, tags: map[string][]byte{}}
			server := httptest.NewServer(g)
			t.Cleanup(server.Close)
			rules := "include = [\"preset:" + preset + "\"]\n"
			s := build(t, rules, nginxtest.Options{App: server.Listener.Addr().String(), Site: `
server {
    listen 80;
    include snippets/stile.conf;
    client_max_body_size 0;
    location / { proxy_pass http://127.0.0.1:8080; proxy_request_buffering off; proxy_http_version 1.1; }
}
`})
			g.site = s.Addr(80)
			s.daemon.start()
			s.exhaust("/o/r")

			client := s.Client(80)
			ask := func(method, target string, body io.Reader, want int, header ...string) *http.Response {
				t.Helper()
				r, err := http.NewRequest(method, "http://"+s.Addr(80)+target, body)
				if err != nil {
					t.Fatal(err)
				}
				r.Header.Set("User-Agent", "containerd/1.7")
				for _, h := range header {
					k, v, _ := strings.Cut(h, ": ")
					r.Header.Set(k, v)
				}
				resp, err := client.Do(r)
				if err != nil {
					t.Fatalf("%s %s: %v", method, target, err)
				}
				defer resp.Body.Close()
				b, _ := io.ReadAll(resp.Body)
				if resp.StatusCode != want {
					t.Fatalf("%s %s: %d, want %d: %.200s", method, target, resp.StatusCode, want, b)
				}
				resp.Body = io.NopCloser(strings.NewReader(string(b)))
				return resp
			}
			r := ask("GET", "/v2/", nil, 401)
			if got := r.Header.Get("WWW-Authenticate"); !strings.Contains(got, "/v2/token") {
				t.Errorf("the registry's question for a token: %q", got)
			}
			ask("GET", "/v2/token?service=container_registry&scope=repository:o/i:pull,push&account=a", nil, 200, "Authorization: Basic eDp5")
			const token = "Authorization: Bearer abc"
			layer := strings.Repeat("0123456789abcdef", 20<<20/16)
			sum := sha256.Sum256([]byte(layer))
			digest := "sha256:" + hex.EncodeToString(sum[:])
			ask("HEAD", "/v2/o/i/blobs/"+digest, nil, 404, token)
			next := ask("POST", "/v2/o/i/blobs/uploads/", strings.NewReader(""), 202, token).Header.Get("Location")
			for _, part := range []string{layer[:1<<20], layer[1<<20:]} {
				next = ask("PATCH", next, struct{ io.Reader }{strings.NewReader(part)}, 202, token, "Content-Type: application/octet-stream").Header.Get("Location")
			}
			ask("PUT", next+"&digest="+strings.ReplaceAll(digest, ":", "%3A"), strings.NewReader(""), 201, token)
			manifest := `{"schemaVersion":2,"layers":[{"digest":"` + digest + `"}]}`
			ask("PUT", "/v2/o/i/manifests/latest", strings.NewReader(manifest), 201, token, "Content-Type: application/vnd.oci.image.manifest.v1+json")
			ask("POST", "/v2/o/j/blobs/uploads/?mount="+digest+"&from=o%2Fi", strings.NewReader(""), 201, token)
			ask("HEAD", "/v2/o/i/manifests/latest", nil, 200, token)
			b, _ := io.ReadAll(ask("GET", "/v2/o/i/blobs/"+digest, nil, 206, token, "Range: bytes=1048576-").Body)
			if string(b) != layer[1<<20:] {
				t.Errorf("the rest of the layer has %d bytes", len(b))
			}

			s.daemon.configure(rules + "[[meter]]\nname = \"machines\"\nwindow = \"1h\"\nstranger = 1\npass = 1\n")
			s.daemon.signal(1)
			s.daemon.waitLog("msg=reloaded", 1)
			const accept = "Accept: application/vnd.oci.image.index.v1+json, application/vnd.docker.distribution.manifest.v2+json, */*"
			ask("GET", "/v2/o/i/manifests/latest", nil, 200, token, accept)
			for method, target := range map[string]string{"GET": "/v2/o/i/manifests/latest", "HEAD": "/v2/o/i/blobs/" + digest, "POST": "/v2/o/i/blobs/uploads/", "PATCH": "/v2/o/i/blobs/uploads/5f0e?_state=x"} {
				r := ask(method, target, nil, 429, token, accept)
				if r.Header.Get("Retry-After") == "" || r.Header.Get("WWW-Authenticate") != "" {
					t.Errorf("%s %s: %v", method, target, r.Header)
				}
				if b, _ := io.ReadAll(r.Body); method != "HEAD" && !json.Valid(b) {
					t.Errorf("%s %s: %.200s", method, target, b)
				}
			}
		})
	}
}
