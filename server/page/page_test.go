package page

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os/exec"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"stile/pow"
)

func testChallenge(l *Lang) *Challenge {
	return &Challenge{
		Lang: l, Token: bytes.Repeat([]byte("aZ9_"), pow.TokenLen/4), Algorithm: 1, Bits: 17, Parts: 32,
		WaitToken: bytes.Repeat([]byte("-b0Y"), pow.TokenLen/4), WaitSeconds: 10,
		Target: "/packages/halogen?search=a%26b&page=2", Support: "1f3e5d7c",
	}
}

// everyPage is a page of every kind, by name.
func everyPage(p *Pages, l *Lang) map[string]string {
	pages := map[string]string{}
	challenge := func(name string, change func(c *Challenge)) {
		c := testChallenge(l)
		change(c)
		pages[name] = string(p.AppendChallenge(nil, c))
	}
	challenge("challenge", func(*Challenge) {})
	challenge("no wait", func(c *Challenge) { c.WaitToken = nil })
	challenge("no cookies", func(c *Challenge) { c.NoCookies = true })
	challenge("no cookies, no wait", func(c *Challenge) { c.NoCookies, c.WaitToken = true, nil })
	challenge("framed", func(c *Challenge) { c.Framed = true })
	challenge("framed, prove", func(c *Challenge) { c.Framed, c.Prove = true, true })
	challenge("no support id", func(c *Challenge) { c.Support = "" })
	challenge("prove", func(c *Challenge) { c.Prove, c.WaitToken = true, nil })
	for r := Limit; r < reasons; r++ {
		pages[r.String()] = string(p.AppendRefused(nil, &Refused{Lang: l, Reason: r, RetrySeconds: 17, Support: "1f3e5d7c"}))
		pages[r.String()+", posted"] = string(p.AppendRefused(nil, &Refused{Lang: l, Reason: r, RetrySeconds: 170, Posted: true}))
	}
	return pages
}

var (
	branded = New(Options{Title: "A&B <forge>", Logo: `/logo.png?a=1&b="`, Contact: "Ask root@forge.example (or https://forge.example/?a&b)."})
	plain   = New(Options{})
)

func TestEveryPage(t *testing.T) {
	tags := regexp.MustCompile(`<(/?)([a-zA-Z0-9]+)[^>]*>`)
	raw := regexp.MustCompile(`(?s)(<(script|style)[^>]*>).*?</(script|style)>`)
	void := map[string]bool{"meta": true, "img": true}
	for _, p := range []*Pages{plain, branded} {
		for _, l := range languages {
			for name, html := range everyPage(p, l) {
				t.Run(l.Tag+"/"+name, func(t *testing.T) {
					if want := `<!DOCTYPE html><html lang="` + l.Tag + `" dir="` + l.dir + `">`; !strings.HasPrefix(html, want) {
						t.Errorf("begins %.60q, want %q", html, want)
					}
					if !utf8.ValidString(html) {
						t.Error("not UTF-8")
					}
					var open []string
					for _, tag := range tags.FindAllStringSubmatch(raw.ReplaceAllString(html, "$1</$3>"), -1) {
						switch {
						case void[tag[2]] || tag[2] == "DOCTYPE":
						case tag[1] == "":
							open = append(open, tag[2])
						case len(open) == 0 || open[len(open)-1] != tag[2]:
							t.Fatalf("%s closes %v\n%s", tag[0], open, html)
						default:
							open = open[:len(open)-1]
						}
					}
					if len(open) > 0 {
						t.Errorf("never closed: %v", open)
					}
					count := func(what string, want int) {
						t.Helper()
						if got := strings.Count(html, what); got != want {
							t.Errorf("%d of %q, want %d", got, what, want)
						}
					}
					count("<h1", 1)
					count("<main>", 1)
					count("<title>", 1)
					count("<title></title>", 0)
					count("{t}", strings.Count(html, `"waiting":`)) // the script's
					count("{n}", 3*strings.Count(html, `"units":`))
					for _, unwanted := range []string{"og:", "noindex", "robots", "stile</", "javascript:", "style="} {
						count(unwanted, 0)
					}
					if handler := regexp.MustCompile(`<[^>]* on[a-z]+=`).FindString(html); handler != "" {
						t.Errorf("an inline handler: %s", handler)
					}
				})
			}
		}
	}
}

