package config

import (
	"strings"
	"testing"
)

const botKey = `{"kty":"OKP","crv":"Ed25519","x":"cFpMZ1FCqPpI2xxyo3Eq82MnoK8Ohdw7320DLnX_HX4"}`

func TestBots(t *testing.T) {
	c, err := Parse("stile.toml", []byte(`include = []
[crawler]
hosts = ["example.org", "*.example.org"]
[[rule]]
name = "a"
crawler = ["checker", "openai"]
do = "allow"
[[expect]]
request = "GET /"
crawler = "checker"
verdict = "allow"
[[expect]]
request = "GET /"
crawler = "openai"
verdict = "allow"
[[bot]]
name = "checker"
keys = ['`+botKey+`']
[[bot]]
name = "openai"
directory = "https://ChatGPT.com/"
`))
	if err != nil {
		t.Fatal(err)
	}
	if b := c.Bots; len(b) != 2 || b[0].Name != "checker" || len(b[0].Keys) != 1 || b[0].Origin != "" || b[1].Origin != "https://chatgpt.com" || b[1].Keys != nil {
		t.Errorf("%+v", b)
	}
	if len(c.Crawler.Hosts) != 2 || c.Expects[0].Bot != "checker" || c.Expects[1].Bot != "" || c.Expects[1].Crawler.String() != "openai" {
		t.Errorf("%+v %+v", c.Crawler, c.Expects)
	}
}

func TestBotMistakes(t *testing.T) {
	f := func(text, want string) {
		t.Helper()
		_, err := Parse("stile.toml", []byte("include = []\n"+text))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %q", text, err, want)
		}
	}
	bot := func(lines string) string { return "[[bot]]\nname = 'checker'\n" + lines + "\n" }
	const directory = "directory = 'https://agent.example'"
	f("[[bot]]\n"+directory, "it has no name")
	f(bot(""), "nothing says what its keys are")
	f(bot(directory+"\nkeys = ['"+botKey+"']"), "take one of the two out")
	f(bot("keys = []"), "the list is empty")
	f(bot("keys = ['"+botKey+"', '"+botKey+"']"), "named twice")
	f(bot("keys = ['x']"), "not a JSON Web Key")
	f(bot("keys = ['"+strings.Replace(botKey, "Ed25519", "P-256", 1)+"']"), "want an Ed25519 key")
	f(bot("directory = 'http://agent.example'"), "want https")
	f(bot("directory = 'agent.example'"), "https://agent.example")
	f(bot("url = 'https://agent.example'"), "did you mean \"directory\"?")
	f("[[bot]]\nname = 'spoofed'\n"+directory, "want another name")
	f("[[bot]]\nname = 'verified'\n"+directory, "want another name")
	f("[[bot]]\nname = 'google-user'\n"+directory, "want another name")
	f("[[bot]]\nname = 'Checker'\n"+directory, "in small letters: \"checker\"")
	f(bot(directory)+bot(directory), "another bot has this name")
	f("[bot]\nname = 'checker'\n"+directory, "write [[bot]]")
	f(strings.Repeat("[[bot]]\nname = 'a'\n"+directory+"\n", 66), "want at most 64")
	f(bot(directory)+"[[rule]]\nname = 'a'\ndo = 'allow'\ncrawler = 'cheker'\n", "did you mean \"checker\"?")
	f("[[rule]]\nname = 'a'\ndo = 'allow'\ncrawler = 'checker'\n", "no crawler has this name")
	f(bot(directory)+"[[rule]]\nname = 'a'\ndo = 'deny'\ncrawler = 'verified'\n[[rule]]\nname = 'b'\ndo = 'deny'\ncrawler = 'checker'\n", "it can never match")
	f("[crawler]\nhosts = ['Example.org']\n", "in small letters")
	f("[crawler]\nhosts = ['example.org:8443']\n", "without a port")
	f("[crawler]\nhosts = ['https://example.org']\n", "want a name of your site")
	f("[crawler]\nhosts = ['*']\n", "want a name of your site")
	f("[crawler]\nhosts = ['a', 'a']\n", "named twice")
}
