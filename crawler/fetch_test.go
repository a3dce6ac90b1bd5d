package crawler

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// publisher is a web server that publishes lists, well and badly.
func publisher(t *testing.T) *httptest.Server {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/good":
			fmt.Fprint(w, `{"creationTime":"2026-09-03","prefixes":[{"ipv4Prefix":"8.8.8.0/24"},{"ipv6Prefix":"2a00::/32"}]}`)
		case "/text":
			fmt.Fprint(w, "9.9.9.0/24\n")
		case "/html":
			fmt.Fprint(w, "<html><body>We have moved</body></html>")
		case "/empty":
		case "/cut":
			w.Header().Set("Content-Length", "1000")
			fmt.Fprint(w, `{"prefixes":[{"ipv4Prefix":"8.8.8.0/24"},`)
		case "/half":
			fmt.Fprint(w, `{"prefixes":[{"ipv4Prefix":"8.8.8.0/24"},`)
		case "/private":
			fmt.Fprint(w, "10.0.0.0/8\n")
		case "/endless":
			line := strings.Repeat("8.8.8.8\n", 1000)
			for i := 0; i < 100<<20/len(line); i++ {
				if _, err := fmt.Fprint(w, line); err != nil {
					return
				}
			}
			t.Error("it has read a hundred megabytes")
		case "/round":
			http.Redirect(w, r, "/round", http.StatusFound)
		case "/to":
			http.Redirect(w, r, r.URL.Query().Get("u"), http.StatusFound)
		case "/forbidden":
			http.Error(w, "no", http.StatusForbidden)
		case "/slow":
			<-r.Context().Done()
		}
	}))
	t.Cleanup(s.Close)
	return s
}

func TestFetch(t *testing.T) {
	s := publisher(t)
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		t.Errorf("%s was asked for %s", r.Host, r.URL)
	}))
	t.Cleanup(other.Close)
	otherHost := strings.Replace(other.URL, "127.0.0.1", "localhost", 1)
	id := Find("bing")
	f := func(want string, paths ...string) {
		t.Helper()
		var urls []string
		for _, p := range paths {
			if strings.HasPrefix(p, "/") {
				p = s.URL + p
			}
			urls = append(urls, p)
		}
		l, err := Fetch(t.Context(), id, urls, now)
		got := ""
		if err != nil {
			got = err.Error()
		} else {
			got = fmt.Sprint(l.Date, " ", l.Nets)
		}
		if !strings.Contains(got, want) {
			t.Errorf("%s: %s, want %q", paths, got, want)
		}
	}
	f("2026-09-30 [8.8.8.0/24 2a00::/32]", "/good")
	f("2026-09-30 [8.8.8.0/24 9.9.9.0/24 2a00::/32]", "/good", "/text", "/good")
	f("2026-09-30 [9.9.9.0/24]", "/to?u=/text")
	f("it is a web page", "/html")
	f("it is empty", "/empty")
	f("unexpected EOF", "/cut")
	f("not whole JSON", "/half")
	f("it is a web page", "/good", "/html") // all or nothing
	f("not of the public Internet", "/private")
	f("larger than", "/endless")
	f("more than three redirects", "/round")
	f("403 Forbidden", "/forbidden")
	f("it is empty", "/to?u=/nowhere")
	f("connection refused", "http://127.0.0.1:1/x")
	// What the operator has named is believed, what it points to is not.
	f("is not https", "/to?u="+otherHost+"/text")
	f("is not https", "ftp://127.0.0.1/x")
	f("not on the public Internet", "/to?u=https"+strings.TrimPrefix(otherHost, "http")+"/text")
	f("not on the public Internet", "/to?u=https://169.254.169.254/latest/meta-data")
	f("not on the public Internet", "/to?u=https://[::1]:443/x")
	f("not on the public Internet", "/to?u=https://0.0.0.0/x")

	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := Fetch(ctx, id, []string{s.URL + "/slow"}, now); err == nil {
		t.Error("it has waited for nothing")
	}
}

// The owners' own URLs lead to the Internet only, whatever a name says.
func TestFetchFromTheInternetOnly(t *testing.T) {
	s := publisher(t)
	if _, err := download(t.Context(), "https"+strings.TrimPrefix(s.URL, "http")+"/good", false); err == nil || !strings.Contains(err.Error(), "not on the public Internet") {
		t.Errorf("%v", err)
	}
	if _, err := download(t.Context(), s.URL+"/good", false); err == nil || !strings.Contains(err.Error(), "is not https") {
		t.Errorf("%v", err)
	}
	for name, want := range map[string]string{"amazon": "it is verified by DNS", "yandex": "it is verified by DNS"} {
		if _, err := Fetch(t.Context(), Find(name), nil, now); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
