package config

import (
	"fmt"
	"math"
	"net/netip"
	"reflect"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"testing"
	"time"

	"stile/crawler"
	"stile/decide/path"
	"stile/decide/pattern"
)

// Every preset must say what DESIGN's budgets say, keep its own expectations, and have
// no rule that no expectation reaches.
func TestPresetsKeepTheirExpectations(t *testing.T) {
	for _, name := range Presets() {
		t.Run(name, func(t *testing.T) {
			c, err := Parse("test.toml", []byte(fmt.Sprintf("include = [%q]", "preset:"+name)))
			if err != nil {
				t.Fatal(err)
			}
			reached := map[string]bool{}
			for _, e := range c.Expects {
				got, rule := judge(t, c, &e)
				reached[rule] = true
				at, query, _ := strings.Cut(e.Target, "?")
				for i := range c.Rules {
					if r := &c.Rules[i]; r.Do == Suspect && strings.HasPrefix(got, "challenge") && matches(&r.Match, &e, at, query) {
						reached[r.Name] = true
					}
				}
				if got != e.Verdict {
					t.Errorf("%s: %s %s: %q by rule %q, want %q", e.Pos, e.Method, e.Target, got, rule, e.Verdict)
				}
			}
			for _, r := range c.Rules {
				of := strings.TrimPrefix(r.Pos.File, "preset:")
				if of == name && !reached[r.Name] {
					t.Errorf("%s: rule %q: no [[expect]] reaches it", r.Pos, r.Name)
				}
				if !strings.HasPrefix(r.Name, of+"/") {
					t.Errorf("%s: rule %q: rules of a preset are named %s/…, apart from the operator's", r.Pos, r.Name, of)
				}
				exemptIsMetered(t, c, &r)
			}
		})
	}
}

