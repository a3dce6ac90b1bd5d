package server

import (
	"crypto/ed25519"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"stile/botauth"
)

const botTOML = `
[[bot]]
name = "robot"
directory = %q
[[rule]]
name = "robots"
path = "/x/**"
crawler = "robot"
do = "allow"
[[rule]]
name = "all"
path = "/x/**"
do = "challenge"
`

// robot is an agent with a directory of keys of its own.
type robot struct {
	private ed25519.PrivateKey
	id      string
	origin  string
}

func newRobot(t *testing.T) *robot {
	t.Helper()
	r := &robot{private: ed25519.NewKeyFromSeed([]byte(strings.Repeat("r", ed25519.SeedSize)))}
	jwk := fmt.Sprintf(`{"kty":"OKP","crv":"Ed25519","x":%q}`, base64.RawURLEncoding.EncodeToString(r.private.Public().(ed25519.PublicKey)))
	k, err := botauth.ParseKey([]byte(jwk))
	if err != nil {
		t.Fatal(err)
	}
	r.id = k.ID
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/http-message-signatures-directory+json")
		fmt.Fprintf(w, `{"keys":[%s]}`, jwk)
	}))
	t.Cleanup(s.Close)
	r.origin = s.URL
	return r
}

// sign is the headers of a request that the agent sends to a host.
func (r *robot) sign(w *world, host, path, query string) []string {
	agent := fmt.Sprintf("%q", r.origin)
	list := fmt.Sprintf(`("@method" "@authority" "@path" "@query" "user-agent" "signature-agent";key="me");created=%d;expires=%d;keyid="%s";alg="ed25519";tag="web-bot-auth"`,
		w.now.Unix(), w.now.Unix()+300, r.id)
	base := "\"@method\": GET\n\"@authority\": " + host + "\n\"@path\": " + path + "\n\"@query\": ?" + query + "\n\"user-agent\": Robot/1.0\n\"signature-agent\";key=\"me\": " + agent + "\n\"@signature-params\": " + list
	return []string{
		"User-Agent: Robot/1.0", "Signature-Agent: me=" + agent, "Signature-Input: sig=" + list,
		"Signature: sig=:" + base64.StdEncoding.EncodeToString(ed25519.Sign(r.private, []byte(base))) + ":",
	}
}

// A bot that the operator lists is let through by what it signs, from any address; the
// same headers with another request, at another site, or too late are a stranger's.
func TestSigningBot(t *testing.T) {
	r := newRobot(t)
	w := newWorld(t, "include = []\n"+fmt.Sprintf(botTOML, r.origin))
	f := func(request, server string, header []string, want string) {
		t.Helper()
		if got := string(w.check(request, "192.0.2.1", append(header, "X-Stile-Server: "+server)...).Header.Peek("X-Stile-Verdict")); got != want {
			t.Errorf("%s: %s, want %s", request, got, want)
		}
	}
	const yes, no = "allow;rule=robots", "challenge;level=1;reason=demand;rule=all"
	signed := r.sign(w, "site.example", "/x/y", "a=b")
	f("GET /x/y?a=b", "site.example", signed, no) // its directory has not been fetched
	w.s.bots.Refresh(t.Context())
	f("GET /x/y?a=b", "site.example", signed, yes)
	f("GET /x/y?a=b", "www.site.example", signed, yes)
	f("GET /x/y?a=b", "_", signed, no)
	f("GET /x/y?a=b", "other.example", signed, no)
	f("GET /x/y?a=c", "site.example", signed, no)
	f("GET /x/z?a=b", "site.example", signed, no)
	f("GET /x/./y?a=b", "site.example", signed, no) // nginx says what was sent
	f("GET /x/./y?a=b", "site.example", r.sign(w, "site.example", "/x/./y", "a=b"), yes)
	f("POST /x/y?a=b", "site.example", signed, "refuse;reason=demand;level=1;retry=1;rule=all")
	f("GET /x/y?a=b", "site.example", r.sign(w, "other.example", "/x/y", "a=b"), no)
	f("GET /x/y?a=b", "site.example", signed[:3], no)
	f("GET /x/y?a=b", "site.example", nil, no)
	w.now = w.now.Add(361e9)
	f("GET /x/y?a=b", "site.example", signed, no)
	f("GET /x/y?a=b", "site.example", r.sign(w, "site.example", "/x/y", "a=b"), yes)
	for result, n := range map[botauth.Result]uint64{botauth.Good: 3, botauth.Known: 1, botauth.UnknownKey: 1, botauth.Elsewhere: 2, botauth.Wrong: 5, botauth.Malformed: 1, botauth.Expired: 1} {
		if got := w.s.bots.Count(result); got != n {
			t.Errorf("%s: %d, want %d", result.String(), got, n)
		}
	}
}

// A policy without a rule about crawlers fetches no directory and checks no signature.
func TestNoRuleNoSignature(t *testing.T) {
	r := newRobot(t)
	toml, _, _ := strings.Cut(fmt.Sprintf(botTOML, r.origin), "[[rule]]")
	w := newWorld(t, "include = []\n"+toml)
	w.s.bots.Refresh(t.Context())
	w.s.bots.Directories(func(bot string, _ int, _, _ uint64, _ time.Time) { t.Errorf("the directory of %s is fetched", bot) })
	w.check("GET /x/y", "192.0.2.1", r.sign(w, "site.example", "/x/y", "")...)
	for _, result := range botauth.Counted() {
		if w.s.bots.Count(result) != 0 {
			t.Errorf("a signature was checked: %s", result.String())
		}
	}
}