// The pages carry nothing inline that their own policy forbids.
func TestCSP(t *testing.T) {
	inline := regexp.MustCompile(`(?s)<(style|script)>(.*?)</(style|script)>`)
	for name, html := range everyPage(plain, english) {
		for _, m := range inline.FindAllStringSubmatch(html, -1) {
			if hash := cspHash([]byte(m[2])); !strings.Contains(plain.CSP(), m[1]+"-src ") || !strings.Contains(plain.CSP(), hash) {
				t.Errorf("%s: the policy has no %s for %s %.40q", name, hash, m[1], m[2])
			}
		}
	}
	for _, want := range []string{"default-src 'none'", "script-src 'self' 'wasm-unsafe-eval' 'sha256-", "connect-src 'self'", "worker-src 'self'", "img-src 'self' data:", "base-uri 'none'", "form-action 'self'"} {
		if !strings.Contains(plain.CSP(), want) {
			t.Errorf("no %s in %s", want, plain.CSP())
		}
	}
	if got, want := plain.ProveCSP(), plain.CSP()+"; frame-ancestors 'self'"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if strings.Contains(plain.CSP(), "frame-ancestors") || strings.ContainsAny(plain.CSP(), "\n\r") {
		t.Error(plain.CSP())
	}
}

// The page, uncompressed as it is sent, and the script, compressed, have 14 KB
// together; the page 5 KB in scripts whose letters take a byte or two, 6.5 KB in others.
func TestSize(t *testing.T) {
	_, script, _ := plain.Script()
	largest := 0
	for _, l := range languages {
		n := len(plain.AppendChallenge(nil, testChallenge(l)))
		limit := 6656
		if l.words.Lead[0] < 0x80 && l.words.Work[0] < 0x80 {
			limit = 5 << 10
		}
		if n > limit {
			t.Errorf("%s: the page has %d bytes, want at most %d", l.Tag, n, limit)
		}
		largest = max(largest, n)
		for name, html := range everyPage(plain, l) {
			if len(html) > limit {
				t.Errorf("%s: %s has %d bytes, want at most %d", l.Tag, name, len(html), limit)
			}
		}
	}
	if largest+len(script) > 14<<10 {
		t.Errorf("page %d + script %d = %d bytes, want at most 14 KB", largest, len(script), largest+len(script))
	}
	t.Logf("English %d, largest %d, script %d compressed", len(plain.AppendChallenge(nil, testChallenge(english))), largest, len(script))
}

func TestScript(t *testing.T) {
	body, gzipped, version := plain.Script()
	if !bytes.HasPrefix(body, pow.Script()) {
		t.Error("the solver is not first")
	}
	if len(gzipped) >= len(body) || len(version) != 12 {
		t.Errorf("%d bytes, %d compressed, version %q", len(body), len(gzipped), version)
	}
	if _, _, other := New(Options{Title: "x"}).Script(); other != version {
		t.Error("the same script has two versions")
	}
	if _, _, other := newPages(Options{}, []byte("// other\n")).Script(); other == version {
		t.Error("two scripts have the same version")
	}
	// Every line is between the marks that LibreJS looks for, in the page's own, too.
	const begin, end = "// @license magnet:?xt=urn:btih:d3d9a9a6595521f9666a5e94cc830dab83b65699&dn=expat.txt Expat\n", "// @license-end\n"
	for name, code := range map[string][]byte{"script": body, "loader": shrink(loaderJS)} {
		rest := string(code)
		for rest != "" {
			inside, ok := strings.CutPrefix(rest, begin)
			if !ok {
				t.Fatalf("%s: unlicensed: %.60q", name, rest)
			}
			if _, rest, ok = strings.Cut(inside, end); !ok {
				t.Fatalf("%s: the mark does not end", name)
			}
		}
	}
	// shrink knows lines, not strings.
	for name, code := range map[string][]byte{"page.js": pageJS, "loader.js": loaderJS} {
		if bytes.Contains(code, []byte("`")) || bytes.Contains(code, []byte("/*")) {
			t.Errorf("%s has a template or a block comment, which shrink does not know", name)
		}
	}
}

// No build step, and no surprise for an older browser: page.js is ES2017 and the
// loader, which must say something where page.js does not even parse, is ES5.
func TestJavaScriptIsOldEnough(t *testing.T) {
	node := need(t, "node")
	for file, version := range map[string]string{"page.js": "2017", "loader.js": "5"} {
		out, err := exec.Command(node, "--expose-internals", "-e", `
			const acorn = require('internal/deps/acorn/acorn/dist/acorn');
			acorn.parse(require('fs').readFileSync(process.argv[1], 'utf8'), {ecmaVersion: +process.argv[2]});`, file, version).CombinedOutput()
		if err != nil {
			t.Errorf("%s: %v\n%s", file, err, out)
		}
	}
}

