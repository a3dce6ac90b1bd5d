package e2e

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

// halfWay, run before a page's own scripts, keeps it solving for ever, to be looked at.
const halfWay = `Object.defineProperty(window, 'stile', {configurable: true, set(solver) {
	Object.defineProperty(window, 'stile', {value: solver});
	solver.solve = o => new Promise(() => o.onprogress(13, 32));
}});`

// tree is what a screen reader has of the page: names by role. A heading's role has its
// level, "heading 1".
func (v *tab) tree() map[string][]string {
	v.Helper()
	roles := map[string][]string{}
	for _, n := range call(v, accessibility.GetFullAXTree, accessibility.GetFullAXTreeParams{}).Nodes {
		if n.Ignored || n.Role == nil {
			continue
		}
		role, name := strings.Trim(string(n.Role.Value), `"`), ""
		if n.Name != nil {
			name = strings.Trim(string(n.Name.Value), `"`)
		}
		for _, p := range n.Properties {
			if p.Name == "level" && role == "heading" {
				role += " " + string(p.Value.Value)
			}
		}
		roles[role] = append(roles[role], name)
	}
	return roles
}

// C093: what somebody hears who cannot see the page, in each of its states.
func TestBrowserC093ScreenReader(t *testing.T) {
	t.Parallel()
	s := open(t, houseRules+"[pass]\nper_network_day = 1\n", "")
	s.pages(map[string]string{"/open/form": "<form method=post action='/heavy/post'><button>Send</button></form>"})
	f := func(what string, v *tab, heading string, want ...string) {
		t.Helper()
		tree := v.tree()
		if got := tree["heading 1"]; !slices.Equal(got, []string{english(t, heading)}) || len(tree["heading 2"]) > 0 {
			t.Errorf("%s: headings %q", what, got)
		}
		if got := v.eval("[document.documentElement.lang, document.documentElement.dir, document.title].join()"); got != "en,ltr,"+english(t, heading) {
			t.Errorf("%s: language, direction and title are %s", what, got)
		}
		if len(tree["main"]) != 1 || len(tree["RootWebArea"]) != 1 {
			t.Errorf("%s: landmarks %q", what, tree)
		}
		for i := 0; i < len(want); i += 2 {
			if got := tree[want[i]]; !slices.Equal(got, want[i+1:i+2]) {
				t.Errorf("%s: each %s is called %q, want %q", what, want[i], got, want[i+1])
			}
		}
		for _, role := range []string{"image", "alert", "alertdialog", "textbox", "checkbox"} {
			if len(tree[role]) > 0 {
				t.Errorf("%s: there is a %s: %q", what, role, tree[role])
			}
		}
	}
	v := s.tab(halfWay)
	v.open(s.at("gate.test", "/heavy/x"))
	v.until("document.querySelector('progress').value > 0")
	f("solving", v, "heading", "progressbar", english(t, "heading"))
	if tree := v.tree(); len(tree["status"]) == 0 || len(tree["button"])+len(tree["link"]) > 0 {
		t.Errorf("solving: %q", tree)
	}

	v = s.tab("")
	v.open(s.at("gate.test", "/open/form"))
	v.click("button")
	v.says("unsafe")
	f("a form refused", v, "unsafe_heading", "link", english(t, "unsafe_link"))
	v.open(s.at("gate.test", "/.stile/prove"))
	v.says("proved")
	f("proved", v, "heading")
	if tree := v.tree(); len(tree["progressbar"]) > 0 || !strings.Contains(v.eval("document.querySelector('[role=status]').textContent"), english(t, "proved")) {
		t.Errorf("proved: %q", tree)
	}
	v.open(s.at("gate.test", "/denied/x"))
	f("denied", v, "denied_heading")

	v = s.tab("")
	v.open(s.at("gate.test", "/heavy/x"))
	v.says("ceiling")
	f("no passes left", v, "heading", "button", english(t, "again"))
	v.do(chromedp.KeyEvent("\t"))
	if focus := v.eval("document.activeElement.tagName"); focus != "BUTTON" {
		t.Errorf("the first thing that Tab reaches is %s", focus)
	}
	if got := v.eval("document.querySelector('[role=status]').textContent"); !strings.Contains(got, english(t, "ceiling")) {
		t.Errorf("the live region says %q", got)
	}

	v = s.tabOf(noCookies)
	other := open(t, houseRules, "")
	v.open(other.at("gate.test", "/heavy/x"))
	v.says("cookies")
	f("cookies blocked", v, "heading", "button", english(t, "again"))
}

