package e2e

import (
	"regexp"
	"strings"
	"testing"

	"stile/config"
	"stile/decide"
)

// C030, C025: MediaWiki itself is asked in every spelling that a client may think of. Whatever it answers with a
// history, a difference, an old version, a form, or a special page, the preset holds for expensive.
func TestWikiSpellings(t *testing.T) {
	t.Parallel()
	s := openWiki(t, "include = [\"preset:wiki\"]\nmode = \"observe\"\n")
	c, err := config.Parse("test.toml", []byte("include = [\"preset:wiki\"]\n"))
	if err != nil {
		t.Fatal(err)
	}
	c.State.Keys = 1
	e, err := decide.New(c)
	if err != nil {
		t.Fatal(err)
	}
	gated := map[string]bool{}
	for _, r := range c.Rules {
		gated[r.Name] = r.Gate > 0
	}
	v := s.visitorFrom("127.0.0.1", append(firefox[:3:3], "Accept-Encoding: identity")...)
	v.kept = true

	var targets []string
	titles := []string{
		"Special:RecentChanges", "special:recentchanges", "SPECIAL%3ARecentChanges", "Special%3aRecentChanges", "_Special:RecentChanges", "%20Special:RecentChanges", "Special_:RecentChanges",
		"Special:_RecentChanges", ":Special:RecentChanges", "Special%EF%BC%9ARecentChanges", "Spe%E2%80%8Ecial:RecentChanges", "Spe%C2%ADcial:RecentChanges", "Special%26%2358%3BRecentChanges",
		"Special%26colon%3BRecentChanges", "Special%26%23x3a%3BRecentChanges", "Special&#58;RecentChanges", "Special%253ARecentChanges", "Special%C0%BARecentChanges", "Special%E0%80%BARecentChanges",
		"Special%0ARecentChanges", "Special%3A%0ARecentChanges", "%0ASpecial:RecentChanges", "Special+:RecentChanges", "Special/RecentChanges", "Special%2FRecentChanges", "RecentChanges", "Main_Page/../Special:RecentChanges",
		"Main_Page%2F..%2FSpecial:RecentChanges", "%EF%BB%BFSpecial:RecentChanges", "%C2%A0Special:RecentChanges", "%E3%80%80Special:RecentChanges", "Special:Export/Main_Page", "MediaWiki:Common.css", "-",
	}
	for _, title := range titles {
		targets = append(targets, "/wiki/"+title, "/w/index.php?title="+title, "/w/index.php/"+title, "/?title="+title, "/w/?title="+title, "/wiki/?title="+title, "/w/index.php?x&title="+title,
			"/w/index.php?title=Main_Page&title="+title, "/w/index.php?title="+title+"&title=Main_Page", "/w/index.php?title="+title+"&go-get=1", "/w/index.php?TITLE="+title, "/w/index.php?title[]="+title,
			"/wiki/Main_Page/"+title, "/wiki//"+title, "/wiki/./"+title, "/wiki/%2e/"+title, "/w/index.php/Main_Page/../"+title, "/index.php?title="+title, "/w/index.php?%74itle="+title)
	}
	questions := []string{
		"action=history", "action=raw", "action=info", "action=edit", "action=HISTORY", "action=his%74ory", "%61ction=history", "action%00=history", "action[]=history", "action%5B%5D=history", "action[x]=history",
		"+action=history", "%20action=history", "action.=history", "action+=history", "action=history%00", "action=%20history", "action=+history", "action=view&action=history", "action=history&action=view", "action=history;x",
		"x;action=history", "x&amp;action=history", "&action=history", "&&action=history", "action=history#x", "x%26action=history", "x%3Faction=history", "?action=history",
		"diff=prev", "oldid=1", "oldid=1&x", "OLDID=1", "diff[]=prev", "curid=1", "search=words", "search=words&go=Go", "search[]=words", "fulltext=1", "fulltext=1&search=x", "printable=yes", "redirect=no", "feed=atom",
		"action=history&feed=atom", "veaction=edit", "action=render", "action=credits", "action=purge", "action=delete", "action=submit", "mobileaction=x", "useskin=cologneblue", "title=Main_Page", "7", "foo", "v=1", "0a1b2c", "s=1&action=history",
	}
	for _, q := range questions {
		for _, before := range []string{
			"/wiki/Main_Page?", "/w/index.php?title=Main_Page&", "/w/index.php?", "/w/index.php/Main_Page?", "/?", "/w/?", "/wiki/Main_Page%3F", "/w/index.php%3F", "/wiki/?", "/wiki/x.css?", "/w/index.php/x.css?", "//w//index.php?title=Main_Page&",
			"/w/./index.php?", "/w/load.php/../index.php?", "/w/img_auth.php/../index.php?", "/sitemap/sitemap-x.xml?", "/feed/?", "/robots.txt?", "/w/index.php;x?", "/w/index.php%3bx?",
		} {
			targets = append(targets, before+q)
		}
	}
	dearPage := regexp.MustCompile(`<body class="[^"]*(?:ns-special|action-(?:history|edit|info|raw|delete|purge|submit|credits))|mw-history|diff-ntitle|mw-revision-info|<feed |<rss `)
	dear := 0
	for i, target := range targets {
		if (i+i/20)%3 != 0 { // all of them take a minute and more; of each kind some
			continue
		}
		if strings.ContainsAny(target, "\x00 ") {
			continue
		}
		r, err := decide.NewRequest("GET", target, "", nil)
		answer := v.get(target)
		if err != nil {
			if answer.Status != 400 {
				t.Errorf("%s: nginx says %d, and stile %v", target, answer.Status, err)
			}
			continue
		}
		if answer.Status != 200 || !dearPage.MatchString(answer.Body) && !strings.HasPrefix(answer.Header.Get("Content-Type"), "text/x-wiki") {
			continue
		}
		dear++
		if verdict, rule := e.Policy().Classify(r); !gated[rule] {
			t.Errorf("%s: %q by rule %q, and MediaWiki answers with %.60s", target, verdict, rule, dearPage.FindString(answer.Body))
		}
	}
	t.Logf("%d of %d addresses get something dear", dear, len(targets))
	if dear < 100 {
		t.Errorf("only %d of %d addresses get something dear: the test tries little", dear, len(targets))
	}
}