func TestChallenge(t *testing.T) {
	has := func(html, want string) {
		t.Helper()
		if !strings.Contains(html, want) {
			t.Errorf("no %q in\n%s", want, html)
		}
	}
	hasNot := func(html, unwanted string) {
		t.Helper()
		if strings.Contains(html, unwanted) {
			t.Errorf("%q is in\n%s", unwanted, html)
		}
	}
	c := testChallenge(english)
	html := string(plain.AppendChallenge([]byte("before"), c))
	has(html, "before<!DOCTYPE")
	url := "/.stile/wait?t=" + string(c.WaitToken) + "&amp;u=" + base64.RawURLEncoding.EncodeToString([]byte(c.Target))
	has(html, `<meta http-equiv="refresh" content="10;url=`+url+`"></noscript>`)
	has(html, ` href="`+url+`">Continue to the page</a>`)
	has(html, "please wait 10\u00a0s, then")
	has(html, "Support ID: <bdi>1f3e5d7c</bdi>")
	has(html, `<script src="/.stile/stile.js?v=`+plain.scriptVersion+`" defer></script>`)
	hasNot(html, c.Target)

	var data struct {
		Token     string
		Algorithm uint8
		Bits      uint8
		Parts     int
		Prove     bool
		Words     map[string]any
	}
	read := func(html string) {
		t.Helper()
		data.Prove = false
		if err := json.Unmarshal([]byte(dataBlock(html)), &data); err != nil {
			t.Fatal(err)
		}
	}
	read(html)
	if data.Token != string(c.Token) || data.Algorithm != 1 || data.Bits != 17 || data.Parts != 32 || data.Prove || data.Words["done"] != english.words.Done {
		t.Errorf("%+v", data)
	}

	c.Prove = true
	read(string(plain.AppendChallenge(nil, c)))
	if !data.Prove || data.Words["done"] != english.words.Proved {
		t.Errorf("%+v", data)
	}

	c = testChallenge(nil)
	c.NoCookies = true
	html = string(plain.AppendChallenge(nil, c))
	hasNot(html, "http-equiv")
	has(html, `<div id="way"><p>`+english.words.Cookies+`</p><p>If nothing happens`)
	// The hint is about a network, not a visitor: who shares it can still come in.
	has(html, `href="/.stile/wait?t=`+string(c.WaitToken)+`&amp;u=`)
	c.WaitToken = nil
	html = string(plain.AppendChallenge(nil, c))
	hasNot(html, "/.stile/wait")
	has(html, `<div id="way"><p>`+english.words.Cookies+`</p><p>`+english.words.NeedJS+`</p></div>`)

	// In another site's frame there is nothing to solve, nor to wait for.
	for _, prove := range []bool{false, true} {
		c = testChallenge(english)
		c.Framed, c.Prove = true, prove
		html = string(plain.AppendChallenge(nil, c))
		has(html, `<p>`+english.words.Frame+`</p><p><a class="act" target="_blank" rel="noopener" href="">Open in a new tab</a></p>`)
		has(html, c.Support)
		for _, unwanted := range []string{string(c.Token), string(c.WaitToken), "/.stile/", "<script", "http-equiv", "<noscript", `id="way"`, c.Target} {
			hasNot(html, unwanted)
		}
	}

	c = testChallenge(english)
	c.WaitToken, c.Support = nil, ""
	html = string(plain.AppendChallenge(nil, c))
	hasNot(html, "http-equiv")
	hasNot(html, "/.stile/wait")
	hasNot(html, "<footer>")
	has(html, english.words.NeedJS)

	// A link that no server would read is no way in.
	c = testChallenge(english)
	c.Target = "/" + strings.Repeat("x", maxWaitTarget-1)
	has(string(plain.AppendChallenge(nil, c)), "/.stile/wait")
	c.Target += "x"
	hasNot(string(plain.AppendChallenge(nil, c)), "/.stile/wait")

	c.WaitSeconds = -5
	c.Target = "/"
	has(string(plain.AppendChallenge(nil, c)), `content="0;url=`)

	html = string(branded.AppendChallenge(nil, testChallenge(english)))
	has(html, "<title>A&amp;B &lt;forge&gt;</title>")
	has(html, `<div class="name"><img alt="" src="/logo.png?a=1&amp;b=&#34;"><bdi>A&amp;B &lt;forge&gt;</bdi></div><h1 id="title">One moment, please</h1>`)
	has(html, `<footer><p><bdi>Ask <a href="mailto:root@forge.example">root@forge.example</a> (or <a href="https://forge.example/?a&amp;b">https://forge.example/?a&amp;b</a>).</bdi></p>`)
}

