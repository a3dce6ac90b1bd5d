package config

import (
	"regexp"
	"strings"
	"testing"
)

// The example is the default configuration: as it is, and with every "#" before a
// default taken away.
func TestExampleIsTheDefault(t *testing.T) {
	want, err := Load("")
	if err != nil {
		t.Fatal(err)
	}
	all := regexp.MustCompile(`(?m)^#([a-z\[])`).ReplaceAllString(Example(), "$1")
	for name, text := range map[string]string{"as shipped": Example(), "with every default written out": all} {
		got, err := Parse("example.toml", []byte(text))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		got.Files = got.Files[1:] // of the example itself
		if diff := difference(got, want); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	// Every key is there, each daemon's with a "#" before it and those of rules in the part about them.
	defaults, rules, ok := strings.Cut(Example(), "# ---- Rules ")
	if !ok {
		t.Fatal("no part about rules")
	}
	for kind, keys := range known {
		for _, key := range keys {
			shown := strings.Contains(rules, "\n#   "+key+" = ")
			switch kind {
			case "listen", "key", "pass", "state", "challenge", "crawler", "geo":
				shown = strings.Contains(defaults, "\n#"+key+" = ")
			case "":
				shown = strings.Contains(defaults, "\n#"+key+" = ") || strings.Contains(defaults, "\n#["+key+"]\n") || strings.Contains(rules, "\n#   [["+key+"]]")
			case "not":
				shown = true
			}
			if !shown {
				t.Errorf("the example does not show %s %s", bracketed(kind), key)
			}
		}
	}
}

// The rules that the example shows are right too.
func TestExampleRules(t *testing.T) {
	_, rules, _ := strings.Cut(Example(), "# ---- Rules ")
	text := regexp.MustCompile(`(?m)^#   `).ReplaceAllString("# "+rules, "")
	c, err := Parse("example.toml", []byte("include = []\n[geo]\nfile = '/usr/share/GeoIP/GeoLite2-ASN.mmdb'\n"+text))
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Meters) != 1 || len(c.Gates) != 1 || len(c.Rules) != 2 || len(c.Expects) != 1 {
		t.Fatalf("%d meters, %d gates, %d rules, %d expects", len(c.Meters), len(c.Gates), len(c.Rules), len(c.Expects))
	}
	// What it shows of a gate are the defaults.
	short, err := Parse("short.toml", []byte("include = []\n[[gate]]\nname = \"decode\"\nbudget = \"16MiB\"\n"))
	if err != nil {
		t.Fatal(err)
	}
	short.Gates[0].Pos = c.Gates[0].Pos
	if c.Gates[0] != short.Gates[0] || c.Rules[0].Gate != 1 {
		t.Errorf("%+v, want %+v", c.Gates[0], short.Gates[0])
	}
	// 192.0.2.1 is in the rule's network, and everything else in it holds as well.
	if got, rule := judge(t, c, &c.Expects[0]); !strings.HasPrefix(got, "meter render") {
		t.Errorf("%q by rule %q", got, rule)
	}
	r := c.Rules[0]
	if r.Match.Method[0] != "GET" || r.Match.Method[1] != "HEAD" || r.Level != 1 || r.Match.Not.Path[0] != "/packages/static/**" {
		t.Errorf("%+v", r)
	}
}
