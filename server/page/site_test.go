package page

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"

	"stile/pow"
)

// A site is a protected one with what the pages ask of the daemon, in miniature. It
// verifies solutions as the daemon does; what it says can be changed by the test.
type site struct {
	*httptest.Server
	pages   *Pages
	entered chan string // targets of requests that got in

	mu sync.Mutex
	siteWays
	siteCounts
}

// siteWays is how it behaves. The zero value is the ordinary way.
type siteWays struct {
	keepsNoCookies bool // the browser: the cookie is not set
	stubborn       bool // challenges even who has the pass
	answers        []answer
	always         *answer // instead of the truth, after answers
	csp            string  // another policy, besides the page's own
	brokenScripts  int     // the page's script fails so many times; -1: always
	bits           uint8   // default 6
	options        Challenge
	refused        *Refused        // shows this instead of the challenge
	frames         string          // address of a page to show in a frame on /frame
	together       *sync.WaitGroup // no challenge goes out before all have been asked for
}

type siteCounts struct {
	challenges, proofs, checks, scripts, workers, waits int
	wrong                                               []string
}

type answer struct {
	status int
	body   string
}

func newSite(t testing.TB, ways siteWays) *site {
	s := &site{pages: New(Options{}), entered: make(chan string, 100), siteWays: ways}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

// at is an address on the site, under one of its names.
func (s *site) at(host, target string) string {
	_, port, _ := net.SplitHostPort(s.Listener.Addr().String())
	return "http://" + host + ":" + port + target
}

func (s *site) set(change func(w *siteWays)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.siteWays)
}

func (s *site) counts() siteCounts {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.siteCounts
}

func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	cookie, err := r.Cookie("stile")
	passed := err == nil && cookie.Value == "pass"
	h := w.Header()
	h.Set("Cache-Control", "no-store, no-cache") // lynx heeds only the second, and else shows the challenge again after the wait
	switch r.URL.Path {
	case scriptPath:
		if r.Header.Get("Sec-Fetch-Dest") == "script" {
			s.scripts++
			if s.brokenScripts != 0 {
				s.brokenScripts--
				http.Error(w, "<html>broken", http.StatusServiceUnavailable)
				return
			}
		}
		if r.Header.Get("Sec-Fetch-Dest") == "worker" {
			s.workers++
		}
		body, _, _ := s.pages.Script()
		h.Set("Content-Type", "text/javascript; charset=utf-8")
		h.Set("Content-Security-Policy", s.pages.CSP())
		w.Write(body)
	case "/.stile/pass":
		s.checks++
		if passed {
			w.WriteHeader(http.StatusNoContent)
		} else {
			w.WriteHeader(http.StatusForbidden)
		}
	case "/.stile/proof":
		s.proofs++
		a := answer{http.StatusOK, `{"ok":true}`}
		if why := s.verify(r); why != "" {
			s.wrong = append(s.wrong, why)
			a = answer{http.StatusForbidden, `{"error":"wrong"}`}
		} else if len(s.answers) > 0 {
			a, s.answers = s.answers[0], s.answers[1:]
		} else if s.always != nil {
			a = *s.always
		}
		if a.status == http.StatusOK && !s.keepsNoCookies {
			http.SetCookie(w, &http.Cookie{Name: "stile", Value: "pass", Path: "/", HttpOnly: true, SameSite: http.SameSiteLaxMode})
		}
		h.Set("Content-Type", "application/json")
		w.WriteHeader(a.status)
		fmt.Fprint(w, a.body)
	case waitPath:
		s.waits++
		target, err := base64.RawURLEncoding.DecodeString(r.URL.Query().Get("u"))
		if err != nil || len(target) == 0 || target[0] != '/' || r.URL.Query().Get("t") == "" {
			s.wrong = append(s.wrong, "wait: "+r.URL.RawQuery)
			http.Error(w, "damaged", http.StatusBadRequest)
			return
		}
		if !s.keepsNoCookies {
			http.SetCookie(w, &http.Cookie{Name: "stile", Value: "pass", Path: "/"})
		}
		h.Set("Location", string(target))
		w.WriteHeader(http.StatusSeeOther)
	case provePath:
		s.challenge(w, r, http.StatusOK, true)
	case "/frame":
		h.Set("Content-Type", "text/html")
		fmt.Fprintf(w, `<!doctype html><title>frame</title><iframe %s src="%s"></iframe>`, r.URL.Query().Get("with"), s.frames)
	case "/favicon.ico":
		http.NotFound(w, r)
	default:
		if passed && !s.stubborn && s.refused == nil {
			h.Set("Content-Type", "text/html")
			if r.URL.Path == "/archive.tar.gz" {
				h.Set("Content-Type", "application/gzip")
				h.Set("Content-Disposition", "attachment")
			}
			fmt.Fprint(w, `<!doctype html><title>inside</title><p id="inside">The page itself.`)
			s.entered <- r.RequestURI
			return
		}
		if s.refused != nil {
			refused := *s.refused
			refused.Lang = PickLanguage(r.Header.Get("Accept-Language"))
			s.page(w, http.StatusServiceUnavailable, s.pages.AppendRefused(nil, &refused))
			s.challenges++
			return
		}
		s.challenge(w, r, http.StatusServiceUnavailable, false)
	}
}

