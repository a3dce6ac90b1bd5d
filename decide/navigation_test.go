package decide

import "testing"

// C112, C118: programs that would take a page, too, if there were nothing else, want none of ours. What they want
// stands before it.
func TestProgramsThatAlsoTakePages(t *testing.T) {
	f := func(want bool, accept string) {
		t.Helper()
		r, err := NewRequest("GET", "/", "", map[string]string{"Accept": accept})
		if err != nil {
			t.Fatal(err)
		}
		if got := Navigation(&r.Header); got != want {
			t.Errorf("%s: %v", accept, got)
		}
	}
	f(false, "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html; q=0.1, text/html; q=0.01")                                      // pip
	f(false, "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.01")                                        // uv
	f(false, `application/activity+json, application/ld+json; profile="https://www.w3.org/ns/activitystreams", text/html;q=0.1`)                        // Mastodon
	f(false, "application/atom+xml, application/rss+xml, application/rdf+xml;q=0.9, application/xml;q=0.8, text/xml;q=0.8, text/html;q=0.7, */*;q=0.1") // SimplePie
	f(false, "application/xml, application/atom+xml, application/rss+xml, application/rdf+xml, application/feed+json, text/html, */*;q=0.9")            // Miniflux
	f(false, "Application/JSON, text/html")                                                                                                             // in any case of letters
	f(true, "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8")                                                    // a browser
	f(true, "text/xml,application/xml,application/xhtml+xml,text/html;q=0.9,text/plain;q=0.8,image/png,*/*;q=0.5")                                      // an old one
	f(true, "text/html, text/plain, text/sgml, text/css, application/xhtml+xml, */*;q=0.01")                                                            // Lynx
	f(true, "text/html, application/json;q=0.9")                                                                                                        // what it wants most is a page
}
