package config

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

// difference says where two configurations are not the same; "" if they are.
func difference(a, b *Config) string {
	va, vb := reflect.ValueOf(*a), reflect.ValueOf(*b)
	for i := range va.NumField() {
		if !reflect.DeepEqual(va.Field(i).Interface(), vb.Field(i).Interface()) {
			return fmt.Sprintf("%s = %+v, want %+v", va.Type().Field(i).Name, va.Field(i), vb.Field(i))
		}
	}
	return ""
}

// dir makes files in a new directory and goes there.
func dir(t *testing.T, files map[string]string) string {
	t.Helper()
	d := t.TempDir()
	for name, text := range files {
		file := filepath.Join(d, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(d)
	return d
}

const (
	ruleA = "[[rule]]\nname = \"a\"\npath = \"/a\"\ndo = \"deny\"\n"
	ruleB = "[[rule]]\nname = \"b\"\npath = \"/b\"\ndo = \"deny\"\n"
	ruleC = "[[rule]]\nname = \"c\"\npath = \"/c\"\ndo = \"deny\"\n"
)

func names(c *Config) string {
	var s []string
	for _, r := range c.Rules {
		if !strings.HasPrefix(r.Name, "generic/") {
			s = append(s, r.Name)
		} else if s[len(s)-1] != "generic" {
			s = append(s, "generic")
		}
	}
	return strings.Join(s, " ")
}

func TestIncludes(t *testing.T) {
	d := dir(t, map[string]string{
		"stile.toml":       "include = ['rules/b.toml', 'preset:generic', 'rules/c.toml']\n" + ruleA,
		"rules/b.toml":     "include = ['c.toml']\n" + ruleB,
		"rules/c.toml":     ruleC,
		"plain.toml":       ruleA,
		"none.toml":        "include = []\n" + ruleA,
		"absolute.toml":    "include = '" + "DIR/rules/c.toml'\n" + ruleA,
		"empty/stile.toml": "",
	})
	absolute, _ := os.ReadFile("absolute.toml")
	os.WriteFile("absolute.toml", []byte(strings.ReplaceAll(string(absolute), "DIR", d)), 0o644)
	good := func(file, rules, files string) {
		t.Helper()
		c, err := Load(file)
		if err != nil {
			t.Errorf("%s: %v", file, err)
			return
		}
		if got := names(c); got != rules {
			t.Errorf("%s: rules %q, want %q", file, got, rules)
		}
		if got := strings.Join(c.Files, " "); got != files {
			t.Errorf("%s: files %q, want %q", file, got, files)
		}
	}
	// A file that two include is read once, at its first place.
	good("stile.toml", "a b c generic", "stile.toml rules/b.toml rules/c.toml preset:generic")
	good(d+"/stile.toml", "a b c generic", fmt.Sprintf("%s/stile.toml %[1]s/rules/b.toml %[1]s/rules/c.toml preset:generic", d))
	good("plain.toml", "a generic", "plain.toml preset:generic")
	good("none.toml", "a", "none.toml")
	good("absolute.toml", "a c", "absolute.toml "+d+"/rules/c.toml")

	// No file and an empty file are the same.
	empty, err := Load("empty/stile.toml")
	if err != nil {
		t.Fatal(err)
	}
	defaults, err := Load("")
	if err != nil {
		t.Fatal(err)
	}
	empty.Files = empty.Files[1:]
	if diff := difference(empty, defaults); diff != "" {
		t.Error(diff)
	}
}

func TestMeterReplacesPresets(t *testing.T) {
	const mine = "[[meter]]\nname = \"pages\"\nwindow = \"10s\"\nstranger = 7\npass = 70\n"
	find := func(c *Config, name string) *Meter {
		for i := range c.Meters {
			if c.Meters[i].Name == name {
				return &c.Meters[i]
			}
		}
		return nil
	}
	dir(t, map[string]string{"included.toml": mine})
	for _, text := range []string{mine, "include = ['included.toml', 'preset:generic']", "include = ['preset:generic', 'included.toml']"} {
		c, err := Parse("stile.toml", []byte(text))
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if m := find(c, "pages"); m == nil || m.Stranger != 7 || strings.HasPrefix(m.Pos.File, "preset:") {
			t.Errorf("%s: %+v", text, m)
		}
		if m := find(c, "pages-hour"); m == nil || m.Stranger != 1500 {
			t.Errorf("%s: %+v", text, m)
		}
		last := c.Rules[len(c.Rules)-1]
		if len(last.Meters) != 2 || c.Meters[last.Meters[0]].Stranger != 7 {
			t.Errorf("%s: the preset's rule has meters %v", text, last.Meters)
		}
	}
	// One that no rule of the configuration uses is not there: it would cost memory.
	c, err := Parse("stile.toml", []byte("include = []\n"+ruleA))
	if err != nil || len(c.Meters) != 0 {
		t.Errorf("%v %v", c, err)
	}
}

func TestUnreadableFiles(t *testing.T) {
	d := dir(t, map[string]string{"big.toml": strings.Repeat("#", maxBytes+1), "secret.toml": ""})
	bad := func(file, want string) {
		t.Helper()
		_, err := Load(file)
		if err == nil || !strings.HasPrefix(err.Error(), file+": "+want) {
			t.Errorf("%v, want %s: %s…", err, file, want)
		}
	}
	bad("stile.toml", "no such file: make one with `touch stile.toml` (an empty file means the defaults), or leave -c out")
	bad("/nowhere/at/all/stile.toml", "no such file: make one with `mkdir -p /nowhere/at/all && touch /nowhere/at/all/stile.toml` (")
	bad(d, "is a directory: name a file in it")
	bad("big.toml", "is larger than 1048576 bytes")
	if os.Getuid() != 0 {
		os.Chmod("secret.toml", 0)
		bad("secret.toml", "permission denied: let the user that runs stile read it")
	}
}

// A stray byte order mark, and line ends of another system.
func TestOtherEditors(t *testing.T) {
	c, err := Parse("stile.toml", []byte("\ufeffmode = \"observe\"\r\ninclude = []\r\n\r\n[[rule]]\r\nname = \"a\"\r\npath = \"/a\"\r\ndo = \"deny\"\r\n"))
	if err != nil || c.Mode != Observe || c.Rules[0].Pos.Line != 4 {
		t.Errorf("%+v %v", c, err)
	}
	_, err = Parse("stile.toml", []byte("\ufeffmode = \"observe\"\r\n\r\n[[rule]]\r\nname = \"a\"\r\npath = \"x\"\r\ndo = \"deny\"\r\n"))
	if err == nil || !strings.HasPrefix(err.Error(), "stile.toml:5: ") {
		t.Error(err)
	}
}

// Whatever a file holds, reading it ends in a configuration or in mistakes that each
// have a file and a line of it.
func FuzzParse(f *testing.F) {
	for _, s := range seeds(f) {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if strings.Contains(text, "include") {
			return // files of this machine are nobody's seed
		}
		const alone = "include = []\n"
		c, err := Parse("fuzz.toml", []byte(alone+text))
		if err == nil {
			if len(c.Rules) > maxTables || len(c.Meters) > maxMeters || c.Pass.Lifetime <= 0 || c.Listen.Check == "" || c.Key.File == "" {
				t.Errorf("%+v", c)
			}
			for _, r := range c.Rules {
				if r.Do < Allow || r.Do > Suspect || r.Level < 1 || r.Level > 3 || r.Name == "" || (r.Do == MeterAction) && len(r.Meters) == 0 {
					t.Errorf("%+v", r)
				}
				if r.Gate < 0 || r.Gate > len(c.Gates) {
					t.Errorf("%+v: %d gates", r, len(c.Gates))
				}
				for _, m := range r.Meters {
					if m >= len(c.Meters) {
						t.Errorf("%+v: %d meters", r, len(c.Meters))
					}
				}
			}
			if len(c.Gates) > maxGates {
				t.Errorf("%d gates", len(c.Gates))
			}
			for _, g := range c.Gates {
				if g.Name == "" || g.Budget < 1 || g.Budget > 1<<50 || g.FreeBelow < 0 || g.FreeBelow > g.Budget || g.Queue < 0 || g.PerCaller < 0 ||
					g.Wait < 100*time.Millisecond || g.Wait > MaxWait || g.Lease < time.Second || g.Lease > time.Hour ||
					g.Unseen < 1 || g.Unseen > g.Budget || !(g.Scale >= 0.001 && g.Scale <= 1e6) ||
					(g.Cost == CostFixed) != (g.Fixed > 0) || g.Fixed > g.Budget || (g.Cost == CostFile) != (g.File != "") {
					t.Errorf("%+v", g)
				}
			}
			return
		}
		positions(t, err)
		lines := strings.Count(alone+text, "\n") + 1
		for _, e := range err.(interface{ Unwrap() []error }).Unwrap() {
			if m := e.(*Mistake); m.Pos.File != "fuzz.toml" || m.Pos.Line > lines || m.Want == "" && m.What == "" {
				t.Errorf("%d lines: %v", lines, e)
			}
		}
	})
}