func (s *site) page(w http.ResponseWriter, status int, body []byte) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Add("Content-Security-Policy", s.pages.CSP())
	if s.csp != "" {
		w.Header().Add("Content-Security-Policy", s.csp)
	}
	w.WriteHeader(status)
	w.Write(body)
}

const testParts = 8

func (s *site) challenge(w http.ResponseWriter, r *http.Request, status int, prove bool) {
	s.challenges++
	if s.together != nil {
		s.together.Done()
		s.mu.Unlock()
		s.together.Wait()
		s.mu.Lock()
	}
	c := s.options
	c.Lang = PickLanguage(r.Header.Get("Accept-Language"))
	c.Token = randomToken()
	c.Algorithm, c.Bits, c.Parts, c.Prove = uint8(pow.SHA256), s.testBits(), testParts, prove
	c.Target = r.RequestURI
	c.Support = "1f3e5d7c"
	s.page(w, status, s.pages.AppendChallenge(nil, &c))
}

func (s *site) testBits() uint8 {
	if s.bits == 0 {
		return 6
	}
	return s.bits
}

func randomToken() []byte {
	raw := make([]byte, pow.TokenLen/4*3)
	rand.Read(raw)
	return base64.RawURLEncoding.AppendEncode(nil, raw)
}

// verify checks a posted proof, and says what is wrong with it.
func (s *site) verify(r *http.Request) string {
	var body struct{ Token, Solution string }
	if r.Method != http.MethodPost || r.Header.Get("Content-Type") != "application/json" {
		return r.Method + " of " + r.Header.Get("Content-Type")
	}
	d := json.NewDecoder(r.Body)
	d.DisallowUnknownFields()
	if err := d.Decode(&body); err != nil {
		return err.Error()
	}
	token, err := base64.RawURLEncoding.DecodeString(body.Token)
	if err != nil || len(token) < 32 {
		return "token " + body.Token
	}
	solution, err := pow.AppendSolution(nil, []byte(body.Solution))
	if err != nil {
		return err.Error()
	}
	c := pow.Challenge{Algorithm: pow.SHA256, Kind: pow.Work, Bits: s.testBits(), Parts: testParts}
	if err := pow.Verify(&c, (*[32]byte)(token[len(token)-32:]), len(solution)/4, solution); err != nil {
		return err.Error()
	}
	return ""
}

// query is the part of an address from its path on, as the page's script sees it.
func query(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return err.Error()
	}
	return strings.TrimPrefix(address, u.Scheme+"://"+u.Host)
}
