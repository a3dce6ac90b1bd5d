// Package page writes what a visitor sees instead of the page asked for: the
// challenge, the refusals, and a few bytes of text or JSON for what is not a browser's
// navigation. It speaks the visitor's language, as far as it can tell which that is.
//
// The pages name no product and carry nothing for search engines or link previews.
// All that does not change between two visitors is prepared at start; a page is then
// a few copies, without an allocation if the buffer is large enough. Whatever comes
// from a request is escaped, or encoded, where it is written.
package page

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"stile/pow"
)

// Addresses that the pages refer to. The server answers there.
const (
	scriptPath = "/.stile/stile.js"
	waitPath   = "/.stile/wait"
	provePath  = "/.stile/prove"
)

var (
	//go:embed page.css
	pageCSS []byte

	// For browsers whose JavaScript is off: nothing will come where page.js writes, and
	// the way without it is shown at once. (page.css shows it after 12 s, should the
	// script never come; page.js removes it when it starts.)
	//go:embed noscript.css
	noscriptCSS []byte

	// Fetches the script again if it fails to load, up to five times.
	//go:embed loader.js
	loaderJS []byte

	//go:embed page.js
	pageJS []byte
)

// Options are what an operator can change about the pages. All of it is text; it is
// escaped. The zero value is right.
type Options struct {
	// Title is the site's name: above the heading, and as the title of the tab.
	// By default there is none, and the tab has the heading's words.
	Title string

	// Logo is a path on the site itself, which must not be behind the challenge, or a
	// data: URI. By default there is none.
	Logo string

	// Contact is a line under the page. Web and mail addresses in it become links.
	// By default there is none.
	Contact string
}

// Pages are the prepared pages. They do not change; all methods may be called
// concurrently.
type Pages struct {
	challenges [][2]challengeSheet // by Lang.index; [1] with Prove
	refusals   [][reasons]refusedSheet

	script        []byte
	scriptGzip    []byte
	scriptVersion string
	csp, proveCSP string
}

// New prepares the pages in all languages. It takes some milliseconds.
func New(o Options) *Pages { return newPages(o, pow.Script()) }

func newPages(o Options, solver []byte) *Pages {
	p := &Pages{script: append(bytes.Clone(solver), shrink(pageJS)...)}
	sum := sha256.Sum256(p.script)
	p.scriptVersion = hex.EncodeToString(sum[:6])
	p.scriptGzip = compress(p.script)

	css, noscript, loader := shrink(pageCSS), shrink(noscriptCSS), shrink(loaderJS)
	p.csp = "default-src 'none'; " +
		"script-src 'self' 'wasm-unsafe-eval' " + cspHash(loader) + "; " +
		"style-src " + cspHash(css) + " " + cspHash(noscript) + "; " +
		"img-src 'self' data:; connect-src 'self'; worker-src 'self'; base-uri 'none'; form-action 'self'"
	p.proveCSP = p.csp + "; frame-ancestors 'self'"

	c := common{
		css:      string(css),
		noscript: "<noscript><style>" + string(noscript) + "</style>",
		script: "<script>" + string(loader) + "</script>" +
			`<script src="` + scriptPath + "?v=" + p.scriptVersion + `" defer></script>`,
		title:   string(appendHTML(nil, o.Title)),
		brand:   brand(o),
		contact: contact(o.Contact),
	}
	p.challenges = make([][2]challengeSheet, len(languages))
	p.refusals = make([][reasons]refusedSheet, len(languages))
	for i, l := range languages {
		p.challenges[i][0] = newChallengeSheet(&c, l, false)
		p.challenges[i][1] = newChallengeSheet(&c, l, true)
		for r := range p.refusals[i] {
			p.refusals[i][r] = newRefusedSheet(&c, l, Reason(r))
		}
	}
	return p
}

// Script is the one script of the pages, for workers, too: as it is and compressed, and
// a short hash of its content, by which the pages ask for it (?v=…), so that it may be
// kept for ever.
func (p *Pages) Script() (body, gzipped []byte, version string) {
	return p.script, p.scriptGzip, p.scriptVersion
}

// CSP is the Content-Security-Policy for every page. They also work under a stricter
// one as long as that allows the script ('self'); then they lack style, or the loader's
// retries, or WebAssembly.
func (p *Pages) CSP() string { return p.csp }

// ProveCSP is the one for the page with Prove, which no other site has a reason to show
// in a frame. A challenge may stand in for a page that others do embed.
func (p *Pages) ProveCSP() string { return p.proveCSP }

// common is what the sheets of all languages share. Its strings are HTML.
type common struct {
	css, noscript, script string
	title, brand, contact string
}

