package decide

import (
	"net/url"
	slashes "path"
	"slices"
	"strings"

	"stile/decide/path"
)

// What applications make of a request: whether it gets an expensive page from them.

// sent is one request as it reaches an application.
type sent struct {
	method string
	query  string
	uri    string   // nginx's $uri
	raw    string   // the path as it was sent
	paths  []string // $uri, and the ways in which others may read the raw path
}

// see is nil if nginx answers 400.
func see(method, target string) *sent {
	var r path.Readings
	if r.Parse(target) != nil {
		return nil
	}
	a := &sent{method: method, uri: strings.Clone(r.Path), query: strings.Clone(r.Query)}
	a.raw, _, _ = strings.Cut(target, "?")
	a.paths = []string{a.uri}
	decoded, err := url.PathUnescape(a.raw)
	if err != nil {
		decoded = a.raw
	}
	for _, p := range []string{a.raw, decoded, merge(a.raw), merge(decoded), strings.ReplaceAll(strings.ReplaceAll(merge(a.raw), "%2F", "/"), "%2f", "/")} {
		if !slices.Contains(a.paths, p) {
			a.paths = append(a.paths, p)
		}
	}
	if p := lenient.Replace(decoded); p != decoded {
		a.paths = append(a.paths, slashes.Clean(p))
	}
	return a
}

// lenient is what old decoders make of characters in more bytes than they need, and newer
// ones of wide characters.
var lenient = strings.NewReplacer("\xC0\xAE", ".", "\xC0\xAF", "/", "\xE0\x80\xAE", ".", "．", ".", "／", "/")

func merge(p string) string {
	for strings.Contains(p, "//") {
		p = strings.ReplaceAll(p, "//", "/")
	}
	return p
}

func (a *sent) reads() bool { return a.method == "GET" || a.method == "HEAD" }

// any tells whether the application may read the path so that f holds for its segments. A
// slash at the end is dropped.
func (a *sent) any(f func(s []string) bool) bool {
	return slices.ContainsFunc(a.paths, func(p string) bool { return f(strings.Split(strings.Trim(p, "/"), "/")) })
}

// params are the parameters of a query, in their order.
func params(query, separators string, decode bool) (ps [][2]string) {
	for _, p := range strings.FieldsFunc(query, func(r rune) bool { return strings.ContainsRune(separators, r) }) {
		k, v, _ := strings.Cut(p, "=")
		if decode {
			if d, err := url.QueryUnescape(k); err == nil {
				k = d
			}
			if d, err := url.QueryUnescape(v); err == nil {
				v = d
			}
		}
		ps = append(ps, [2]string{k, v})
	}
	return ps
}

func first(ps [][2]string, name string) string {
	for _, p := range ps {
		if p[0] == name {
			return p[1]
		}
	}
	return ""
}

func last(ps [][2]string, name string) string {
	slices.Reverse(ps)
	defer slices.Reverse(ps)
	return first(ps, name)
}

func in(word, words string) bool { return word != "" && slices.Contains(strings.Fields(words), word) }

// forgejo is routers/web and routers/api of Forgejo 9: chi's router, on the path as it was
// sent without double slashes and without one at the end.
func forgejo(a *sent) bool {
	ps := params(a.query, "&", true)
	if a.method == "GET" && first(ps, "go-get") == "1" && len(a.query) >= 8 && !strings.HasPrefix(a.uri, "/api/") {
		return false // the middleware answers with one line
	}
	return a.any(func(s []string) bool {
		switch {
		case slices.Contains(s[:min(2, len(s))], "..") || slices.Contains(s[:min(2, len(s))], "."):
			return false // no user and no repository
		case len(s) >= 5 && s[0] == "api" && s[1] == "v1" && s[2] == "repos":
			return a.reads() && len(s) > 5 && in(s[5], "archive raw media contents compare git languages activities") ||
				a.reads() && len(s) == 6 && in(s[5], "commits")
		case len(s) == 4 && s[0] == "api" && s[2] == "repos" && s[3] == "search":
			return a.reads()
		case in(s[0], "api assets avatars repo-avatars user attachments v2 login org admin repo swagger.v1.json .well-known -"):
			return false
		case s[0] == "explore":
			return a.reads() && len(s) == 2 && in(s[1], "repos users organizations code")
		case len(s) == 3 && in(s[2], "issues pulls"):
			return a.reads() && a.query != ""
		case len(s) == 3 && in(s[2], "activity graph compare search"):
			return a.reads()
		case len(s) == 5 && s[2] == "pulls" && in(s[4], "files commits"):
			return a.reads()
		case len(s) >= 4 && s[2] == "archive":
			return a.reads() || a.method == "POST"
		case len(s) >= 4 && in(s[2], "src blame commits commit raw media compare find tree-list rss atom render"):
			return a.reads()
		}
		return false
	})
}

