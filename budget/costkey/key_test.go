package costkey

import (
	"fmt"
	"testing"

	"stile/config"
	"stile/decide"
)

// TestPath: two requests have one key exactly if no backend has a reason to answer them in
// two ways.
func TestPath(t *testing.T) {
	base := func() *decide.Request {
		return &decide.Request{Method: "GET", Host: "www.example.org", Path: "/a/b", Query: "q=1", Agent: "x"}
	}
	different := map[string]func(r *decide.Request){
		"as it is": func(*decide.Request) {},
		"host":     func(r *decide.Request) { r.Host = "git.example.org" },
		"path":     func(r *decide.Request) { r.Path = "/a/c" },
		"query":    func(r *decide.Request) { r.Query = "q=2" },
		"none":     func(r *decide.Request) { r.Query = "" },
		"cut":      func(r *decide.Request) { r.Path, r.Query = "/a/", "bq=1" },
		"reading":  func(r *decide.Request) { r.Alt = []string{"/c"} },
		"readings": func(r *decide.Request) { r.Alt = []string{"/c", "/d"} },
		"a form":   func(r *decide.Request) { r.Method = "POST" },
		"a change": func(r *decide.Request) { r.Method = "PUT" },
	}
	for _, h := range Headers {
		different[config.Headers[h]] = func(r *decide.Request) { r.Header[h] = "1" }
		different[config.Headers[h]+" 2"] = func(r *decide.Request) { r.Header[h] = "2" }
	}
	seen := map[uint64]string{}
	for name, change := range different {
		r := base()
		change(r)
		key := Path(1, 2, r)
		if other, ok := seen[key]; ok {
			t.Errorf("%s has the key of %s", name, other)
		}
		seen[key] = name
	}
	for _, same := range []func(r *decide.Request){
		func(r *decide.Request) { r.Agent = "y" },
		func(r *decide.Request) { r.Method = "HEAD" },
		func(r *decide.Request) { r.Header[config.HeaderAcceptLanguage] = "de" },
		func(r *decide.Request) { r.Header[config.HeaderReferer] = "https://www.example.org/" },
	} {
		r := base()
		same(r)
		if seen[Path(1, 2, r)] != "as it is" {
			t.Errorf("%+v has a key of its own", r)
		}
	}
	if Path(1, 3, base()) == Path(1, 2, base()) || Path(2, 2, base()) == Path(1, 2, base()) {
		t.Error("the route or the seed does not count")
	}
}

func TestRoute(t *testing.T) {
	seen := map[uint32]string{}
	for _, r := range [][2]string{{"a", "b"}, {"b", "a"}, {"ab", ""}, {"", "ab"}} {
		key := Route(1, r[0], r[1])
		if other, ok := seen[key]; ok {
			t.Errorf("%q has the key of %s", r, other)
		}
		seen[key] = fmt.Sprint(r)
	}
}
