package config

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// ruleDef is a [[rule]] as read; its meters and its gate are known by name until all are
// read.
type ruleDef struct {
	Rule
	table  *table
	meters []item
	gate   *item // nil: none
	broken bool  // it has mistakes: nothing is known about what it was meant to match
}

// A rule's name travels in the verdict's header and is a label of metrics.
var ruleName = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9 _./:+-]{0,62}[A-Za-z0-9_+-])?$`)

// maxRuleMeters is how many meters one rule may charge.
const maxRuleMeters = 8

// modeDef is a [[rule]] that has a name and a mode and nothing else: it changes the mode
// of a preset's rule, which stays in its place.
type modeDef struct {
	table *table
	name  string
	mode  Mode
}

func (in *reading) readRule(t *table) {
	before := len(in.mistakes)
	if len(t.keys) == 2 && t.has("name") && t.has("mode") && !strings.HasPrefix(t.file, "preset:") {
		name, named := t.text("name")
		t.call("rule", name)
		if mode, ok := choose(t, "mode", modes); ok && named {
			in.modes = append(in.modes, modeDef{t, name, mode})
		}
		t.finish()
		return
	}
	r := Rule{Level: 1, Pos: Pos{t.file, t.node.line}}
	if name, ok := t.text("name"); ok {
		r.Name = name
		t.call("rule", name)
		if !ruleName.MatchString(name) {
			t.wrong("name", "want 1 to 64 letters, digits, blanks or _./:+-, such as %q", "search pages")
		}
	} else if !t.has("name") {
		t.report(t.node, "it has no name", `give it one, such as name = "search pages": verdicts, logs and metrics show it`)
	}
	t.action(&r)
	r.Match = t.match()
	if r.Do == Allow && len(in.mistakes) == before {
		t.patterns("path", checkExempt)
	}
	if m, ok := choose(t, "mode", modes); ok {
		r.Mode = m
	}
	if p, ok := choose(t, "proof", proofs); ok {
		r.Proof = p
	}
	if n, ok := t.number("level", 1, 3, ": 1 is any pass, 3 the dearest"); ok {
		r.Level = uint8(n)
	}
	meters := t.texts("meter")
	var gate *item
	if _, list := t.keys["gate"].([]any); list {
		t.wrong("gate", "a rule has one gate: want its name, such as gate = %q", exampleOf("gate"))
	} else if s, ok := t.text("gate"); ok {
		gate = &item{s, t.node.at("gate")}
	}
	t.combination(&r, meters)
	t.finish()
	in.rules = append(in.rules, ruleDef{r, t, meters, gate, len(in.mistakes) > before})
}

// action reads do, or suspect in its place.
func (t *table) action(r *Rule) {
	points, ok := t.number("suspect", 1, 100, " points")
	if ok {
		r.Do, r.Suspect = Suspect, int(points)
	}
	do, _ := t.keys["do"].(string)
	switch {
	case t.has("suspect") && t.has("do"):
		t.wrong("suspect", "a rule either adds points or does something: keep suspect or do")
	case t.has("suspect"):
	case do == "suspect":
		t.wrong("do", "write suspect = 5 in its place, with the points to add")
	case t.has("do"):
		if a, ok := choose(t, "do", actions); ok {
			r.Do = a
		}
	case t.has("meter"):
		t.report(t.node, "it does not say what to do", `write do = "meter"`)
	default:
		t.report(t.node, "it does not say what to do", `write do = "meter" and meter = "…", or do = "allow", "challenge", "deny" or "trap", or suspect = 5`)
	}
}

// combination finds keys that cannot be meant together.
func (t *table) combination(r *Rule, meters []item) {
	switch r.Do {
	case MeterAction:
		if !t.has("meter") {
			t.report(t.node.at("do"), `do = "meter"`, `say which: meter = "NAME" of a [[meter]]`)
		}
		if r.Proof == Never && r.Level > 1 {
			t.wrong("level", `with proof = "never" nobody is asked for a pass: keep one of the two`)
		}
	case Challenge:
		if r.Proof == Never {
			t.wrong("proof", `do = "challenge" asks for a proof: take proof out, or write do = "meter"`)
		}
	case 0: // already reported
	default:
		for _, key := range []string{"meter", "level", "proof"} {
			if !t.has(key) {
				continue
			}
			did := fmt.Sprintf("do = %q", r.Do)
			if r.Do == Suspect {
				did = "suspect"
			}
			want := fmt.Sprintf("it has no effect with %s: take it out", did)
			if key == "meter" && r.Do != Suspect {
				want = fmt.Sprintf(`with %s nothing is counted: take meter out, or write do = "meter"`, did)
			} else if key == "meter" {
				want = `a suspect rule counts nothing: take meter out, and give it to a rule below with do = "meter"`
			}
			t.wrong(key, "%s", want)
		}
	}
	switch {
	case !t.has("gate"):
	case r.Do == Suspect:
		t.wrong("gate", `a suspect rule holds nobody: take gate out, and give it to a rule below with do = "meter"`)
	case r.Do == Deny || r.Do == Trap:
		t.wrong("gate", `with do = %q nothing reaches the backend: take gate out`, r.Do)
	case r.Mode == Observe:
		t.wrong("gate", `with mode = "observe" the rule holds nobody, and gate has no effect: take one of the two out`)
	}
	if len(meters) > maxRuleMeters {
		t.wrong("meter", "want at most %d", maxRuleMeters)
	}
}

// resolveRules finds the meters that rules name, and names that are taken.
func (in *reading) resolveRules() {
	taken := map[string]*ruleDef{}
	for i := range in.rules {
		r := &in.rules[i]
		if first, ok := taken[r.Name]; ok {
			if file := r.Pos.File; strings.HasPrefix(file, "preset:") && file != first.Pos.File {
				first.table.wrong("name", "a rule of %s has this name: rename this one, or take %q out of include", file, file)
			} else {
				r.table.wrong("name", "another rule has this name (%s): rename one", first.Pos.from(file))
			}
		} else if r.Name != "" {
			taken[r.Name] = r
		}
		for _, it := range r.meters {
			n, ok := in.byName[it.text]
			switch {
			case !ok || it.text == "":
				r.table.wrongItem("meter", it, "%s", in.noMeter(it.text))
			case slices.Contains(r.Meters, n):
				r.table.wrongItem("meter", it, "named twice: keep one")
			default:
				in.meters[n].used = true
				r.Meters = append(r.Meters, n)
			}
		}
		if r.Do == MeterAction && len(r.Meters) > 0 && len(r.Meters) == len(r.meters) {
			in.unlimited(r)
		}
	}
}

// resolveModes puts rules of presets into the modes that the operator wants. Such a rule
// is no longer the preset's alone: its position is the operator's.
func (in *reading) resolveModes() {
	var names []string
	for i := range in.rules {
		if strings.HasPrefix(in.rules[i].Pos.File, "preset:") {
			names = append(names, in.rules[i].Name)
		}
	}
	changed := map[string]*table{}
	for _, m := range in.modes {
		i := slices.IndexFunc(in.rules, func(r ruleDef) bool { return r.Name == m.name })
		switch first := changed[m.name]; {
		case first != nil:
			m.table.wrong("name", "another rule sets the mode of this one (%s): keep one", Pos{first.file, first.node.line}.from(m.table.file))
		case i >= 0 && slices.Contains(names, m.name):
			changed[m.name] = m.table
			in.rules[i].Mode, in.rules[i].Pos = m.mode, Pos{m.table.file, m.table.node.line}
		default:
			want := `write do = "meter" and meter = "…", or do = "allow", "challenge", "deny" or "trap"; a name and a mode alone are for a preset's rule`
			if hint := didYouMean(m.name, names); hint != "" {
				want += ": " + hint
			}
			m.table.report(m.table.node, "it does not say what to do", want)
		}
	}
}

func (in *reading) noMeter(name string) string { return noSuch("meter", name, in.meterNames()) }

// unlimited reports a rule under which a pass would lift the limit instead of raising
// it, or be the only thing that is limited.
func (in *reading) unlimited(r *ruleDef) {
	var pass, stranger bool
	for _, n := range r.Meters {
		m := &in.meters[n]
		pass = pass || m.Pass > 0
		stranger = stranger || m.Stranger > 0 || m.Strangers > 0
	}
	m := in.meters[r.Meters[0]].table
	switch {
	case !pass:
		m.report(m.node, fmt.Sprintf("rule %q would not limit a visitor with a pass at all", r.Name), "add pass = 600, or as many as a busy person needs")
	case !stranger:
		m.report(m.node, fmt.Sprintf("rule %q would limit visitors with a pass, and strangers not at all", r.Name), "add stranger = 30, or as many as you would give anybody")
	}
}