func TestContact(t *testing.T) {
	f := func(line, want string) {
		t.Helper()
		if got := contact(line); got != want {
			t.Errorf("%q: %s, want %s", line, got, want)
		}
	}
	f("", "")
	f("room 3, @night", "<p><bdi>room 3, @night</bdi></p>")
	f("a@b", "<p><bdi>a@b</bdi></p>")
	f("<a@b.example>", `<p><bdi>&lt;<a href="mailto:a@b.example">a@b.example</a>&gt;</bdi></p>`)
	f("javascript:alert(1)", "<p><bdi>javascript:alert(1)</bdi></p>")
	f(`https://x/"><script>`, `<p><bdi><a href="https://x/&#34;&gt;&lt;script">https://x/&#34;&gt;&lt;script</a>&gt;</bdi></p>`)
}

func TestRefused(t *testing.T) {
	page := func(r Refused) string { return string(plain.AppendRefused(nil, &r)) }
	link := `<a class="act" href="">Try again</a>`
	f := func(name, html string, want ...string) {
		t.Helper()
		for _, w := range want {
			unwanted := false
			if w, unwanted = strings.CutPrefix(w, "not "); strings.Contains(html, w) == unwanted {
				t.Errorf("%s: %q: %v\n%s", name, w, unwanted, html)
			}
		}
	}
	w := &english.words
	f("limit", page(Refused{Reason: Limit, RetrySeconds: 17}), w.LimitHeading, w.Limit, "Waiting time: 17\u00a0s", link, "not refresh", "not <script")
	f("limit, posted", page(Refused{Reason: Limit, RetrySeconds: 17, Posted: true}), w.LimitHeading, w.Posted, "Waiting time", "not "+w.Limit, "not href", "not <script")
	f("busy", page(Refused{Reason: Busy, RetrySeconds: 3}), w.BusyHeading, w.Busy, link, `<noscript><meta http-equiv="refresh" content="3"></noscript>`, `{"retry":3}`, `stile.js`)
	f("busy, posted", page(Refused{Reason: Busy, RetrySeconds: 3, Posted: true}), w.BusyHeading, w.Posted, "not refresh", "not href", "not <script")
	f("busy for an unknown time", page(Refused{Reason: Busy}), w.BusyHeading, link, "not refresh", "not <script", "not Waiting")
	f("denied", page(Refused{Reason: Denied, RetrySeconds: 3}), w.DeniedHeading, w.Denied, "not href", "not Waiting")
	f("ceiling", page(Refused{Reason: Ceiling, RetrySeconds: 5401}), w.Ceiling, "Waiting time: 2\u00a0h", link)
	f("unsafe", page(Refused{Reason: Unsafe, Posted: true}), w.UnsafeHeading, w.Unsafe, w.UnsafeThen, `<a class="act" target="_blank" rel="noopener" href="/.stile/prove">`, "not <script")
	elsewhere := `<a class="act" href="/x?a=1&amp;b=&#34;">Try again</a>`
	f("ceiling of a wait", page(Refused{Reason: Ceiling, RetrySeconds: 5401, Target: `/x?a=1&b="`}), w.Ceiling, "Waiting time: 2\u00a0h", elsewhere)
	f("early", page(Refused{Reason: Early, RetrySeconds: 7}), w.Heading, "please wait 7\u00a0s, then", `<a class="act" href="">Continue to the page</a>`, `<meta http-equiv="refresh" content="7">`, "not <script", "not <noscript")
	f("early, for an unknown time", page(Refused{Reason: Early}), w.Lead, `href=""`, "not refresh", "not please wait")
	f("failed", page(Refused{Reason: Failed, Target: `/x?a=1&b="`}), w.Heading, w.Failed, elsewhere, "not refresh", "not Waiting", "not <script")
	f("failed, posted", page(Refused{Reason: Failed, Posted: true}), w.Failed, "not href")
	f("denied, with a target", page(Refused{Reason: Denied, Target: "/x"}), "not href", "not /x")
	f("unsafe, with a target", page(Refused{Reason: Unsafe, Target: "/x"}), `href="/.stile/prove">`)
	// Never to another site, whatever the link of a wait held.
	for _, target := range []string{"", "x", "//x", `/\x`, "/\t/x", "/\n/x", "/x\x7f", "https://x", "javascript:x", " /x"} {
		f(fmt.Sprintf("target %q", target), page(Refused{Reason: Failed, Target: target}), `<a class="act" href="/">Try again</a>`)
	}
	f("unknown", page(Refused{Reason: 99}), w.DeniedHeading)
	if Reason(99).String() != "unknown" || Unsafe.String() != "unsafe" {
		t.Error("reasons have no names")
	}
}

