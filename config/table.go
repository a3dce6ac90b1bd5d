package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// table is one TOML table while it is read: its getters report what is wrong with a
// key and go on, so that one reading finds every mistake.
type table struct {
	in    *reading
	file  string
	where string // how mistakes call it
	kind  string // its name in known
	keys  map[string]any
	node  *node
	inner *table // the not of a rule
}

// item is one text of a list, and where it stands.
type item struct {
	text string
	node *node
}

// report adds a mistake at a place of this table's file.
func (t *table) report(at *node, what, want string) {
	t.in.report(Pos{t.file, at.line}, t.where, what, want)
}

// wrong reports a key with the value it has: `key = value: want …`.
func (t *table) wrong(key, want string, args ...any) {
	n := t.node.at(key)
	t.report(n, assignment(key, n), fmt.Sprintf(want, args...))
}

// wrongItem reports one entry of a key's list.
func (t *table) wrongItem(key string, it item, want string, args ...any) {
	what := assignment(key, it.node)
	if t.node.at(key) != it.node {
		what = key + ": " + brief(it.node.text)
	}
	t.report(it.node, what, fmt.Sprintf(want, args...))
}

func assignment(key string, n *node) string {
	if n.text == "" {
		return key
	}
	return brief(key + " = " + n.text)
}

// call sets how mistakes name this table from now on.
func (t *table) call(kind, name string) {
	if name != "" {
		t.where = fmt.Sprintf("%s %q", kind, brief(name))
	}
}

func (t *table) has(key string) bool {
	_, ok := t.keys[key]
	return ok
}

// text is the value of a key that is one text. ok is false when there is none.
func (t *table) text(key string) (s string, ok bool) {
	v, given := t.keys[key]
	if !given {
		return "", false
	}
	s, ok = v.(string)
	if !ok {
		t.wrong(key, `want text in quotes, such as %s = %q`, key, exampleOf(key))
		return "", false
	}
	if strings.ContainsFunc(s, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) {
		t.wrong(key, "want one line, without control characters")
		return "", false
	}
	return s, true
}

// texts is the value of a key that is one text or a list of them.
func (t *table) texts(key string) []item {
	n := t.node.at(key)
	switch v := t.keys[key].(type) {
	case nil:
		return nil
	case string:
		return []item{{v, n}}
	case []any:
		if len(v) == 0 {
			t.wrong(key, "the list is empty: name something, or leave %s out", key)
		}
		if len(v) > maxItems {
			t.wrong(key, "want at most %d entries", maxItems)
			return nil
		}
		var items []item
		for i, e := range v {
			s, ok := e.(string)
			if !ok {
				t.wrongItem(key, item{node: n.item(i)}, "want text in quotes")
				continue
			}
			items = append(items, item{s, n.item(i)})
		}
		return items
	}
	t.wrong(key, `want text in quotes or a list of it, such as %s = [%q]`, key, exampleOf(key))
	return nil
}

// number is a whole number from low to high. more says more about a wrong one.
func (t *table) number(key string, low, high int64, more string) (n int64, ok bool) {
	v, given := t.keys[key]
	if !given {
		return 0, false
	}
	n, ok = v.(int64)
	switch {
	case !ok:
		if s, isText := v.(string); isText && isDigits(s) {
			t.wrong(key, "want the number without quotes: %s = %s", key, s)
		} else {
			t.wrong(key, "want a whole number from %d to %d", low, high)
		}
	case n < low || n > high:
		t.wrong(key, "want %d to %d%s", low, high, more)
		ok = false
	}
	return n, ok
}

// duration is a time with its unit from low to high.
func (t *table) duration(key string, low, high time.Duration) (d time.Duration, ok bool) {
	v, given := t.keys[key]
	if !given {
		return 0, false
	}
	s, isText := v.(string)
	if !isText {
		s = fmt.Sprint(v)
	}
	d, err := parseDuration(s)
	switch seconds, bareErr := parseDuration(s + "s"); {
	case isDigits(s) && bareErr == nil && seconds >= low && seconds <= high:
		if len(s) > 3 {
			t.wrong(key, "want a duration such as %q", short(seconds))
		} else {
			t.wrong(key, "want a duration such as %q", s+"s")
		}
	case err != nil || !isText:
		t.wrong(key, "want a number and a unit (ms, s, m, h, d), %q to %q", short(low), short(high))
	case d < low || d > high:
		t.wrong(key, "want %q to %q", short(low), short(high))
	default:
		return d, true
	}
	return 0, false
}

// choose is a key whose value is one of a few words.
func choose[T comparable](t *table, key string, choices []choice[T]) (v T, ok bool) {
	s, given := t.text(key)
	if !given {
		return v, false
	}
	var words []string
	for _, c := range choices {
		if c.word == s {
			return c.value, true
		}
		words = append(words, c.word)
	}
	want := "want " + either(words)
	if hint := didYouMean(s, words); hint != "" {
		want += ": " + hint
	} else if w, ok := otherWords[s]; ok && slices.Contains(words, w) {
		want += fmt.Sprintf(": did you mean %q?", w)
	}
	t.wrong(key, "%s", want)
	return v, false
}