// cgit is cgit.c and parsing.c of cgit 1.2.3: the query's words before PATH_INFO, which is
// nginx's $uri. Methods are all the same to it.
func cgit(a *sent) bool {
	dear := "blame blob commit diff log ls_cache patch rawdiff stats tree plain snapshot"
	page := func(p string) bool {
		p = strings.TrimPrefix(p, "/")
		for _, repo := range []string{"pub/scm/r.git", "r.git", "r", "log", "tree"} {
			rest, ok := strings.CutPrefix(p, repo+"/")
			if !ok {
				continue
			}
			word, more, _ := strings.Cut(rest, "/")
			return in(word, dear) || word == "atom" && more != ""
		}
		return false
	}
	ps := params(a.query, "&", true)
	u := ""
	for _, p := range ps {
		switch {
		case p[0] == "p" && (in(p[1], dear) || p[1] == "atom" && last(ps, "path") != ""):
			return true
		case p[0] == "url":
			u = p[1]
		}
	}
	if u != "" {
		return page(u)
	}
	return page(a.uri)
}

// gitweb is gitweb.perl: CGI.pm's parameters, of which the first of a name counts, and
// evaluate_path_info, which looks at the path where there is no action in the query.
func gitweb(a *sent) bool {
	dear := "blame blame_incremental blame_data blob blob_plain blobdiff blobdiff_plain commit commitdiff commitdiff_plain history log object patch patches search shortlog snapshot tag tree"
	ps := params(a.query, "&;", true)
	action, project := first(ps, "a"), first(ps, "p")
	if action != "" {
		more := first(ps, "h")+first(ps, "f")+first(ps, "hb") != ""
		return in(action, dear) && project != "" || in(action, "rss atom") && project != "" && more
	}
	if project != "" && (first(ps, "h") != "" || first(ps, "hb") != "" && first(ps, "f") != "") {
		return true
	}
	p := strings.Trim(a.uri, "/")
	p = strings.TrimPrefix(strings.TrimPrefix(p, "gitweb/"), "gitweb.cgi/")
	for _, repo := range []string{"pub/r.git", "r.git", "r"} {
		rest, ok := strings.CutPrefix(p, repo+"/")
		if !ok {
			continue
		}
		word, more, _ := strings.Cut(rest, "/")
		if in(word, dear) && (more != "" || in(word, "log shortlog tree commit")) {
			return true
		}
		ref, _, _ := strings.Cut(rest, ":")
		return in(ref, "main HEAD refs/heads/main")
	}
	return false
}

// gitlab is config/routes of GitLab 17: Rails' router, behind a Go program that resolves dot
// segments to find out whose the request is.
func gitlab(a *sent) bool {
	ps := params(a.query, "&", true)
	return a.any(func(s []string) bool {
		if len(s) > 3 && s[0] == "api" && s[1] == "v4" {
			i := slices.Index(s, "repository")
			return a.method != "OPTIONS" && (a.reads() && s[2] == "projects" && i >= 4 && i+1 < len(s) && in(s[i+1], "tree blobs commits compare files archive archive.zip contributors") && slices.Index(s, "packages") < 0 ||
				a.reads() && len(s) == 3 && s[2] == "projects" && last(ps, "search") != "")
		}
		if in(s[0], "api assets uploads v2 oauth users jwt -") {
			return false
		}
		if s[0] == "explore" {
			return a.reads()
		}
		i := slices.Index(s, "-")
		if i < 0 || i+1 >= len(s) || !in(strings.Join(s[:i], "/"), "g/p g/sub/p") {
			return false
		}
		word, format, _ := strings.Cut(s[i+1], ".")
		switch {
		case a.method == "OPTIONS":
			return false
		case in(word, "tree blob blame raw commits commit compare network graphs archive find_file"):
			return i+2 < len(s)
		case in(word, "issues merge_requests"):
			return i+2 == len(s) && a.query != "" && in(format+".", ". atom. json. ics.") || word == "merge_requests" && i+3 < len(s) && s[i+3] == "diffs"
		}
		return false
	})
}

