package decide

import (
	"testing"

	"stile/config"
)

// A verdict's policy is known by a number of eight bits. One of a policy long gone, whose
// number has come round, names at most another rule.
func TestClaimOfAnOldVerdict(t *testing.T) {
	const gated = "[[gate]]\nname = \"g\"\nbudget = 8\ncost = 1\n[[meter]]\nname = \"m\"\nwindow = \"1m\"\nstranger = 9\npass = 9\n"
	const plain = "[[rule]]\nname = \"a\"\npath = \"/a\"\ndo = \"allow\"\n"
	const rule = "[[rule]]\nname = \"b\"\npath = \"/b\"\ndo = \"meter\"\nmeter = \"m\"\ngate = \"g\"\n"
	e := engine(t, gated+plain+rule)
	r, err := NewRequest("GET", "/b", "192.0.2.1", nil)
	if err != nil {
		t.Fatal(err)
	}
	v := e.Decide(r, start)
	if c, ok := e.Policy().Claim(r, v); !ok || c.Gate != "g" || c.Rule != "b" {
		t.Fatalf("%+v, %v", c, ok)
	}
	for _, toml := range []string{plain, plain + "[[rule]]\nname = \"b\"\npath = \"/b\"\ndo = \"allow\"\n", ""} {
		cfg, err := config.Parse("test.toml", []byte("include = []\n"+toml))
		if err != nil {
			t.Fatal(err)
		}
		for range 256 {
			if err := e.Reload(cfg); err != nil {
				t.Fatal(err)
			}
		}
		if c, ok := e.Policy().Claim(r, v); ok {
			t.Errorf("%s: %+v", toml, c)
		}
	}
}