// table is a [key] table.
func (t *table) table(key, kind, where string) (*table, bool) {
	v, given := t.keys[key]
	if !given {
		return nil, false
	}
	n := t.node.at(key)
	m, ok := v.(map[string]any)
	if !ok {
		_, array := v.([]map[string]any)
		switch {
		case key == "header":
			t.wrong(key, `want header = { Accept = "text/html" }`)
		case key == "urls":
			t.wrong(key, `want urls = { google = "https://www.example.org/google.json" }`)
		case key == "not":
			t.wrong(key, `want not = { path = "/public/**" }, with any of the matchers`)
		case array:
			t.report(n, "[["+key+"]]", fmt.Sprintf("there is one of it: write [%s]", key))
		default:
			t.wrong(key, "want a table: [%s], and its keys in the lines below", key)
		}
		return nil, false
	}
	return &table{t.in, t.file, where, kind, m, n, nil}, true
}

// tables is a [[key]] array of tables.
func (t *table) tables(key string) (ts []*table) {
	n := t.node.at(key)
	add := func(i int, m map[string]any) {
		ts = append(ts, &table{t.in, t.file, "[[" + key + "]]", key, m, n.item(i), nil})
	}
	switch v := t.keys[key].(type) {
	case nil:
	case []map[string]any:
		for i, m := range v {
			add(i, m)
		}
	case map[string]any:
		t.report(n, fmt.Sprintf("[%s]", key), fmt.Sprintf("there may be many: write [[%s]], with double brackets", key))
		add(0, v) // and read it, for its other mistakes
		ts[0].node = n
	case []any:
		for i, e := range v {
			if m, ok := e.(map[string]any); ok {
				add(i, m)
			} else {
				t.report(n.item(i), key+": "+brief(n.item(i).text), fmt.Sprintf("want tables: [[%s]]", key))
			}
		}
	default:
		t.wrong(key, "want tables: [[%s]]", key)
	}
	if len(ts) > maxTables {
		t.report(n, fmt.Sprintf("%d [[%s]]", len(ts), key), fmt.Sprintf("want at most %d", maxTables))
		return ts[:maxTables]
	}
	return ts
}

// finish reports the keys that this kind of table does not have.
func (t *table) finish() {
	for _, key := range slices.Sorted(maps.Keys(t.keys)) {
		if slices.Contains(known[t.kind], key) {
			continue
		}
		n := t.node.at(key)
		what, no := assignment(key, n), "there is no such key"
		if n.text == "" {
			what, no = "["+key+"]", "there is no such table"
		}
		if why, ok := refused[t.kind][key]; ok {
			if key == "secret" {
				what = key // and not its value: this is printed and logged
			}
			t.report(n, what, why)
			continue
		}
		t.report(n, what, no+t.otherKey(key))
	}
}

// otherKey says what may have been meant by a key that does not exist here.
func (t *table) otherKey(key string) string {
	here := known[t.kind]
	if len(t.in.mistakes) > 200 {
		return "" // this is no configuration of ours; do not take minutes to say so
	}
	others := maps.Clone(otherWords)
	maps.Copy(others, otherWordsOf[t.kind])
	word, ok := others[strings.ToLower(key)]
	switch hint := didYouMean(key, here); {
	case hint != "":
		return ": " + hint
	case ok && slices.Contains(here, word):
		return fmt.Sprintf(": did you mean %q?", word)
	case homes(key) != "":
		return ": it belongs " + homes(key)
	case ok && homes(word) != "":
		return fmt.Sprintf(": did you mean %q %s?", word, homes(word))
	}
	if why := refused[t.kind][nearest(key, slices.Sorted(maps.Keys(refused[t.kind])))]; why != "" {
		return ": " + why
	}
	for _, kind := range kinds {
		if near := nearest(key, known[kind]); near != "" {
			return fmt.Sprintf(": did you mean %q %s?", near, homes(near))
		}
	}
	switch word := others[nearest(key, slices.Sorted(maps.Keys(others)))]; {
	case slices.Contains(here, word):
		return fmt.Sprintf(": did you mean %q?", word)
	case homes(word) != "":
		return fmt.Sprintf(": did you mean %q %s?", word, homes(word))
	}
	return "; there are " + strings.Join(here, ", ")
}

// homes says which tables have a key; "" if none has.
func homes(key string) string {
	if key == "meter" || key == "gate" { // of a table they are tables of the file
		return "in [[rule]]"
	}
	if slices.Contains(known[""], key) {
		return "at the top of the file, before the first [table]"
	}
	var in []string
	for _, kind := range kinds {
		if kind != "not" && slices.Contains(known[kind], key) {
			in = append(in, bracketed(kind))
		}
	}
	if in == nil {
		return ""
	}
	return "in " + strings.Join(in, " or ")
}

func bracketed(kind string) string {
	switch kind {
	case "bot", "meter", "gate", "rule", "expect":
		return "[[" + kind + "]]"
	}
	return "[" + kind + "]"
}

func isDigits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}
