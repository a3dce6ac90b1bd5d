package config

import (
	"encoding/base64"
	"fmt"
	"net/netip"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
)

// defaults is the configuration of an empty file, but for what it includes.
func defaults() *Config {
	c := &Config{}
	c.Listen.Check = "unix:/run/stile/stile.sock"
	c.Listen.Lease = "unix:/run/stile/lease.sock"
	c.Listen.Admin = "127.0.0.1:9406"
	c.Key.File = "/var/lib/stile/key"
	c.Pass.Cookie = "stile"
	c.Pass.Lifetime = 24 * time.Hour
	c.Pass.PerNetworkDay = 1000
	c.State.Dir = "/var/lib/stile"
	c.State.Keys = 65536
	c.Crawler.MaxAge = 90 * 24 * time.Hour
	c.Challenge.Kind = "pow"
	c.Challenge.Status = 503
	c.Challenge.Target = time.Second
	return c
}

// readDaemon reads what only the main file has: mode and the single tables.
func (in *reading) readDaemon(top *table) {
	c := in.config
	if m, ok := choose(top, "mode", modes); ok {
		c.Mode = m
	}
	single := func(key string, read func(*table)) {
		if t, ok := top.table(key, key, "["+key+"]"); ok {
			read(t)
			t.finish()
		}
	}
	single("listen", func(t *table) {
		t.address("check", &c.Listen.Check)
		t.datagrams("lease", &c.Listen.Lease)
		t.address("admin", &c.Listen.Admin)
		t.group("group", &c.Listen.Group)
		if c.Listen.Check == c.Listen.Admin {
			t.wrong("admin", "the same as check: want another address, such as %q", "127.0.0.1:9406")
		}
		for _, other := range []choice[string]{{"check", c.Listen.Check}, {"admin", c.Listen.Admin}} {
			switch {
			case c.Listen.Lease != other.value:
			case t.has("lease"):
				t.wrong("lease", "the same as %s: want another socket, such as %q", other.word, exampleOf("lease"))
			default:
				t.wrong(other.word, "the same as lease, which is here by default: want another socket")
			}
		}
	})
	single("key", func(t *table) { t.absolute("file", &c.Key.File) })
	single("pass", func(t *table) {
		t.cookieName("cookie", &c.Pass.Cookie)
		if d, ok := t.duration("lifetime", time.Minute, 30*24*time.Hour); ok {
			c.Pass.Lifetime = d
		}
		if b, ok := choose(t, "bind", binds); ok {
			c.Pass.Bind = b
		}
		if n, ok := t.number("per_network_day", 1, 1_000_000, ""); ok {
			c.Pass.PerNetworkDay = int(n)
		}
	})
	single("state", func(t *table) {
		t.absolute("dir", &c.State.Dir)
		if n, ok := t.number("keys", 1024, 1<<22, " (each takes 16 bytes in a few tables of each meter)"); ok {
			c.State.Keys = int(n)
		}
	})
	single("crawler", func(t *table) { t.readCrawler(c) })
	for _, b := range top.tables("bot") {
		in.readBot(b)
	}
	single("geo", func(t *table) { t.readGeo(c) })
	single("challenge", func(t *table) {
		t.challengeKind("kind")
		if n, ok := t.status("status"); ok {
			c.Challenge.Status = n
		}
		if d, ok := t.duration("target", 100*time.Millisecond, 10*time.Second); ok {
			c.Challenge.Target = d
		}
		t.line("title", 100, &c.Challenge.Title)
		t.line("contact", 300, &c.Challenge.Contact)
		t.logo("logo", &c.Challenge.Logo)
	})
}

// address is where to listen: a unix socket, or a port that only this machine or a
// private network reaches, for whoever speaks to it is believed.
func (t *table) address(key string, to *string) {
	s, ok := t.text(key)
	if !ok {
		return
	}
	if file, unix := strings.CutPrefix(s, "unix:"); unix {
		switch {
		case !isAbsolute(file) && key == "lease":
			t.wrong(key, "want an absolute path, such as %q", exampleOf(key))
		case !isAbsolute(file):
			t.wrong(key, "want an absolute path, such as %q", exampleOf("check"))
		case len(file) > 107:
			t.wrong(key, "the path has %d bytes: a socket's may have 107", len(file))
		default:
			*to = s
		}
		return
	}
	if isAbsolute(s) {
		t.wrong(key, "want %q", "unix:"+s)
		return
	}
	host, port, _ := strings.Cut(s, ":")
	if n, err := strconv.ParseUint(port, 10, 16); (host == "" || host == "localhost" || host == "*") && err == nil && n > 0 {
		t.wrong(key, "want an address and a port, such as %q", "127.0.0.1:"+port)
		return
	}
	a, err := netip.ParseAddrPort(s)
	switch {
	case err != nil || a.Port() == 0:
		t.wrong(key, `want "unix:/path/of.sock" or an address and a port, such as "127.0.0.1:9406"`)
	case !a.Addr().Unmap().IsLoopback() && !a.Addr().Unmap().IsPrivate():
		t.wrong(key, "anybody who reaches it could speak in nginx's name: want a unix socket, 127.0.0.1 or an address of a private network")
	default:
		*to = s
	}
}

// datagrams is where nginx sends a line of its access log for each request that ends: a
// unix socket, for whoever else reached it could end leases.
func (t *table) datagrams(key string, to *string) {
	s, ok := t.text(key)
	if !ok {
		return
	}
	if _, unix := strings.CutPrefix(s, "unix:"); unix || isAbsolute(s) {
		t.address(key, to)
		return
	}
	if _, file, syslog := strings.Cut(s, "server=unix:"); syslog {
		file, _, _ = strings.Cut(file, ",")
		t.wrong(key, "want the socket alone: %q", "unix:"+file)
		return
	}
	t.wrong(key, "want a unix socket, which nobody but this machine reaches, such as %q", exampleOf(key))
}

