package e2e

import (
	"flag"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"stile/config"
	"stile/decide"
)

// spellings asks the program behind a preset for addresses. Whatever it answers with a page that is dear, the preset
// has to hold for expensive; those must be one in five at least, or the test tries little.
func (s *site) spellings(preset string, dear *regexp.Regexp, targets []string) {
	s.t.Helper()
	c, err := config.Parse("test.toml", fmt.Appendf(nil, "include = [\"preset:%s\"]\n", preset))
	if err != nil {
		s.t.Fatal(err)
	}
	c.State.Keys = 1
	e, err := decide.New(c)
	if err != nil {
		s.t.Fatal(err)
	}
	gated := map[string]bool{}
	for _, r := range c.Rules {
		gated[r.Name] = r.Gate > 0
	}
	v := s.visitorFrom("127.0.0.1", append(firefox[:3:3], "Accept-Encoding: identity")...)
	v.kept = true
	found := 0
	for _, target := range targets {
		r, err := decide.NewRequest("GET", target, "", nil)
		answer := v.get(target)
		if err != nil {
			if answer.Status != 400 {
				s.t.Errorf("%s: nginx says %d, and stile %v", target, answer.Status, err)
			}
			continue
		}
		what := dear.FindString(answer.Header.Get("Content-Type") + "\n" + answer.Body)
		if answer.Status != 200 || what == "" {
			continue
		}
		found++
		if verdict, rule := e.Policy().Classify(r); !gated[rule] {
			s.t.Errorf("%s: %q by rule %q, and %s answers with %.60s", target, verdict, rule, preset, what)
		}
	}
	if s.t.Logf("%d of %d addresses get something dear", found, len(targets)); 5*found < len(targets) {
		s.t.Error("fewer than one in five: the test tries little")
	}
}

// each is for whoever has changed a preset's rules: go test -run Spellings ./e2e -each 99 asks for all, some minutes long.
var each = flag.Int("each", 0, "how many addresses of each kind of spelling are asked for (default: each test's own number)")

// perKind is n addresses of each kind of spelling. Of one kind they are other ones than of the kind before, so that every
// way of asking is among them.
func perKind(n int, kinds [][]string) (out []string) {
	if *each > 0 {
		n = *each
	}
	for i, all := range kinds {
		n := min(n, len(all))
		for k := range n {
			out = append(out, all[(i+k*len(all)/n)%len(all)])
		}
	}
	return out
}

// questions is each of a list behind each beginning of an address: a kind is one of them everywhere.
func questions(list, before []string) (kinds [][]string) {
	for _, q := range list {
		var kind []string
		for _, b := range before {
			kind = append(kind, b+q)
		}
		kinds = append(kinds, kind)
	}
	return kinds
}

