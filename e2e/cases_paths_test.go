package e2e

import (
	"encoding/base64"
	"fmt"
	"html"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"stile/nginx/nginxtest"
)

// pathRules hold heavy pages shut, and let some shapes through.
const pathRules = `include = []
` + easy + `
[[rule]]
name = "free"
path = ["/robots.txt", "/favicon.ico", "/.well-known/**", "/feed/", "/feed/**", "/static/**", "/**.css"]
do = "allow"
[[rule]]
name = "heavy"
path = ["/heavy", "/heavy/**", "/repo/commit/**", "/phpinfo.php"]
do = "challenge"
[[rule]]
name = "commitdiff"
path = "/gitweb"
query = "a=commitdiff"
do = "challenge"
[[rule]]
name = "two conditions"
path = "/both/**"
agent = "crawler"
network = "127.9.0.0/16"
do = "challenge"
`

// twoServers protect the same application, with and without merging of slashes.
const twoServers = `
server {
    listen 80;
    include snippets/stile.conf;
    location / { proxy_pass http://127.0.0.1:8080; }
}
server {
    listen 81;
    merge_slashes off;
    include snippets/stile.conf;
    location / { proxy_pass http://127.0.0.1:8080; }
}
`

// C023, C025 to C028, C033: no spelling of a heavy page's address is exempt, and a page that is let through
// arrives at the application as it was written.
func TestC023NoSpellingOfAHeavyPageIsExempt(t *testing.T) {
	t.Parallel()
	s := open(t, pathRules, twoServers)
	f := func(port int, target string, status int) {
		t.Helper()
		v := s.visitor(program...)
		v.port = port
		r := v.get(target)
		if status != 200 {
			s.expect(target, r, status, 0)
			return
		}
		s.expect(target, r, 200, 1)
		if want := "app GET " + target; r.Body != want {
			t.Errorf("%s arrived as %q", target, r.Body)
		}
	}
	for _, port := range []int{80, 81} {
		for _, target := range []string{
			"/heavy", "/heavy/", "/heavy/x",
			"/heavy/log?x=/robots.txt", "/heavy?/.well-known/x", "/heavy/x?.css", "/heavy/x?/x.css", // C023
			"/%68eavy/x", "/repo/%63ommit/abc", "/phpinfo%2Ephp", "/%68%65%61%76%79", // C025
			"/heavy%2Fx", "/heavy%2fx", "/feed%2f..%2fheavy/x", "/.well-known%2f..%2fheavy", "/static%5c..%5cheavy", "/static/..%5cheavy", // C026
			"/.well-known/../heavy", "/static/%2e%2e/heavy", "/feed/./../heavy", "/static/..;/heavy", "/static/..;x=y/heavy", "/x/../heavy", "/feed/%2e./heavy", // C027
			"/heavy;x=y", "/heavy;/x", "/heavy;x=.css", "/heavy/x.css/../y",
			"//heavy//x", "/heavy//x", "///heavy", "/static//../heavy/x", "/static/x/..//../heavy", "/.//heavy", // C028
			"/static/%252e%252e/heavy", "/heavy/x#/robots.txt",
		} {
			f(port, target, 503)
		}
		for _, target := range []string{
			"/robots.txt", "/favicon.ico", "/.well-known/security.txt", "/feed/", "/feed/x.rss?a=b%26c", "/static/a%20b.png",
			"/static//x", "//other//page", "/other?x=/heavy", "/other?/heavy/x", "/heavyweight", "/hea/vy", "/other/%7euser;a=b,c", "/a+b%2Bc?d+e%2Bf", "/%C3%A9?%zz",
		} {
			f(port, target, 200)
		}
	}
	// A dot in an exemption is a dot (C033).
	s2 := open(t, strings.Replace(pathRules, `path = ["/heavy", `, `path = ["/**/heavy", "/heavy", `, 1), "")
	for _, target := range []string{"/faviconxico/heavy", "/favicon.ico/heavy", "/robotsxtxt/heavy"} {
		s2.expect(target, s2.visitor().get(target), 503, 0)
	}
}

// C030: parameters may be parted by semicolons: rules see them, and the application gets the query as it was.
func TestC030SemicolonsPartParameters(t *testing.T) {
	t.Parallel()
	s := open(t, pathRules, "")
	for _, query := range []string{
		"p=r.git;a=commitdiff;h=abc", "p=r.git&a=commitdiff&h=abc", "a=commitdiff", "p=x;&;a=commitdiff", "p=r.git;%61=commitdiff", "p=r.git&a=%63ommitdiff", "a=log;a=commitdiff",
	} {
		v := s.visitor()
		r := v.get("/gitweb?" + query)
		s.expect(query, r, 503, 0)
		hits := s.app.Hits()
		if r := s.member().get("/gitweb?" + query); r.Status != 200 || r.Body != "app GET /gitweb?"+query {
			t.Errorf("%s with a pass: %d %s %s", query, r.Status, r.Body, targetsOf(hits))
		}
		s.app.Reset()
	}
	for _, query := range []string{"p=r.git;a=log;h=abc", "p=a=commitdiff", "b=a;c=commitdiff", "x;y;z;;=&&"} {
		r := s.visitor().get("/gitweb?" + query)
		if hits := s.hits(query, 1); r.Status != 200 || len(hits) == 1 && hits[0].Target != "/gitweb?"+query {
			t.Errorf("%s: %d %+v", query, r.Status, hits)
		}
	}
}