// group is the name of a group, as useradd lets one be called. Whether this machine has
// it is asked at start: a configuration may be checked elsewhere.
func (t *table) group(key string, to *string) {
	s, ok := t.text(key)
	switch {
	case !ok:
	case len(s) > 32 || strings.HasPrefix(s, "-") || strings.ContainsFunc(s, func(r rune) bool {
		return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("._-", r))
	}):
		t.wrong(key, "want the name of a group, such as %q", exampleOf(key))
	case isDigits(s):
		t.wrong(key, "want its name, not its number, such as %q", exampleOf(key))
	default:
		*to = s
	}
}

func (t *table) absolute(key string, to *string) {
	s, ok := t.text(key)
	switch {
	case !ok:
	case key == "dir" && isAbsolute(path.Clean(s)):
		*to = path.Clean(s)
	case !isAbsolute(s):
		t.wrong(key, "want the absolute path of a %s, such as %q", map[string]string{"dir": "directory", "file": "file"}[key], exampleOf(key))
	default:
		*to = s
	}
}

// isAbsolute tells whether s names one file or directory from the root.
func isAbsolute(s string) bool {
	return path.IsAbs(s) && path.Clean(s) == s && s != "/"
}

func (t *table) cookieName(key string, to *string) {
	s, ok := t.text(key)
	if !ok {
		return
	}
	lower := strings.ToLower(s)
	switch {
	case s == "" || len(s) > 64 || strings.ContainsFunc(s, func(r rune) bool { return !isToken(r) }):
		t.wrong(key, "want a cookie's name (RFC 6265): 1 to 64 letters, digits, - or _, such as %q", "stile")
	case strings.HasPrefix(lower, "__host-") || strings.HasPrefix(lower, "__secure-"):
		t.wrong(key, "over plain http a browser drops a cookie of this name, and its visitor would be asked again and again: leave the prefix out")
	default:
		*to = s
	}
}

// isToken tells whether r may be in a token of RFC 9110, section 5.6.2.
func isToken(r rune) bool {
	return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r != 0 && strings.ContainsRune("!#$%&'*+-.^_`|~", r)
}

func (t *table) challengeKind(key string) {
	s, ok := t.text(key)
	switch {
	case !ok || s == "pow":
	case s == "turnstile" || s == "hcaptcha":
		t.wrong(key, `this version of stile has no captchas yet: want "pow"`)
	default:
		t.wrong(key, `want "pow"`)
	}
}

// statuses are those that a challenge page may have. A crawler takes 503 and 429 as
// temporary; 403 is for sites that are measured by their 5xx.
var statuses = []int64{503, 429, 403}

func (t *table) status(key string) (int, bool) {
	n, ok := t.number(key, 100, 599, ": the status of a page, best 503")
	if !ok {
		return 0, false
	}
	var why string
	switch {
	case slices.Contains(statuses, n):
		return int(n), true
	case n < 300:
		why = "a 2xx would make caches, crawlers and git take the challenge for the page itself, and nginx takes a 2xx of the check for an allow"
	case n < 400:
		why = "a redirect loses the address that was asked for"
	case n == 401:
		why = "a browser would ask for a password, and so would git"
	case n == 404 || n == 410:
		why = "a crawler would forget the page"
	case n < 500:
		why = "browsers and crawlers read something else in it"
	default:
		why = "it would look like a broken backend"
	}
	t.wrong(key, "%s: want 503, 429 or 403", why)
	return 0, false
}

// line is one line of the page.
func (t *table) line(key string, most int, to *string) {
	s, ok := t.text(key)
	switch {
	case !ok:
	case len(s) > most:
		t.wrong(key, "it has %d bytes: want at most %d", len(s), most)
	default:
		*to = s
	}
}

// maxLogo keeps the page small: it is sent to everybody who is refused.
const maxLogo = 8192

func (t *table) logo(key string, to *string) {
	s, ok := t.text(key)
	if !ok {
		return
	}
	data, isData := strings.CutPrefix(s, "data:image/")
	switch {
	case s == "":
	case len(s) > maxLogo:
		t.wrong(key, "it has %d bytes: want at most %d, or the path of a file on the site", len(s), maxLogo)
		return
	case isData:
		kind, encoded, ok := strings.Cut(data, ";base64,")
		if _, err := base64.StdEncoding.DecodeString(encoded); !ok || err != nil || strings.ContainsFunc(kind, func(r rune) bool { return !isToken(r) }) {
			t.wrong(key, `want "data:image/png;base64,…" or a path on the same site, such as %q`, exampleOf(key))
			return
		}
	case !strings.HasPrefix(s, "/") || strings.HasPrefix(s, "//") || strings.ContainsAny(s, " \\\"'<>"):
		t.wrong(key, "want a path on the same site, such as %q (the page may load nothing from elsewhere)", exampleOf(key))
		return
	}
	*to = s
}

// report adds a mistake.
func (in *reading) report(at Pos, where, what, want string) {
	key := Mistake{at, where, what, ""}
	if in.reported[key] {
		return // one mistake of a value is enough at a time
	}
	in.reported[key] = true
	in.mistakes = append(in.mistakes, &Mistake{at, where, what, want})
}

func (p Pos) String() string { return fmt.Sprintf("%s:%d", p.File, p.Line) }

// from is a position as a mistake in a file names it.
func (p Pos) from(file string) string {
	if p.File == file {
		return fmt.Sprintf("line %d", p.Line)
	}
	return p.String()
}
