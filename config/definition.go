package config

import (
	"fmt"
	"regexp"
	"strings"
)

// definition is what a [[meter]] and a [[gate]] have in common while they are read:
// rules name them, and the operator's replaces a preset's.
type definition struct {
	called string
	table  *table
	used   bool // by a rule
}

// preset tells whether a preset defines it.
func (d *definition) preset() bool { return strings.HasPrefix(d.table.file, "preset:") }

func (d *definition) pos() Pos { return Pos{d.table.file, d.table.node.line} }

var definedName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,39}$`)

// name reads the name of a meter or a gate. use says what it is for.
func (t *table) name(kind, use string) string {
	name, ok := t.text("name")
	if !ok {
		if !t.has("name") {
			t.report(t.node, "it has no name", fmt.Sprintf("give it one, such as name = %q: %s", exampleOf("name"), use))
		}
		return ""
	}
	t.call(kind, name)
	if !definedName.MatchString(name) {
		t.wrong("name", "want 1 to 40 letters, digits, -, _ or ., such as %q", "search-hour")
	}
	return name
}

// replace keeps one of each name: the operator's rather than a preset's, a preset's
// rather than one of a preset that it includes.
func replace[D any](defs []D, of func(*D) *definition) (kept []D, byName map[string]int) {
	byName = map[string]int{}
	for i := range defs {
		d := of(&defs[i])
		same, taken := byName[d.called]
		switch {
		case !taken:
			byName[d.called] = len(kept)
			kept = append(kept, defs[i])
		case d.called == "": // reported
		case d.preset() && d.table.file != of(&kept[same]).table.file:
			// replaced
		case of(&kept[same]).preset() && !d.preset():
			kept[same] = defs[i]
		default:
			d.table.wrong("name", "another %s has this name (%s): rename one", d.table.kind, of(&kept[same]).pos().from(d.table.file))
		}
	}
	return kept, byName
}

// definedNames are the names of all that are defined.
func definedNames[D any](defs []D, of func(*D) *definition) (names []string) {
	for i := range defs {
		if name := of(&defs[i]).called; name != "" {
			names = append(names, name)
		}
	}
	return names
}

// noSuch says what to write in place of a name that nothing has.
func noSuch(kind, name string, names []string) string {
	if hint := didYouMean(name, names); hint != "" {
		return fmt.Sprintf("there is no such %s: %s", kind, hint)
	}
	if len(names) == 0 {
		return fmt.Sprintf("there is no %s at all: write a [[%s]] with name = %q", kind, kind, name)
	}
	return fmt.Sprintf("there is no such %s; there are %s", kind, strings.Join(names, ", "))
}