// C032: whoever puts the ending of a feed on every address is limited all the same.
func TestC032FeedEndingIsNoFreeLane(t *testing.T) {
	t.Parallel()
	s := open(t, "", "")
	f := func(shape string, limit int) {
		t.Helper()
		v := s.visitor("User-Agent: FeedFetcher/1.0", "Accept: */*")
		v.kept = true
		served := 0
		for i := range 200 {
			switch r := v.get(fmt.Sprintf(shape, i)); r.Status {
			case 200:
				served++
			case 503, 429:
				if r.Header.Get("Retry-After") == "" || !isText(r) {
					t.Fatalf("%s: %d %v %q", shape, r.Status, r.Header, r.Body)
				}
			default:
				t.Fatalf("%s: %d", shape, r.Status)
			}
		}
		if served > limit || len(s.app.Hits()) != served {
			t.Errorf("%s: %d of 200 served and %d hits, want at most %d", shape, served, len(s.app.Hits()), limit)
		}
		s.app.Reset()
	}
	f("/repo/commit/%d.rss", 120)
	f("/repo/%d/feed/", 120)
	f("/search.atom?q=%d", 30)
	f("/tag/%d.atom", 120)
}

// C034: all matchers of a rule must hold, not one of them.
func TestC034AllMatchersMustHold(t *testing.T) {
	t.Parallel()
	s := open(t, pathRules, "")
	f := func(from, agent string, status, hits int) {
		t.Helper()
		s.expect(from+" "+agent, s.visitorFrom(from, "User-Agent: "+agent).get("/both/x"), status, hits)
	}
	f("127.9.1.1", "A Crawler/1.0", 503, 0)
	f("127.9.1.1", "Mozilla/5.0", 200, 1)
	f("127.8.1.1", "A Crawler/1.0", 200, 1)
	f("127.8.1.1", "Mozilla/5.0", 200, 1)
}

// C035: whatever the agent says or leaves out, a heavy page is held, and a program gets a line of text.
func TestC035AgentDecidesNothing(t *testing.T) {
	t.Parallel()
	s := open(t, pathRules, "")
	for _, args := range [][]string{
		{"-A", "x"}, {"-A", ""}, {"-H", "User-Agent;"}, {"-H", "User-Agent:"}, {"-A", "Mozilla/5.0"}, {"-A", "Googlebot/2.1"}, {"-A", "curl/8"}, {},
		{"-H", "Accept:"}, {"-H", "Accept: image/avif,*/*"}, {"-H", "Accept: application/json"}, {"-H", "Accept: application/rss+xml"},
	} {
		out, status := s.curl("/heavy/x", append(args, "-i")...)
		want := 503
		if slices.Contains(args, "Googlebot/2.1") {
			want = 429 // held as well, but not asked for what it cannot do
		}
		if status != want || strings.Contains(strings.ToLower(out), "<") || !strings.Contains(out, "Retry-After: ") || len(out) > 1000 {
			t.Errorf("curl %q: %d %s", args, status, out)
		}
		s.hits(strings.Join(args, " "), 0)
	}
}

// targets are addresses with bytes that others have lost.
var targets = []string{
	"/heavy/s?q=a%26b&b=2&c=3;d", "/heavy/s?q=a+b%2Bc&&=&x", "/heavy/s?", "/heavy/s??", "/heavy/%E4%BD%A0?%E5%A5%BD=%FF", "/heavy/a%2Fb%5Cc", "/heavy/;p=1;q=2,3",
	"/heavy/'\"<script>`{}|^\\", "/heavy/&amp;&lt;?a=&quot;", "/heavy//a/./b/../c", "/heavy/~!$()*,:@", "/heavy/?u=http://other.example/%23x", "/heavy/?" + strings.Repeat("long=%20&", 300),
	"/heavy/\xc3\xa9\xff", "//heavy//x?y",
}