// head begins a page, up to within its head.
func (c *common) head(dst []byte, l *Lang, heading string) []byte {
	dst = append(dst, `<!DOCTYPE html><html lang="`+l.Tag+`" dir="`+l.dir+`"><head><meta charset="utf-8"><title>`...)
	if c.title != "" {
		dst = append(dst, c.title...)
	} else {
		dst = appendHTML(dst, heading)
	}
	return append(dst, `</title><meta name="viewport" content="width=device-width,initial-scale=1">`+
		`<meta name="color-scheme" content="light dark"><style>`+c.css+`</style>`...)
}

// body ends the head and begins the body, up to after the heading.
func (c *common) body(dst []byte, heading string) []byte {
	dst = append(dst, "</head><body><main>"+c.brand+`<h1 id="title">`...)
	dst = appendHTML(dst, heading)
	return append(dst, "</h1>"...)
}

// foot ends the part that a visitor sees.
type foot struct{ before, after, plain []byte }

func (c *common) foot(l *Lang) (f foot) {
	before, after, _ := strings.Cut(l.words.Support, "{id}")
	f.before = append(f.before, "<footer>"+c.contact+"<p>"...)
	f.before = append(appendHTML(f.before, before), "<bdi>"...)
	f.after = appendHTML([]byte("</bdi>"), after)
	f.after = append(f.after, "</p></footer></main>"...)
	if c.contact != "" {
		f.plain = append(f.plain, "<footer>"+c.contact+"</footer>"...)
	}
	f.plain = append(f.plain, "</main>"...)
	return f
}

// append appends the foot with a support id, or without if there is none.
func (f *foot) append(dst []byte, support string) []byte {
	if support == "" {
		return append(dst, f.plain...)
	}
	dst = append(dst, f.before...)
	dst = appendHTML(dst, support)
	return append(dst, f.after...)
}

// brand is the operator's logo and name.
func brand(o Options) string {
	if o.Logo == "" && o.Title == "" {
		return ""
	}
	b := []byte(`<div class="name">`)
	if o.Logo != "" {
		b = append(b, `<img alt="" src="`...)
		b = appendHTML(b, o.Logo)
		b = append(b, `">`...)
	}
	if o.Title != "" {
		b = append(b, "<bdi>"...)
		b = appendHTML(b, o.Title)
		b = append(b, "</bdi>"...)
	}
	return string(append(b, "</div>"...))
}

// contact is the operator's line, with links where a word is a web or mail address.
func contact(line string) string {
	if line == "" {
		return ""
	}
	b := []byte("<p><bdi>")
	for i, word := range strings.Split(line, " ") {
		if i > 0 {
			b = append(b, ' ')
		}
		address := strings.Trim(word, ".,;:!?()<>")
		scheme := ""
		switch name, domain, _ := strings.Cut(address, "@"); {
		case strings.HasPrefix(address, "https://"), strings.HasPrefix(address, "http://"), strings.HasPrefix(address, "mailto:"):
		case name != "" && strings.Contains(domain, "."):
			scheme = "mailto:"
		default:
			b = appendHTML(b, word)
			continue
		}
		before, after, _ := strings.Cut(word, address)
		b = appendHTML(b, before)
		b = append(b, `<a href="`...)
		b = appendHTML(b, scheme+address)
		b = append(b, `">`...)
		b = appendHTML(b, address)
		b = append(b, "</a>"...)
		b = appendHTML(b, after)
	}
	return string(append(b, "</bdi></p>"...))
}

// appendTime appends a waiting time in the largest unit that is not too coarse, rounded
// up. page.js does the same. Minutes and hours are never one, so that the words for
// them can be plurals.
func appendTime(dst []byte, l *Lang, seconds int) []byte {
	unit, size := 0, 1
	switch {
	case seconds >= 90*60:
		unit, size = 2, 3600
	case seconds >= 90:
		unit, size = 1, 60
	}
	before, after, _ := strings.Cut(l.words.Units[unit], "{n}")
	dst = appendHTML(dst, before)
	dst = strconv.AppendInt(dst, int64((max(seconds, 0)+size-1)/size), 10)
	return appendHTML(dst, after)
}

// shrink drops indentation, empty lines and comments that have a line to themselves.
// What browsers look for to know a licence stays.
func shrink(text []byte) []byte {
	var out []byte
	for line := range bytes.Lines(text) {
		line = bytes.TrimSpace(line)
		comment := bytes.HasPrefix(line, []byte("//")) && !bytes.HasPrefix(line, []byte("// @license"))
		if len(line) > 0 && !comment {
			out = append(out, line...)
			out = append(out, '\n')
		}
	}
	return out
}

func cspHash(inline []byte) string {
	sum := sha256.Sum256(inline)
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

func compress(b []byte) []byte {
	var out bytes.Buffer
	w, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err == nil {
		_, err = w.Write(b)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		panic(fmt.Sprintf("BUG: compressing in memory: %v", err))
	}
	return out.Bytes()
}