// A mode is a way in which somebody looks at pages.
type mode struct {
	name          string
	width, height int64
	scale         float64
	scheme        string // "light", "dark"
	language      string
}

func (v *tab) look(m mode) {
	v.Helper()
	call(v, emulation.SetLocaleOverride, emulation.SetLocaleOverrideParams{Locale: m.language})
	call(v, emulation.SetUserAgentOverride, emulation.SetUserAgentOverrideParams{UserAgent: "Mozilla/5.0", AcceptLanguage: m.language})
	call(v, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: m.scheme}}})
	v.do(chromedp.EmulateViewport(m.width, m.height, chromedp.EmulateScale(m.scale)))
}

// go test ./e2e -run BrowserPictures -artifacts -outputdir DIR
//
// Pictures of the states, as the whole shows them, to be looked at. The test itself only
// finds what does not fit into the window.
func TestBrowserPictures(t *testing.T) {
	t.Parallel()
	logo := base64.StdEncoding.EncodeToString([]byte(`<svg xmlns="http://www.w3.org/2000/svg" width="48" height="48"><circle cx="24" cy="24" r="22" fill="#c60"/></svg>`))
	plain := open(t, houseRules, "")
	branded := open(t, strings.Replace(houseRules, "100ms\"\n", fmt.Sprintf("100ms\"\ntitle = \"Halogen Forge\"\nlogo = \"data:image/svg+xml;base64,%s\"\ncontact = \"Trouble getting in? admin@forge.example, https://forge.example/contact\"\n", logo), 1), "")
	for _, s := range []*site{plain, branded} {
		s.pages(map[string]string{"/open/form": "<form method=post action='/heavy/post'><button>Send</button></form>"})
	}
	for _, m := range []mode{
		{"light", 1000, 640, 1, "light", "en"},
		{"dark", 1000, 640, 1, "dark", "de"},
		{"narrow", 320, 640, 2, "light", "fi"},
		{"narrow-rtl", 320, 640, 2, "dark", "ar"},
	} {
		v := plain.tab(halfWay)
		v.look(m)
		take := func(state string) {
			t.Helper()
			if wide := v.eval("document.documentElement.scrollWidth > innerWidth"); wide != "false" {
				t.Errorf("%s, %s: wider than the window", m.name, state)
			}
			v.picture(m.name + "-" + state)
		}
		solving := "document.querySelector('progress') && document.querySelector('progress').position > 0"
		v.open(plain.at("gate.test", "/heavy/x"))
		v.until(solving)
		take("solving")
		v.open(branded.at("gate.test", "/heavy/x"))
		v.until(solving)
		take("branded")
		v.open(plain.at("gate.test", "/denied/x"))
		take("denied")
		v.open(plain.at("gate.test", "/open/form"))
		v.click("button")
		v.until("document.querySelector('a.act')")
		take("unsafe")
	}
}

// STILE_DOCS=1 go test ./e2e -run BrowserDocs
//
// The picture in the README.
func TestBrowserDocs(t *testing.T) {
	if os.Getenv("STILE_DOCS") == "" {
		t.Skip("STILE_DOCS is not set: docs/challenge.png stays as it is")
	}
	s := open(t, houseRules, "")
	v := s.tab(halfWay)
	v.look(mode{width: 640, height: 400, scale: 2, scheme: "light", language: "en"})
	v.open(s.at("gate.test", "/heavy/x"))
	v.until("document.querySelector('progress') && document.querySelector('progress').position > 0")
	shot, err := chromedp.Run(v.ctx, chromedp.CaptureScreenshot())
	if err != nil {
		t.Fatal(err)
	}
	picture, err := png.Decode(bytes.NewReader(shot))
	if err != nil {
		t.Fatal(err)
	}
	var small bytes.Buffer
	encoder := png.Encoder{CompressionLevel: png.BestCompression}
	if err := encoder.Encode(&small, fewColours(picture)); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("../docs/challenge.png", small.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d bytes", small.Len())
}

// fewColours is a picture in the 64 colours that it uses most: text and its edges.
func fewColours(m image.Image) image.Image {
	count := map[color.Color]int{}
	for y := range m.Bounds().Dy() {
		for x := range m.Bounds().Dx() {
			count[m.At(x, y)]++
		}
	}
	palette := color.Palette(slices.SortedFunc(maps.Keys(count), func(a, b color.Color) int { return count[b] - count[a] }))
	few := image.NewPaletted(m.Bounds(), palette[:min(64, len(palette))])
	draw.Draw(few, m.Bounds(), m, image.Point{}, draw.Src)
	return few
}