// C014: the page that was asked for is the page that one arrives at, to the byte: by a solution, for which the
// browser only asks again, and by waiting, where the address travels in a link.
// C095: and where the address is not surely on this site, waiting leads to the front page.
func TestC014ArrivesAtTheVeryAddress(t *testing.T) {
	t.Parallel()
	s := open(t, pathRules, "")
	f := func(target string) {
		v := s.visitor()
		v.prove(v.get(target))
		if r := v.get(target); r.Status != 200 || r.Body != "app GET "+target {
			t.Errorf("%s: %d %q", target, r.Status, r.Body)
		}
	}
	for _, target := range targets[:2] {
		f(target)
	}

	var all sync.WaitGroup
	for _, target := range append(slices.Clone(targets), "//evil.example/heavy/../../heavy", "/\\evil.example/../heavy", "//heavy", "/heavy/javascript:alert(1)", "/heavy/data:text/html,x") {
		v := s.visitor()
		all.Go(func() {
			page := v.get(target)
			link := v.waitLink(page)
			if link == "" {
				t.Errorf("%.100s: no link in %d %.300s", target, page.Status, page.Body)
				return
			}
			r := v.waitFor(link)
			want := location(target)
			if r.Status != http.StatusSeeOther || r.Header.Get("Location") != want {
				t.Errorf("%.100s: %d to %.100q, want %.100q", target, r.Status, r.Header.Get("Location"), want)
				return
			}
			if r := v.get(want); r.Status != 200 || r.Body != "app GET "+want {
				t.Errorf("%.100s: at the end %d %.100q", target, r.Status, r.Body)
			}
			if p := v.pass(); p.Level != 1 {
				t.Errorf("%s: waiting earned level %d", target, p.Level)
			}
		})
	}
	all.Wait()
}

// location is where waiting for a target should lead: there, with bytes that a header cannot hold escaped; not where
// a browser would read the address as another site's.
func location(target string) string {
	if strings.HasPrefix(target, "//") || strings.HasPrefix(target, "/\\") {
		return "/"
	}
	var b strings.Builder
	for i := range len(target) {
		if c := target[i]; c >= 0x80 {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

var (
	waitLink = regexp.MustCompile(`<a class="act" rel="nofollow" href="(/\.stile/wait\?[^"]*)"`)
	refresh  = regexp.MustCompile(`(?s)<noscript>.*<meta http-equiv="refresh" content="(\d+);url=([^"]*)">.*</noscript>`)
)

// waitLink is the link in a challenge page that a browser without JavaScript has; the page's refresh is the same.
func (v *visitor) waitLink(page *nginxtest.Response) string {
	v.t.Helper()
	link, meta := waitLink.FindStringSubmatch(page.Body), refresh.FindStringSubmatch(page.Body)
	if link == nil || meta == nil || link[1] != meta[2] {
		return ""
	}
	if n, err := strconv.Atoi(meta[1]); err != nil || n < 1 || n > 60 {
		v.t.Errorf("the page is to be refreshed after %q", meta[1])
	}
	return html.UnescapeString(link[1])
}

// waitFor follows a link too early, and again when it says that it may.
func (v *visitor) waitFor(link string) *nginxtest.Response {
	for {
		r := v.get(link)
		if r.Status != http.StatusTooManyRequests {
			return r
		}
		n, err := strconv.Atoi(r.Header.Get("Retry-After"))
		if err != nil || n < 1 || n > 60 || len(v.jar) > 0 {
			v.t.Errorf("an early wait: %d %v %q", r.Status, r.Header, r.Body)
			return r
		}
		time.Sleep(time.Duration(n) * time.Second)
	}
}

// C095: the wait's link leads where it was made for, or nowhere.
func TestC095WaitLeadsNowhereElse(t *testing.T) {
	t.Parallel()
	s := open(t, pathRules, "")
	v := s.visitor()
	link := v.waitLink(v.get("/heavy/x"))
	token, target, ok := strings.Cut(strings.TrimPrefix(link, "/.stile/wait?"), "&u=")
	if back, err := base64.RawURLEncoding.DecodeString(target); !ok || err != nil || string(back) != "/heavy/x" {
		t.Fatalf("the link is %q", link)
	}
	encode := func(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }
	for _, query := range []string{
		token + "&u=" + encode("javascript:alert(1)"), token + "&u=" + encode("data:text/html,x"), token + "&u=" + encode("https://evil.example/"),
		token + "&u=" + encode("//evil.example"), token + "&u=" + encode("/\\evil.example"), token + "&u=" + encode("/heavy/y"), token + "&u=" + encode(""),
		token + "&u=" + encode("/heavy/x\r\nSet-Cookie: a=b"), token + "&u=/heavy/x", token + "&u=" + target + "=", token + "&u=" + target + "&u=" + encode("//evil.example"),
		token, token + "&u=", "u=" + target + "&" + token, "", "t=&u=" + target, strings.ToUpper(token) + "&u=" + target, token + "x&u=" + target, token + "&u=" + target + "\xff",
		"t=" + v.puzzle(v.get("/heavy/x")).Token + "&u=" + target,
	} {
		r := v.get("/.stile/wait?" + query)
		if r.Status != 400 || r.Header.Get("Location") != "" || r.Header.Get("Set-Cookie") != "" || !isPage(r) && !isText(r) || strings.Contains(r.Body, "evil") || strings.Contains(r.Body, "javascript:") {
			t.Errorf("%q: %d %v %.100q", query, r.Status, r.Header, r.Body)
		}
	}
	// Nobody waits in another's name, and nobody posts to the link.
	if r := s.visitor().get(link); r.Status != 403 || r.Header.Get("Location") != "" {
		t.Errorf("from another network: %d %v", r.Status, r.Header)
	}
	if r := v.ask("POST", link, "x"); r.Status != 400 && r.Status != 405 {
		t.Errorf("a POST: %d", r.Status)
	}
	s.hits("none of it is the application's business", 0)
}