// C030, C025: MediaWiki itself is asked in every spelling that a client may think of. Whatever it answers with a
// history, a difference, an old version, a form, or a special page, the preset holds for expensive.
func TestWikiSpellings(t *testing.T) {
	t.Parallel()
	s := openWiki(t, "include = [\"preset:wiki\"]\nmode = \"observe\"\n")
	var kinds [][]string
	titles := []string{
		"Special:RecentChanges", "special:recentchanges", "SPECIAL%3ARecentChanges", "Special%3aRecentChanges", "_Special:RecentChanges", "%20Special:RecentChanges", "Special_:RecentChanges",
		"Special:_RecentChanges", ":Special:RecentChanges", "Special%EF%BC%9ARecentChanges", "Spe%E2%80%8Ecial:RecentChanges", "Spe%C2%ADcial:RecentChanges", "Special%26%2358%3BRecentChanges",
		"Special%26colon%3BRecentChanges", "Special%26%23x3a%3BRecentChanges", "Special&#58;RecentChanges", "Special%253ARecentChanges", "Special%C0%BARecentChanges", "Special%E0%80%BARecentChanges",
		"Special%0ARecentChanges", "Special%3A%0ARecentChanges", "%0ASpecial:RecentChanges", "Special+:RecentChanges", "Special/RecentChanges", "Special%2FRecentChanges", "RecentChanges", "Main_Page/../Special:RecentChanges",
		"Main_Page%2F..%2FSpecial:RecentChanges", "%EF%BB%BFSpecial:RecentChanges", "%C2%A0Special:RecentChanges", "%E3%80%80Special:RecentChanges", "Special:Export/Main_Page", "MediaWiki:Common.css", "-",
	}
	for _, title := range titles {
		kinds = append(kinds, []string{"/wiki/" + title, "/w/index.php?title=" + title, "/w/index.php/" + title, "/?title=" + title, "/w/?title=" + title, "/wiki/?title=" + title, "/w/index.php?x&title=" + title,
			"/w/index.php?title=Main_Page&title=" + title, "/w/index.php?title=" + title + "&title=Main_Page", "/w/index.php?title=" + title + "&go-get=1", "/w/index.php?TITLE=" + title, "/w/index.php?title[]=" + title,
			"/wiki/Main_Page/" + title, "/wiki//" + title, "/wiki/./" + title, "/wiki/%2e/" + title, "/w/index.php/Main_Page/../" + title, "/index.php?title=" + title, "/w/index.php?%74itle=" + title})
	}
	kinds = append(kinds, questions([]string{
		"action=history", "action=raw", "action=info", "action=edit", "action=HISTORY", "action=his%74ory", "%61ction=history", "action%00=history", "action[]=history", "action%5B%5D=history", "action[x]=history",
		"+action=history", "%20action=history", "action.=history", "action+=history", "action=history%00", "action=%20history", "action=+history", "action=view&action=history", "action=history&action=view", "action=history;x",
		"x;action=history", "x&amp;action=history", "&action=history", "&&action=history", "action=history#x", "x%26action=history", "x%3Faction=history", "?action=history",
		"diff=prev", "oldid=1", "oldid=1&x", "OLDID=1", "diff[]=prev", "curid=1", "search=words", "search=words&go=Go", "search[]=words", "fulltext=1", "fulltext=1&search=x", "printable=yes", "redirect=no", "feed=atom",
		"action=history&feed=atom", "veaction=edit", "action=render", "action=credits", "action=purge", "action=delete", "action=submit", "mobileaction=x", "useskin=cologneblue", "title=Main_Page", "7", "foo", "v=1", "0a1b2c", "s=1&action=history",
	}, []string{
		"/wiki/Main_Page?", "/w/index.php?title=Main_Page&", "/w/index.php?", "/w/index.php/Main_Page?", "/?", "/w/?", "/wiki/Main_Page%3F", "/w/index.php%3F", "/wiki/?", "/wiki/x.css?", "/w/index.php/x.css?", "//w//index.php?title=Main_Page&",
		"/w/./index.php?", "/w/load.php/../index.php?", "/w/img_auth.php/../index.php?", "/sitemap/sitemap-x.xml?", "/feed/?", "/robots.txt?", "/w/index.php;x?", "/w/index.php%3bx?",
	})...)
	dear := regexp.MustCompile(`^text/x-wiki|<body class="[^"]*(?:ns-special|action-(?:history|edit|info|raw|delete|purge|submit|credits))|mw-history|diff-ntitle|mw-revision-info|<feed |<rss `)
	s.spellings("wiki", dear, perKind(2, kinds))
}

// ways are the ways of writing a path so that it still leads there, or seems to.
func ways(path string) []string {
	first := strings.IndexByte(path[1:], '/') + 1
	last := strings.LastIndexByte(strings.TrimSuffix(path, "/"), '/')
	return []string{
		path, path + "/", path + "//", "/" + path, strings.ReplaceAll(path, "/", "//"), path + ".", path + "/.", path + "%20", path + "%0a", path + ";x", path + "%3bx", path + "/x.css", path + ".css", path + ".git", path + "/HEAD",
		path + "/info/refs", path + "%2finfo%2frefs", path + "/objects/info/packs", path[:last] + "/%" + fmt.Sprintf("%02x", path[last+1]) + path[last+2:], path[:last] + "/." + path[last:], path[:last] + "/x/.." + path[last:],
		path[:last] + "/x%2f.." + path[last:], path[:last] + "%2f" + path[last+1:], path[:first] + "%2F" + path[first+1:], "/x/.." + path, "/x/%2e%2e" + path, strings.ToUpper(path), path + "#x", path + "%23x", path + "%3fx", "/atom/.." + path, path + "/atom",
	}
}

// byWay is pages in every way of writing them, with each question: a kind is one of the ways.
func byWay(pages, questions []string) (kinds [][]string) {
	for _, page := range pages {
		for w, path := range ways(page) {
			if w == len(kinds) {
				kinds = append(kinds, nil)
			}
			for _, q := range questions {
				kinds[w] = append(kinds[w], path+q)
			}
		}
	}
	return kinds
}

