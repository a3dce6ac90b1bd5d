package config

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// meterDef is a [[meter]] as read; it is in the configuration unless another of the
// same name replaces it.
type meterDef struct {
	Meter
	definition
}

func (in *reading) readMeter(t *table) {
	m := Meter{Per: Per{Caller: true}, Pos: Pos{t.file, t.node.line}}
	m.Name = t.name("meter", "rules, metrics and verdicts use it")
	if d, ok := t.duration("window", time.Second, 7*24*time.Hour); ok {
		m.Window = d
	} else if !t.has("window") {
		t.report(t.node, "it has no window", `say for how long it counts, such as window = "1m"`)
	}
	limits := []struct {
		key string
		to  *uint32
	}{{"stranger", &m.Stranger}, {"pass", &m.Pass}, {"user", &m.User}, {"strangers", &m.Strangers}}
	limited := false
	for _, l := range limits {
		limited = limited || t.has(l.key)
		more := ""
		if v, ok := t.keys[l.key].(int64); ok && v <= 0 {
			more = fmt.Sprintf(`; for no limit leave %s out, to refuse everybody write a rule with do = "deny"`, l.key)
		}
		if n, ok := t.number(l.key, 1, maxLimit, more); ok {
			*l.to = uint32(n)
		}
	}
	if !limited {
		t.report(t.node, "it has no limit", "give it at least one of stranger, pass, user and strangers, such as stranger = 30")
	}
	t.per("per", &m.Per)
	t.compareLimits(&m)
	t.finish()
	in.meters = append(in.meters, meterDef{m, definition{m.Name, t, false}})
}

// compareLimits finds limits that cannot be meant together.
func (t *table) compareLimits(m *Meter) {
	if m.Strangers > 0 && !m.Per.Caller {
		t.wrong("strangers", "per = %s already counts all strangers in one pool: take strangers out, or write per = \"caller\"", t.node.at("per").text)
	}
	if m.Strangers > 0 && m.Stranger > m.Strangers {
		t.wrong("strangers", "all strangers together would have less than one of them (stranger = %d): want %d or more", m.Stranger, m.Stranger)
	}
	if m.Pass > 0 && m.Pass < m.Stranger {
		t.wrong("pass", "a visitor would lose by proving (stranger = %d): want %d or more", m.Stranger, m.Stranger)
	}
	if m.User > 0 && m.User < m.Stranger {
		t.wrong("user", "a known user would have less than a stranger (stranger = %d): want %d or more", m.Stranger, m.Stranger)
	}
}

var perSegment = regexp.MustCompile(`^\{([1-9][0-9]?)\}$`)

// maxSegment is the deepest segment of a path that a meter can tell apart.
const maxSegment = 16

// per reads "caller", "caller {1}/{2}" or "{1}/{2}".
func (t *table) per(key string, to *Per) {
	s, ok := t.text(key)
	if !ok {
		return
	}
	const want = `want "caller", "caller {1}/{2}" (each caller, for each value of the path's first two segments) or "{1}/{2}" (all callers together, for each)`
	p := Per{}
	rest, caller := strings.CutPrefix(s, "caller")
	p.Caller = caller
	if caller && rest != "" {
		if rest, ok = strings.CutPrefix(rest, " "); !ok {
			t.wrong(key, want)
			return
		}
		rest = strings.TrimSpace(rest)
	}
	for _, part := range strings.Split(rest, "/") {
		if rest == "" && caller {
			break
		}
		g := perSegment.FindStringSubmatch(part)
		if g == nil {
			t.wrong(key, want)
			return
		}
		n, _ := strconv.Atoi(g[1])
		switch {
		case n > maxSegment:
			t.wrong(key, "want segments {1} to {%d}", maxSegment)
			return
		case slices.Contains(p.Segments, n):
			t.wrong(key, "{%d} is named twice: keep one", n)
			return
		}
		p.Segments = append(p.Segments, n)
	}
	*to = p
}

// resolve puts meters, gates and rules together when everything has been read.
func (in *reading) resolve() {
	in.meters, in.byName = replace(in.meters, func(m *meterDef) *definition { return &m.definition })
	in.resolveRules()
	in.resolveGates()
	in.needsGeo()
	in.findShadowed()
	in.resolveModes()
	c := in.config

	// Meters that are used are numbered; an unused one of a preset costs nothing.
	number := make([]int, len(in.meters))
	for i := range in.meters {
		m := &in.meters[i]
		number[i] = len(c.Meters)
		switch {
		case m.used:
			c.Meters = append(c.Meters, m.Meter)
		case !m.preset() && m.Name != "":
			in.unused(m)
		}
	}
	if len(c.Meters) > maxMeters {
		m := c.Meters[maxMeters]
		in.report(m.Pos, fmt.Sprintf("meter %q", m.Name), fmt.Sprintf("it is number %d", maxMeters+1), fmt.Sprintf("want at most %d", maxMeters))
	}
	for i := range in.rules {
		r := &in.rules[i]
		for j, n := range r.Meters {
			r.Meters[j] = number[n]
		}
		c.Rules = append(c.Rules, r.Rule)
	}
	if len(c.Rules) > maxTables {
		r := c.Rules[maxTables]
		in.report(r.Pos, fmt.Sprintf("rule %q", r.Name), fmt.Sprintf("it is number %d", maxTables+1), fmt.Sprintf("want at most %d", maxTables))
	}
	in.resolveExpects()
}

// unused reports a meter of the operator's that limits nothing. Often it was meant to
// replace one of a preset, and its name is mistyped.
func (in *reading) unused(m *meterDef) {
	want := "no rule uses it: name it in a rule, or take it out"
	var others []string
	for i := range in.meters {
		if in.meters[i].used {
			others = append(others, in.meters[i].Name)
		}
	}
	if hint := didYouMean(m.Name, others); hint != "" {
		want += "; " + hint
	}
	m.table.report(m.table.node, "it limits nothing", want)
}

// meterNames are the names of all meters.
func (in *reading) meterNames() []string {
	return definedNames(in.meters, func(m *meterDef) *definition { return &m.definition })
}