// mediawiki is WebRequest and MediaWikiTitleCodec of MediaWiki 1.39, behind nginx: a script
// by $uri; the title from the path as it was sent, else from the last parameter of that name.
func mediawiki(a *sent) bool {
	script, path := "", a.uri
	for _, s := range []string{"/w/index.php", "/w/api.php", "/w/rest.php", "/w/load.php", "/w/thumb.php", "/index.php"} {
		if path == s || strings.HasPrefix(path, s+"/") {
			script = s
		}
	}
	title := ""
	switch {
	case script == "/w/api.php" || script == "/w/rest.php":
		return a.method != "OPTIONS"
	case strings.HasSuffix(script, "/index.php"):
		title = strings.TrimPrefix(path[len(script):], "/")
	case script == "" && (strings.HasPrefix(path, "/wiki/") || path == "/" || path == "/w/"):
		title = strings.TrimPrefix(path, "/wiki/")
		for _, p := range a.paths {
			if rest, ok := strings.CutPrefix(p, "/wiki/"); ok && special(rest) {
				title = rest
			}
		}
	default:
		return false
	}
	ps := params(a.query, "&", true)
	for i := range ps {
		ps[i][0], _, _ = strings.Cut(strings.NewReplacer(" ", "_", ".", "_").Replace(strings.TrimLeft(ps[i][0], " ")), "[")
	}
	if strings.Trim(title, "/") == "" {
		title = last(ps, "title")
	}
	return special(title) || in(last(ps, "action"), "history edit raw info submit delete") ||
		last(ps, "diff") != "" || last(ps, "oldid") != "" || last(ps, "curid") != "" || last(ps, "search") != ""
}

// special tells whether a title is a special page's, in English or in German.
func special(title string) bool {
	title = strings.Map(func(r rune) rune {
		switch {
		case r == 0x200E || r == 0x200F || r >= 0x202A && r <= 0x202E:
			return -1
		case r == ' ' || r == 0xA0:
			return '_'
		}
		return r
	}, title)
	title = strings.TrimLeft(title, ":_")
	ns, rest, ok := strings.Cut(title, ":")
	return ok && rest != "" && in(strings.ToLower(strings.Trim(ns, "_")), "special spezial")
}

// packageIndex is an index such as Warehouse, crates.io or npm's, by the routes that they
// have in common; a router that takes the decoded path as it is, or the one as it was sent.
func packageIndex(a *sent) bool {
	ps := params(a.query, "&", true)
	listed := first(ps, "q")+last(ps, "q")+first(ps, "page")+last(ps, "page")+first(ps, "sort")+last(ps, "sort") != ""
	return a.reads() && a.any(func(s []string) bool {
		p := strings.Join(s, "/")
		switch {
		case in(p, "search -/v1/search -/all api/v1/crates"):
			return true
		case len(s) == 2 && in(s[0], "keywords categories"), len(s) == 5 && s[4] == "reverse_dependencies":
			return true
		case p == "packages":
			return listed
		case len(s) == 3 && in(s[0], "packages project crates"):
			version := s[2]
			return strings.ContainsAny(version, "0123456789") && strings.Trim(version, "0123456789.") == ""
		}
		return false
	})
}

// anyApp is nobody knows what: a page of searching by its name, in any of the readings of a
// path, and by a parameter on any page.
func anyApp(a *sent) bool {
	for _, p := range params(a.query, "&;", true) {
		if in(p[0], "q s query search") && strings.Trim(p[1], "0123456789abcdef.") != "" && !strings.HasPrefix(a.uri, "/_next/") {
			return true
		}
	}
	return slices.ContainsFunc(a.paths, func(p string) bool {
		word, _, _ := strings.Cut(strings.TrimLeft(p, "/"), "/")
		script := strings.ToLower(word)
		return script == "search" || script == "search.php" || p == "/shop/search" || p == "/forum/search.php"
	})
}