func TestTime(t *testing.T) {
	f := func(seconds int, want string) {
		t.Helper()
		if got := string(appendTime(nil, english, seconds)); got != strings.ReplaceAll(want, " ", "\u00a0") {
			t.Errorf("%d: %s, want %s", seconds, got, want)
		}
	}
	f(-1, "0 s")
	f(0, "0 s")
	f(89, "89 s")
	f(90, "2 min")
	f(120, "2 min")
	f(121, "3 min")
	f(5399, "90 min")
	f(5400, "2 h")
	f(86400, "24 h")
}

func TestPlain(t *testing.T) {
	f := func(json bool, reason string, retry int, want string) {
		t.Helper()
		if got := string(AppendPlain(nil, json, reason, retry)); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	f(false, "busy", 0, "busy\n")
	f(false, "too-many-requests", 17, "too-many-requests; try again in 17 s\n")
	f(false, ProofRequired, 60, "proof-required: open this address in a web browser; try again in 60 s\n")
	f(false, "a\r\nb\x1b[2J", -1, "ab[2J\n")
	f(true, "busy", 0, `{"error":"busy","message":"busy"}`+"\n")
	f(true, "busy", 17, `{"error":"busy","message":"busy; try again in 17 s","retry":17}`+"\n")
	f(true, "\"</script>\u2028\xff", 0, `{"error":"\"\u003c/script\u003e\u2028\ufffd","message":"\"\u003c/script\u003e\u2028\ufffd"}`+"\n")
}

// Every language has every word, and no word that is another's by mistake.
func TestLanguagesAreComplete(t *testing.T) {
	if len(languages) < 30 {
		t.Fatalf("%d languages", len(languages))
	}
	scripts := map[string]*unicode.RangeTable{
		"ar": unicode.Arabic, "fa": unicode.Arabic, "ur": unicode.Arabic, "he": unicode.Hebrew, "el": unicode.Greek,
		"ru": unicode.Cyrillic, "uk": unicode.Cyrillic, "bg": unicode.Cyrillic, "hi": unicode.Devanagari,
		"ja": unicode.Han, "zh-Hans": unicode.Han, "zh-Hant": unicode.Han, "ko": unicode.Hangul,
	}
	seen := map[string]string{}
	for _, l := range languages {
		v := reflect.ValueOf(l.words)
		for i := range v.NumField() {
			name := v.Type().Field(i).Name
			if name == "Units" {
				continue
			}
			text := v.Field(i).String()
			fault := func(what string) { t.Errorf("%s: %s: %s: %q", l.Tag, name, what, text) }
			if strings.TrimSpace(text) == "" || strings.TrimSpace(text) != text || strings.Contains(text, "  ") {
				fault("empty, or stray spaces")
			}
			if want := name == "Wait" || name == "Waiting"; strings.Count(text, "{t}") != map[bool]int{true: 1}[want] || strings.Contains(text, "{id}") != (name == "Support") || strings.Count(text, "{") != strings.Count(text, "{t}")+strings.Count(text, "{id}") {
				fault("{t} or {id} missing, or not wanted")
			}
			if strings.ContainsAny(text, "<>&\"") {
				fault("markup")
			}
			sentence := name != "Heading" && name != "NewTab" && name != "Again" && name != "WaitLink" && name != "Support" && name != "Waiting" && name != "UnsafeLink" && !strings.HasSuffix(name, "Heading")
			if last, _ := utf8.DecodeLastRuneInString(text); sentence != strings.ContainsRune(".。۔।", last) {
				fault("a full stop missing, or not wanted")
			}
			if script := scripts[l.Tag]; script != nil {
				in := 0
				for _, r := range text {
					if unicode.Is(script, r) || unicode.In(r, unicode.Hiragana, unicode.Katakana) {
						in++
					}
				}
				if in*2 < utf8.RuneCountInString(strings.ReplaceAll(text, "JavaScript", "")) && in < 8 && in == 0 {
					fault("another script")
				}
			}
			if other, ok := seen[name+text]; ok && sentence && l.Tag != "pt" {
				fault("the same as in " + other)
			}
			seen[name+text] = l.Tag
		}
		for _, unit := range l.words.Units {
			if strings.Count(unit, "{n}") != 1 || strings.Contains(unit, " ") {
				t.Errorf("%s: unit %q: want one {n}, and no-break spaces", l.Tag, unit)
			}
		}
	}
}

// dataBlock is what page.js reads.
func dataBlock(html string) string {
	_, block, _ := strings.Cut(html, `<script type="application/json" id="data">`)
	block, _, _ = strings.Cut(block, "</script>")
	return block
}

func FuzzEscaping(f *testing.F) {
	for _, s := range []string{
		"/x", "</script><script>alert(1)</script>", `"><img src=x onerror=alert(1)>`, "'\u2028\u2029\x00\xff<!--", "javascript:alert(1)",
		"]]>&amp;&#34;", `\u003c/script>`, strings.Repeat("<", 300),
	} {
		f.Add(s, s, s, int16(5))
	}
	harmless := testChallenge(english)
	harmless.Token, harmless.WaitToken, harmless.Target, harmless.Support = []byte("x"), []byte("x"), "x", "x"
	f.Fuzz(func(t *testing.T, token, target, support string, seconds int16) {
		c := testChallenge(english)
		c.Token, c.WaitToken, c.Target, c.Support = []byte(token), []byte("x"+token), target, support+"x"
		c.WaitSeconds = int(seconds)
		for _, prove := range []bool{false, true} {
			c.Prove, harmless.Prove = prove, prove
			if len(target) > maxWaitTarget {
				return
			}
			html := string(branded.AppendChallenge(nil, c))
			want := string(branded.AppendChallenge(nil, harmless))
			for _, mark := range "<>" {
				if got, want := strings.Count(html, string(mark)), strings.Count(want, string(mark)); got != want {
					t.Fatalf("%d of %c, want %d", got, mark, want)
				}
			}
			block := dataBlock(html)
			if strings.ContainsAny(block, "<>&\u2028\u2029") {
				t.Fatalf("data: %s", block)
			}
			var data struct{ Token string }
			if err := json.Unmarshal([]byte(block), &data); err != nil {
				t.Fatal(err)
			}
			valid := ""
			for _, r := range token {
				valid += string(r) // U+FFFD for each wrong byte
			}
			if data.Token != valid {
				t.Fatalf("token %q came back as %q", token, data.Token)
			}
			before, _, _ := strings.Cut(html, dataBlock(html))
			beforeWant, _, _ := strings.Cut(want, dataBlock(want))
			for _, mark := range `"'` {
				if strings.Count(before, string(mark)) != strings.Count(beforeWant, string(mark)) {
					t.Fatal("an attribute ends early")
				}
			}
		}
		refused := string(branded.AppendRefused(nil, &Refused{Reason: Reason(seconds), RetrySeconds: int(seconds), Target: target, Support: support + "x"}))
		want := string(branded.AppendRefused(nil, &Refused{Reason: Reason(seconds), RetrySeconds: int(seconds), Support: "x"}))
		for _, mark := range `<>'"` {
			if strings.Count(refused, string(mark)) != strings.Count(want, string(mark)) {
				t.Fatalf("refused: %c comes through", mark)
			}
		}
		var answer struct {
			Error string
			Retry int
		}
		if err := json.Unmarshal(AppendPlain(nil, true, token, int(seconds)), &answer); err != nil || answer.Retry != max(int(seconds), 0) {
			t.Fatalf("%+v: %v", answer, err)
		}
		if text := AppendPlain(nil, false, token, 0); bytes.IndexByte(text, '\n') != len(text)-1 {
			t.Fatalf("%q", text)
		}
		if got, _ := base64.RawURLEncoding.DecodeString(string(appendBase64(nil, target))); string(got) != target {
			t.Fatalf("%q came back as %q", target, got)
		}
	})
}

func Example() {
	p := New(Options{})
	page := p.AppendRefused(nil, &Refused{Lang: PickLanguage("de-AT,de;q=0.9"), Reason: Limit, RetrySeconds: 17})
	fmt.Println(strings.Contains(string(page), "Zu viele Anfragen"))
	// Output: true
}
