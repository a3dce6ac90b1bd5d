package config

import (
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

//go:embed presets/*.toml
var presets embed.FS

//go:embed example.toml
var example string

// Example is a commented file that shows every key with its default. Decoded, it is
// the default configuration.
func Example() string { return example }

// Presets are the names of the rule files that stile brings, sorted.
func Presets() (names []string) {
	files, err := fs.Glob(presets, "presets/*.toml")
	if err != nil {
		panic("BUG: " + err.Error())
	}
	for _, f := range files {
		names = append(names, strings.TrimSuffix(strings.TrimPrefix(f, "presets/"), ".toml"))
	}
	return names
}

// Preset is the text of a preset: an ordinary rule file.
func Preset(name string) (text string, ok bool) {
	if !slices.Contains(Presets(), name) {
		return "", false
	}
	b, err := presets.ReadFile("presets/" + name + ".toml")
	return string(b), err == nil
}

// Load reads a configuration from a file and what it includes. "" is the default
// configuration, the same as an empty file.
func Load(file string) (*Config, error) {
	if file == "" {
		return parse("", "")
	}
	text, why := readFile(file)
	if why != "" {
		return nil, errors.New(file + ": " + why)
	}
	return parse(file, text)
}

// Parse reads a configuration from a text. name stands in mistakes, and files that
// the text includes are found relative to it.
func Parse(name string, text []byte) (*Config, error) {
	return parse(name, string(text))
}

// readFile reads one file whole, or says why it cannot, and the way out.
func readFile(file string) (text, why string) {
	f, err := os.Open(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		first := ""
		if dir := filepath.Dir(file); !exists(dir) {
			first = "mkdir -p " + dir + " && "
		}
		return "", fmt.Sprintf("no such file: make one with `%stouch %s` (an empty file means the defaults), or leave -c out", first, file)
	case errors.Is(err, fs.ErrPermission):
		return "", fmt.Sprintf("permission denied: let the user that runs stile read it, for instance with `chmod a+r %s`", file)
	case err != nil:
		return "", fmt.Sprintf("cannot be opened: %v", err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxBytes+1))
	switch {
	case err != nil:
		if s, statErr := f.Stat(); statErr == nil && s.IsDir() {
			return "", "is a directory: name a file in it"
		}
		return "", fmt.Sprintf("cannot be read: %v", err)
	case len(b) > maxBytes:
		return "", fmt.Sprintf("is larger than %d bytes: is it a configuration? if so, cut it in two and include one in the other", maxBytes)
	}
	return string(b), ""
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

// reading is one configuration while it is read.
type reading struct {
	config   *Config
	main     string
	mistakes []*Mistake
	reported map[Mistake]bool // without Want
	seen     []string         // files begun, by the name that mistakes use
	open     []string         // files that are including one another now
	direct   []string         // presets that the operator's files ask for, or that stand for none
	later    []string         // presets that files other than the main one ask for
	meters   []meterDef
	byName   map[string]int // of meters, once all are read
	gates    []gateDef
	rules    []ruleDef
	modes    []modeDef
	expects  []*table // of config.Expects
}

func parse(file, text string) (*Config, error) {
	in := &reading{config: defaults(), main: file, reported: map[Mistake]bool{}}
	in.read(file, text)
	for len(in.later) > 0 {
		name := in.later[0]
		if in.later = in.later[1:]; slices.Contains(in.seen, "preset:"+name) {
			continue
		}
		text, _ := Preset(name)
		in.read("preset:"+name, text)
	}
	in.resolve()
	if len(in.mistakes) > 0 {
		return nil, join(in.mistakes, in.seen)
	}
	if file == "" {
		in.seen = in.seen[1:]
	}
	in.config.Files = in.seen
	in.config.Expects = slices.DeleteFunc(in.config.Expects, func(e Expect) bool {
		preset, ok := strings.CutPrefix(e.Pos.File, "preset:")
		return ok && (len(in.direct) != 1 || preset != in.direct[0])
	})
	return in.config, nil
}

// read reads one file and then, depth first, what it includes.
func (in *reading) read(file, text string) {
	in.seen = append(in.seen, file)
	in.open = append(in.open, file)
	defer func() { in.open = in.open[:len(in.open)-1] }()

	keys, node, wrong := decode(file, text)
	if wrong != nil {
		in.mistakes = append(in.mistakes, wrong)
		return
	}
	top := &table{in: in, file: file, keys: keys, node: node}
	if file == in.main {
		in.readDaemon(top)
	} else {
		for _, key := range slices.Sorted(maps.Keys(keys)) {
			if slices.Contains(known[""], key) && !slices.Contains(included, key) {
				delete(keys, key)
				where := in.main
				if where == "" {
					where = "the main file"
				}
				what := assignment(key, node.at(key))
				if what == key {
					what = "[" + key + "]"
				}
				top.report(node.at(key), what, fmt.Sprintf("it belongs in %s; an included file has meters, gates, rules and expects only", where))
			}
		}
	}
	for _, t := range top.tables("meter") {
		in.readMeter(t)
	}
	for _, t := range top.tables("gate") {
		in.readGate(t)
	}
	for _, t := range top.tables("rule") {
		in.readRule(t)
	}
	for _, t := range top.tables("expect") {
		in.readExpect(t)
	}
	top.finish()
	in.include(top)
}

// include reads what the key include names. The main file has a default for it. A preset
// that another file asks for comes after everything else: preset:generic ends in a rule for
// all requests, behind which nothing would ever match.
func (in *reading) include(top *table) {
	items := []item{{"preset:generic", top.node}}
	if list, empty := top.keys["include"].([]any); empty && len(list) == 0 {
		return
	}
	if top.has("include") {
		items = top.texts("include")
	} else if top.file != in.main {
		return
	}
	for i, it := range items {
		if slices.ContainsFunc(items[:i], func(before item) bool { return before.text == it.text }) {
			top.wrongItem("include", it, "named twice: keep one")
			continue
		}
		file, text, why := in.find(top.file, it.text)
		preset, isPreset := strings.CutPrefix(file, "preset:")
		if isPreset && !strings.HasPrefix(top.file, "preset:") && !slices.Contains(in.direct, preset) {
			in.direct = append(in.direct, preset)
		}
		switch {
		case why != "":
			top.wrongItem("include", it, "%s", why)
		case isPreset && top.file != in.main:
			in.later = append(in.later, preset)
		case isPreset && slices.ContainsFunc(items[:i], func(before item) bool { return before.text == "preset:generic" }):
			top.wrongItem("include", it, `"preset:generic" before it takes every request: leave that out, each preset brings it along`)
		case slices.Contains(in.open, file):
			top.wrongItem("include", it, "it includes itself: %s; take one of these out", strings.Join(append(in.open, file), " includes "))
		case slices.Contains(in.seen, file): // by another file: once is enough
		case len(in.seen) >= maxFiles:
			top.wrongItem("include", it, "want at most %d files", maxFiles)
		default:
			in.read(file, text)
		}
	}
}

// find is the text of an include, and the name that mistakes use for it.
func (in *reading) find(from, name string) (file, text, why string) {
	if preset, ok := strings.CutPrefix(name, "preset:"); ok {
		text, ok := Preset(preset)
		if !ok {
			want := "there is no such preset; there are " + either(Presets())
			if len(Presets()) == 1 {
				want = fmt.Sprintf("this version of stile has one preset: want %q", "preset:"+Presets()[0])
			}
			if hint := didYouMean(preset, Presets()); hint != "" {
				want += ": " + hint
			}
			return "", "", want
		}
		return name, text, ""
	}
	switch {
	case name == "":
		return "", "", `want a file, or "preset:generic"; nothing at all is include = []`
	case strings.HasPrefix(from, "preset:"):
		return "", "", "a preset includes presets only"
	case slices.Contains(Presets(), name):
		return "", "", fmt.Sprintf("want %q, or a file such as %q", "preset:"+name, "./"+name)
	case strings.ContainsAny(name, "*?["):
		return "", "", "want each file by its name: wildcards do not work here"
	case strings.ContainsRune(name, 0):
		return "", "", "want a file's name"
	}
	file = name
	if !filepath.IsAbs(name) {
		file = filepath.Join(filepath.Dir(from), name)
	}
	if file == filepath.Clean(in.main) && in.main != "" {
		file = in.main
	}
	switch s, err := os.Stat(file); {
	case errors.Is(err, fs.ErrNotExist):
		return "", "", fmt.Sprintf("there is no file %s: make it, or correct the name (it is relative to the file that includes it)", file)
	case err == nil && s.IsDir():
		return "", "", file + " is a directory: name a file in it"
	case err == nil && !s.Mode().IsRegular():
		return "", "", file + " is not an ordinary file"
	}
	text, why = readFile(file)
	if why != "" {
		return "", "", file + ": " + why
	}
	return file, text, ""
}