func TestGenericBudgets(t *testing.T) {
	c, err := Load("")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range c.Meters {
		if !m.Per.Caller || m.Per.Segments != nil {
			t.Errorf("meter %q counts %+v, want callers", m.Name, m.Per)
		}
		got = append(got, fmt.Sprintf("%s %s: %d %d %d %d", m.Name, short(m.Window), m.Stranger, m.Pass, m.User, m.Strangers))
	}
	want := []string{
		"pages 1m: 120 600 600 3000",
		"pages-hour 1h: 1500 0 0 0",
		"expensive 1m: 30 120 120 300",
		"expensive-hour 1h: 200 0 0 0",
		"expensive-day 1d: 0 3000 3000 0",
		"go-get 1m: 30 120 120 300",
		"assets 1m: 1200 1200 1200 0",
		"machines 1m: 600 600 600 0",
		"git-heads 1m: 600 600 600 0",
		"federation 1m: 600 600 600 3000",
		"either 1m: 60 120 120 300",
		"crawlers 1m: 300 600 600 1200",
		"fetchers 1m: 60 600 600 300",
	}
	if !slices.Equal(got, want) {
		t.Errorf("meters\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	var gates []Gate
	for _, g := range c.Gates {
		g.Pos = Pos{}
		gates = append(gates, g)
	}
	if want := []Gate{
		{Name: "expensive", Budget: 8, Queue: 32, PerCaller: 4, Wait: 20 * time.Second, Lease: time.Minute, Fixed: 1, Unseen: 4, Scale: 1},
		{Name: "git", Budget: 16, Queue: 128, PerCaller: 32, Wait: 25 * time.Second, Lease: 10 * time.Minute, Fixed: 1, Unseen: 8, Scale: 1},
	}; !slices.Equal(gates, want) {
		t.Fatalf("gates %+v, want %+v", gates, want)
	}
	for _, r := range c.Rules {
		// What the meters of expensive pages count, and what may be one, waits for a place, and nothing else.
		if expensive := slices.ContainsFunc(r.Meters, func(i int) bool { return c.Meters[i].Name == "expensive" || c.Meters[i].Name == "either" }); expensive != (r.Gate == 1) {
			t.Errorf("rule %q: meters %v and gate %d", r.Name, r.Meters, r.Gate)
		}
		if (r.Name == "generic/git-fetch") != (r.Gate == 2) { // packing is the largest work that is done for strangers
			t.Errorf("rule %q: gate %d", r.Name, r.Gate)
		}
		// Exempt never means free: only what must always be reached is not counted.
		if r.Do != MeterAction && r.Do != Suspect && r.Name != "generic/always" {
			t.Errorf("rule %q: %s", r.Name, r.Do)
		}
		classed := slices.ContainsFunc(r.Meters, func(i int) bool {
			return slices.Contains([]string{"assets", "machines", "git-heads", "either", "federation"}, c.Meters[i].Name)
		})
		if classed && r.Proof != Never {
			t.Errorf("rule %q: its clients cannot prove anything, but it may ask for a proof", r.Name)
		}
	}
}

// exemptIsMetered holds every rule of every preset to what exempt means: never challenged, and
// never free.
func exemptIsMetered(t *testing.T, c *Config, r *Rule) {
	t.Helper()
	if r.Do == Suspect {
		return
	}
	if r.Do != MeterAction && r.Name != "generic/always" {
		t.Errorf("rule %q: %s: exempt never means free", r.Name, r.Do)
	}
	for _, i := range r.Meters {
		if m := &c.Meters[i]; m.Stranger == 0 && m.Strangers == 0 && m.Pass == 0 || r.Proof == Never && m.Stranger == 0 {
			t.Errorf("rule %q: meter %q does not limit a stranger", r.Name, m.Name)
		}
	}
	// Not by a word in the User-Agent, which is anybody's.
	if len(r.Match.Agent) > 0 || r.Match.Not != nil && len(r.Match.Not.Agent) > 0 {
		t.Errorf("rule %q: looks at the agent", r.Name)
	}
	for _, word := range r.Match.Crawler {
		if r.Proof == Never && crawler.Find(word) == 0 { // "verified" would be anybody's who gets known later, too
			t.Errorf("rule %q: exempts crawlers that it does not name", r.Name)
		}
	}
	if r.Proof == Never && len(r.Match.Path)+len(r.Match.Crawler) == 0 && r.Name != "generic/preflight" && r.Name != "generic/go-get" {
		t.Errorf("rule %q: exempts any path", r.Name)
	}
}

// Whoever sends 8 KB chooses what the expressions are held against. Go's regexp walks
// them in one pass, or keeps a table of places it has been at, as long as expression and
// text are small; else it simulates all threads at once, at ten times the cost.
func TestPresetExpressionsStayOutOfTheSlowEngine(t *testing.T) {
	for _, name := range Presets() {
		t.Run(name, func(t *testing.T) { checkExpressions(t, name) })
	}
}

func checkExpressions(t *testing.T, preset string) {
	const longest, table = 8 << 10, 256 << 10 // bits: maxBacktrackVector of Go's regexp
	c, err := Parse("test.toml", []byte(fmt.Sprintf("include = [%q]", "preset:"+preset)))
	if err != nil {
		t.Fatal(err)
	}
	var check func(rule string, m *Match)
	check = func(rule string, m *Match) {
		for _, p := range slices.Concat(m.Path, m.Query) {
			flags, expr := "(?s)", strings.TrimPrefix(p, "~")
			if expr == p {
				continue
			}
			if rest, ok := strings.CutPrefix(expr, "*"); ok {
				flags, expr = "(?is)", rest
			}
			tree, err := syntax.Parse(flags+expr, syntax.Perl)
			if err != nil {
				t.Fatal(err)
			}
			prog, err := syntax.Compile(tree.Simplify())
			if err != nil {
				t.Fatal(err)
			}
			onePass := reflect.ValueOf(regexp.MustCompile(flags + expr)).Elem().FieldByName("onepass")
			if !onePass.IsValid() {
				t.Fatal("Go's regexp has changed: find another way to see which engine it takes")
			}
			if onePass.IsNil() && len(prog.Inst)*(longest+1) > table && !literalOnly(tree) {
				t.Errorf("rule %q: %q: %d instructions, neither in one pass nor few", rule, p, len(prog.Inst))
			}
		}
		if m.Not != nil {
			check(rule, m.Not)
		}
	}
	for i := range c.Rules {
		check(c.Rules[i].Name, &c.Rules[i].Match)
	}
}

// literalOnly tells whether an expression is a choice of a few texts without an "s" or
// "k" in which case does not count: then strings are compared and no engine runs.
func literalOnly(re *syntax.Regexp) bool {
	switch re.Op {
	case syntax.OpLiteral:
		return re.Flags&syntax.FoldCase == 0 || !strings.ContainsAny(strings.ToLower(string(re.Rune)), "sk")
	case syntax.OpCharClass:
		return len(re.Rune) <= 8
	case syntax.OpEmptyMatch, syntax.OpEndText, syntax.OpCapture, syntax.OpQuest, syntax.OpConcat, syntax.OpAlternate:
		return !slices.ContainsFunc(re.Sub, func(sub *syntax.Regexp) bool { return !literalOnly(sub) })
	}
	return false
}

// judge is what the rules say to a stranger that has used nothing, and the rule that
// says so. It is written after the contract and not after the decision's code, so that
// each checks the other.
func judge(t *testing.T, c *Config, e *Expect) (verdict, rule string) {
	t.Helper()
	var r path.Readings
	if err := r.Parse(e.Target); err != nil {
		t.Fatalf("%s: %v", e.Pos, err)
	}
	strictest, points := -1.0, 0
	for _, p := range append([]string{r.Path}, r.Alt...) {
		v, name, rank := "allow", "", 0.0
		for i := range c.Rules {
			ru := &c.Rules[i]
			if ru.Mode == Observe || !matches(&ru.Match, e, p, r.Query) {
				continue
			}
			if ru.Do == Suspect {
				points = max(points, ru.Suspect)
				continue
			}
			v, name, rank = ru.Do.String(), ru.Name, strict(c, ru)
			for _, m := range ru.Meters {
				v += " " + c.Meters[m].Name
			}
			break
		}
		if rank > strictest {
			verdict, rule, strictest = v, name, rank
		}
	}
	for i := range c.Rules { // ten points are a level
		if ru := &c.Rules[i]; ru.Name == rule && ru.Do == MeterAction && ru.Proof != Never && points >= 10 {
			verdict = fmt.Sprintf("challenge %d", min(points/10, 3))
		}
	}
	return verdict, rule
}

// strict ranks rules: of two readings the stricter rule counts.
func strict(c *Config, r *Rule) float64 {
	switch r.Do {
	case Allow:
		return 0
	case MeterAction:
		hour := math.Inf(1)
		for _, i := range r.Meters {
			if m := &c.Meters[i]; m.Stranger > 0 {
				hour = min(hour, float64(m.Stranger)/m.Window.Hours())
			}
		}
		if r.Proof == Never {
			return 1 + 1/hour
		}
		return 3 + 1/hour
	}
	return 5
}

// claims is what is known of who asks: with nothing said, the agent alone.
func claims(e *Expect) crawler.Claim {
	if e.Crawler.State == crawler.None && crawler.Claimed(e.Agent) != 0 {
		return crawler.Claim{State: crawler.Unknown}
	}
	return e.Crawler
}

func matches(m *Match, e *Expect, p, query string) bool {
	ok := true
	each(m, e, p, query, func(holds bool) { ok = ok && holds })
	if m.Not != nil {
		each(m.Not, e, p, query, func(holds bool) { ok = ok && !holds })
	}
	return ok
}

// each tells of each matcher that is given whether it holds.
func each(m *Match, e *Expect, p, query string, tell func(bool)) {
	if len(m.Method) > 0 {
		tell(slices.Contains(m.Method, e.Method))
	}
	if len(m.Path) > 0 {
		tell(slices.ContainsFunc(m.Path, func(s string) bool { c, _ := pattern.CompilePath(s); return c.Match(p) }))
	}
	if len(m.Query) > 0 {
		tell(slices.ContainsFunc(m.Query, func(s string) bool { c, _ := pattern.CompileQueries([]string{s}); return c.Match(query) }))
	}
	if len(m.Host) > 0 {
		tell(slices.ContainsFunc(m.Host, func(s string) bool { c, _ := pattern.CompileHost(s); return c.Match(e.Header["Host"]) }))
	}
	text := func(patterns []string, value string) {
		tell(slices.ContainsFunc(patterns, func(s string) bool { c, _ := pattern.CompileText(s); return c.Match(value) }))
	}
	if len(m.Agent) > 0 {
		text(m.Agent, e.Agent)
	}
	for _, h := range m.Header {
		text(h.Patterns, e.Header[h.Name])
	}
	if len(m.Crawler) > 0 {
		tell(slices.Contains(m.Crawler, claims(e).String()))
	}
	if len(m.Network) > 0 {
		a, _ := netip.ParseAddr(e.Addr)
		tell(slices.ContainsFunc(m.Network, func(n netip.Prefix) bool { return n.Contains(a) }))
	}
}

// A meter or gate that several presets have is the same in each: where two are included the
// first one's counts.
func TestPresetsAgreeOnNames(t *testing.T) {
	meters, gates := map[string]Meter{}, map[string]Gate{}
	for _, name := range Presets() {
		c, err := Parse("test.toml", []byte(fmt.Sprintf("include = [%q]", "preset:"+name)))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range c.Meters {
			m.Pos = Pos{}
			if first, ok := meters[m.Name]; ok && !reflect.DeepEqual(m, first) {
				t.Errorf("preset:%s: meter %+v, elsewhere %+v", name, m, first)
			}
			meters[m.Name] = m
		}
		for _, g := range c.Gates {
			g.Pos = Pos{}
			if first, ok := gates[g.Name]; ok && g != first {
				t.Errorf("preset:%s: gate %+v, elsewhere %+v", name, g, first)
			}
			gates[g.Name] = g
		}
	}
}

// Presets that are included come after everything else, once, and in the end preset:generic,
// whose last rule takes every request.
func TestPresetsIncludePresets(t *testing.T) {
	dir(t, map[string]string{"mine.toml": "include = ['preset:forge']\n" + ruleA, "other.toml": strings.Replace(ruleA, "\"a\"", "\"b\"", 1)})
	good := func(include, want string, expects int) *Config {
		t.Helper()
		c, err := Parse("stile.toml", []byte("include = "+include))
		if err != nil {
			t.Errorf("%s: %v", include, err)
			return &Config{}
		}
		if got := strings.Join(c.Files[1:], " "); got != want {
			t.Errorf("%s: read %s, want %s", include, got, want)
		}
		if last := c.Rules[len(c.Rules)-1].Name; last != "generic/pages" {
			t.Errorf("%s: the last rule is %q", include, last)
		}
		files := map[string]bool{}
		for _, e := range c.Expects {
			files[e.Pos.File] = true
		}
		if len(files) != expects {
			t.Errorf("%s: expects of %v, want of %d files", include, files, expects)
		}
		return c
	}
	good("['preset:forge']", "preset:forge preset:generic", 1)
	good("['preset:forge', 'preset:wiki']", "preset:forge preset:wiki preset:generic", 0)
	good("['preset:forge', 'preset:generic']", "preset:forge preset:generic", 0)
	good("['mine.toml', 'other.toml']", "mine.toml other.toml preset:forge preset:generic", 1)
	bad := func(text, want string) {
		t.Helper()
		if _, err := Parse("stile.toml", []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
	bad("include = ['preset:generic', 'preset:forge']", `stile.toml:1: include: 'preset:forge': "preset:generic" before it takes every request: leave that out, each preset brings it along`)
	bad("include = ['preset:gitla']", `there is no such preset; there are "cgit", "forge", "generic", "gitlab", "gitweb", "packages" or "wiki": did you mean "gitlab"?`)
}

// A [[rule]] with a name and a mode and nothing else takes a preset's rule into observe mode, where it stands.
func TestModeOfPresetsRules(t *testing.T) {
	const observe = "include = ['preset:forge']\n[[rule]]\nname = 'forge/archive'\nmode = 'observe'\n"
	plain, err := Parse("stile.toml", []byte("include = ['preset:forge']\n"))
	if err != nil {
		t.Fatal(err)
	}
	c, err := Parse("stile.toml", []byte(observe))
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Rules) != len(plain.Rules) {
		t.Fatalf("%d rules, want %d", len(c.Rules), len(plain.Rules))
	}
	for i, r := range c.Rules {
		want := plain.Rules[i]
		if r.Name == "forge/archive" {
			want.Mode, want.Pos = Observe, Pos{"stile.toml", 2}
		}
		if !reflect.DeepEqual(r, want) {
			t.Errorf("rule %+v, want %+v", r, want)
		}
	}
	got, rule := judge(t, c, &Expect{Method: "GET", Target: "/o/r/archive/v1.zip"})
	if rule == "forge/archive" || got != "meter pages pages-hour" {
		t.Errorf("what the rule would have taken: %q by %q", got, rule)
	}
	bad := func(text, want string) {
		t.Helper()
		if _, err := Parse("stile.toml", []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
	bad(strings.Replace(observe, "archive", "archiv", 1), `stile.toml:2: rule "forge/archiv": it does not say what to do: write do = "meter" and meter = "…", or do = "allow", "challenge", "deny" or "trap"; a name and a mode alone are for a preset's rule: did you mean "forge/archive"?`)
	bad(observe+observe[strings.Index(observe, "[["):], `stile.toml:6: rule "forge/archive": name = 'forge/archive': another rule sets the mode of this one (line 2): keep one`)
	bad(strings.Replace(observe, "'observe'", "'obsrve'", 1), `want "enforce" or "observe"`)
	bad("include = []\n[[rule]]\nname = 'mine'\nmode = 'observe'\n", "it does not say what to do")
}
