package decide

import (
	"strings"
	"testing"

	"stile/config"
)

// signed is Signatures that know one answer and count the questions.
type signed struct {
	bot   string
	asked int
}

func (s *signed) Bot(int64) string {
	s.asked++
	return s.bot
}

// A bot that has signed is verified as what the operator calls it, whatever its address
// and its agent say; one whose signature is not accepted is what it was without.
func TestBotRules(t *testing.T) {
	e := engine(t, `[[bot]]
name = "checker"
directory = "https://checker.example"
[[bot]]
name = "openai"
directory = "https://chatgpt.com"
[[rule]]
name = "not about bots"
path = "/free/**"
do = "allow"
[[rule]]
name = "dear"
path = "/dear/**"
do = "challenge"
[[rule]]
name = "one"
path = "/one/**"
crawler = "checker"
do = "allow"
[[rule]]
name = "named like a crawler"
path = "/openai/**"
crawler = "openai"
do = "allow"
[[rule]]
name = "any"
path = "/any/**"
crawler = "verified"
do = "allow"
[[rule]]
name = "forged"
crawler = ["spoofed", "unknown"]
do = "deny"
[[rule]]
name = "people"
not = { crawler = "verified" }
do = "challenge"
`)
	f := func(path, agent, addr, bot string, asked int, want string) {
		t.Helper()
		header := map[string]string{"User-Agent": agent}
		if asked >= 0 {
			header["Signature-Input"] = `sig1=("@authority")`
		}
		r, err := NewRequest("GET", path, addr, header)
		if err != nil {
			t.Fatal(err)
		}
		s := &signed{bot: bot}
		r.Look, r.Signed = newKnown(), s
		v := e.Decide(r, start)
		if got := string(v.AppendToken(nil, e.Policy().RuleName(v))); got != want {
			t.Errorf("%s by %q: %s, want %s", path, bot, got, want)
		}
		if s.asked != max(asked, 0) {
			t.Errorf("%s by %q: asked %d times whose signature it is, want %d", path, bot, s.asked, asked)
		}
	}
	const robot = "Robot/1.0"
	denied := "refuse;reason=deny;rule=forged"
	f("/free/x", robot, "192.0.2.9", "checker", 0, "allow;rule=not about bots")
	f("/one/x", robot, "192.0.2.9", "checker", 1, "allow;rule=one")
	f("/any/x", robot, "192.0.2.9", "checker", 1, "allow;rule=any")
	f("/any/x", robot, "192.0.2.9", "openai", 1, "allow;rule=any")
	f("/openai/x", robot, "192.0.2.9", "openai", 1, "allow;rule=named like a crawler")
	f("/openai/x", robot, "192.0.2.9", "checker", 1, "allow")
	f("/one/x", robot, "192.0.2.9", "", 1, "challenge;level=1;reason=demand;rule=people")
	f("/one/x", robot, "192.0.2.9", "checker", -1, "challenge;level=1;reason=demand;rule=people")
	// It is a program, and is told to come again where a proof is asked for.
	f("/dear/x", robot, "192.0.2.9", "checker", 1, "refuse;reason=demand;retry=600;rule=dear")
	f("/dear/x", robot, "192.0.2.9", "", 1, "challenge;level=1;reason=demand;rule=dear")
	f("/dear/x", googlebot, "192.0.2.2", "checker", 1, "refuse;reason=demand;retry=600;rule=dear")
	// Its address says that it is no Googlebot, its signature who it is.
	f("/any/x", googlebot, "192.0.2.2", "", 1, denied)
	f("/any/x", googlebot, "192.0.2.2", "checker", 1, "allow;rule=any")
	f("/else", googlebot, "192.0.2.2", "checker", 1, "allow")
	// Nothing is looked up of who has signed.
	f("/any/x", googlebot, "192.0.2.99", "checker", 1, "allow;rule=any")
}

func TestExpectBot(t *testing.T) {
	for name, verdict := range map[string]string{"checker": "allow", "google": "challenge"} {
		c, err := config.Parse("x", []byte(strings.NewReplacer("NAME", name, "VERDICT", verdict).Replace(`include = []
[[bot]]
name = "checker"
directory = "https://checker.example"
[[rule]]
name = "bots"
crawler = "checker"
do = "allow"
[[rule]]
name = "all"
do = "challenge"
[[expect]]
request = "GET /"
crawler = "NAME"
verdict = "VERDICT"
`)))
		if err != nil {
			t.Fatal(err)
		}
		if failed := Expectations(c); len(failed) > 0 {
			t.Errorf("%s: %v", name, failed)
		}
	}
}