// C025 to C028, C030: the same with cgit.
func TestCgitSpellings(t *testing.T) {
	t.Parallel()
	s, _ := openCgit(t, "include = [\"preset:cgit\"]\nmode = \"observe\"\n")
	kinds := byWay([]string{"/r.git/log", "/r.git/tree/a0", "/r.git/commit", "/r.git/plain/a3", "/r.git/blame/a0", "/pub/log.git/diff", "/r.git/snapshot/r-main.tar.gz", "/r.git/patch", "/r.git/stats", "/r.git/rawdiff", "/pub/log.git/blob"},
		[]string{"", "?h=main", "?service=git-upload-pack", "?go-get=1", "?v=1"})
	kinds = append(kinds, questions([]string{
		"url=r.git/log", "url=r.git/log/", "url=/r.git/log", "url=r.git&p=log", "r=r.git&p=log", "r=r.git;p=log", "p=log&r=r.git", "r=r.git&p=plain&path=a3", "r=r.git&p=tree", "%72=r.git&%70=log", "r=r.git&p=lo%67",
		"r[]=r.git&p=log", "+r=r.git&p=log", "r=r.git&&p=log", "x&r=r.git&p=log", "R=r.git&P=log", "r=r.git&p=commit&h=main", "url=r.git%2Flog%2F", "url=r.git/atom/a0", "h=main&p=log", "p=diff", "id=HEAD&p=commit", "qt=grep&q=change&p=log", "ofs=1&p=log",
	}, []string{"/?", "/r.git/?", "/r.git/atom/?", "/cgit.css?", "/r.git/refs/?", "/r.git/about/?", "/robots.txt?", "/x/..//?", "/r.git/info/refs?"})...)
	s.spellings("cgit", regexp.MustCompile(`<a class='active'[^>]*>(?:log|tree|commit|diff|stats)</a>|(?m)^(?:diff --git|From [0-9a-f]{40})|^[a-z/-]+(?:; charset=[A-Za-z0-9-]+)?\n(?:\x1f\x8b|a 3\n)`), perKind(20, kinds))
}

// The same with gitweb.
func TestGitwebSpellings(t *testing.T) {
	t.Parallel()
	s := openGitweb(t, "include = [\"preset:gitweb\"]\nmode = \"observe\"\n")
	kinds := byWay([]string{"/r.git/log", "/r.git/tree/main", "/r.git/commit/main", "/r.git/main:/a3", "/r.git/main", "/r.git/blob_plain/main:/a3", "/pub/log.git/commitdiff/main", "/r.git/snapshot/main.tar.gz", "/r.git/main~1..main"},
		[]string{"", "?o=age", "?go-get=1"})
	kinds = append(kinds, questions([]string{
		"p=r.git;a=log", "p=r.git&a=log", "a=log;p=r.git", "p=r.git;%61=log", "p=r.git;a=%6cog", "%70=r.git;a=log", "p=r.git;a=log;a=summary", "p=r.git;a=summary;a=log", "p=r.git&&a=log", "p=r.git;;a=log", "p=r.git;a=commitdiff;h=main",
		"p=r.git;h=main", "p=r.git;hb=main;f=a3", "p=r.git;f=a3", "p=r.git;a=blob_plain;f=a3;hb=main", "p=r.git;a=snapshot;h=main;sf=tgz", "p=r.git;a=rss;f=a3", "p=r.git;a=atom;h=main", "p=/r.git;a=log", "p=r.git/;a=log", "p=r.git;+a=log",
		"p=r.git;A=log", "p=r.git;a=log%0a", "p=r.git;a=+log", "x;p=r.git;a=log", "p=r.git;a=search;s=change", "p=r.git;a=object;h=main", "p=pub/../r.git;a=log", "p=r.git;a=tree;hb=main", "p=r.git;action=log", "p=r.git;order=log;a=shortlog",
	}, []string{"/?", "/index.cgi?", "/r.git?", "/r.git/?", "/r.git/HEAD?", "/static/x.css?", "/robots.txt?", "/r.git/summary?", "/r.git/heads?"})...)
	s.spellings("gitweb", regexp.MustCompile(`<title>[^<]*/(?:log|shortlog|tree|commit|commitdiff|blob|search|history)[^<]*</title>|(?m)^(?:diff --git)|^[a-z/-]+(?:; charset=[A-Za-z0-9-]+)?\n(?:\x1f\x8b|a 3\n)`), perKind(1, kinds))
}
