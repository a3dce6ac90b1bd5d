package e2e

import (
	"crypto/ed25519"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"stile/botauth"
)

// agentKey is a key of an agent that signs its requests.
type agentKey struct {
	private ed25519.PrivateKey
	jwk, id string
}

func newAgentKey(t *testing.T) agentKey {
	t.Helper()
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	jwk := fmt.Sprintf(`{"kty":"OKP","crv":"Ed25519","x":%q}`, base64.RawURLEncoding.EncodeToString(public))
	k, err := botauth.ParseKey([]byte(jwk))
	if err != nil {
		t.Fatal(err)
	}
	return agentKey{private, jwk, k.ID}
}

// sign is curl's arguments for a signed GET of a target at a host.
func (k agentKey) sign(origin, host, target string) []string {
	now := time.Now().Unix()
	list := fmt.Sprintf(`("@method" "@target-uri" "@authority" "accept" "signature-agent";key="me");created=%d;expires=%d;keyid="%s";nonce="bm9uY2U=";tag="web-bot-auth"`, now, now+60, k.id)
	base := fmt.Sprintf("\"@method\": GET\n\"@target-uri\": http://%s%s\n\"@authority\": %s\n\"accept\": text/html\n\"signature-agent\";key=\"me\": %q\n\"@signature-params\": %s", host, target, host, origin, list)
	return []string{
		"-H", "Host: " + host, "-H", "Accept: text/html", "-H", fmt.Sprintf("Signature-Agent: me=%q", origin), "-H", "Signature-Input: sig1=" + list,
		"-H", "Signature: sig1=:" + base64.StdEncoding.EncodeToString(ed25519.Sign(k.private, []byte(base))) + ":",
	}
}

// An agent that signs is known behind the real nginx by what it has signed: for this
// site, this request, and by a key that its directory has; also after a restart while the
// directory is down.
func TestSigningBotBehindNginx(t *testing.T) {
	first, second := newAgentKey(t), newAgentKey(t)
	var down atomic.Bool
	directory := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if down.Load() {
			http.Error(w, "down", http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Content-Type", "application/http-message-signatures-directory+json")
		fmt.Fprintf(w, `{"keys":[%s]}`, first.jwk)
	}))
	defer directory.Close()
	s := open(t, fmt.Sprintf(`
[crawler]
hosts = ["also.example"]
[[bot]]
name = "robot"
directory = %q
[[rule]]
name = "robots"
crawler = "robot"
path = "/dear/**"
do = "allow"
[[rule]]
name = "dear"
path = "/dear/**"
do = "challenge"
`, directory.URL), `
server {
    listen 80;
    server_name site.example also.example third.example;
    include snippets/stile.conf;
    location / { proxy_pass http://127.0.0.1:8080; }
}
`)
	eventually(t, "the keys are there", func() bool { return s.daemon.metric("stile_botauth_keys", `bot="robot"`) == 1 })
	f := func(what, target string, args []string, want int) {
		t.Helper()
		before := len(s.app.Hits())
		if out, status := s.curl(target, args...); status != want {
			t.Errorf("%s: %d, want %d\n%.300s", what, status, want, out)
		}
		if reached := len(s.app.Hits()) > before; reached != (want == 200) {
			t.Errorf("%s: reached the application: %v", what, reached)
		}
	}
	const target = "/dear/a%2Fb//./c?x=%20y&z"
	signed := first.sign(directory.URL, "site.example", target)
	f("signed", target, signed, 200)
	f("again", target, signed, 200)
	f("another query", "/dear/a%2Fb//./c?x=%20y", signed, 503)
	f("another spelling of the path", "/dear/a%2fb//./c?x=%20y&z", signed, 503)
	f("another method", target, append([]string{"-I"}, signed...), 503)
	f("unsigned", target, []string{"-H", "Host: site.example", "-H", "Accept: text/html"}, 503)
	f("another name of the site, which is listed", target, first.sign(directory.URL, "also.example", target), 200)
	f("another name of the site, which is not", target, first.sign(directory.URL, "third.example", target), 503)
	f("what it has signed for somebody else", target, first.sign(directory.URL, "evil.example", target), 503)
	f("in capitals", target, append([]string{"-H", "Host: SITE.example"}, signed[2:]...), 200)
	f("by another key", target, second.sign(directory.URL, "site.example", target), 503)
	f("in another's name", target, first.sign("https://other.example", "site.example", target), 503)
	if n := s.daemon.metric("stile_botauth_checks_total", `result="elsewhere"`); n != 2 {
		t.Errorf("%g signatures for elsewhere are counted, want 2", n)
	}
	if n := s.daemon.metric("stile_botauth_checks_total", `result="good"`); n != 2 {
		t.Errorf("%g good signatures are counted, want 2", n)
	}

	down.Store(true)
	s.daemon.kill(syscall.SIGTERM)
	s.daemon.start()
	eventually(t, "the directory is asked", func() bool { return s.daemon.metric("stile_botauth_fetches_total", `result="failed"`) == 1 })
	f("after a restart, while its directory is down", target, first.sign(directory.URL, "site.example", target), 200)
	f("unsigned, after a restart", target, []string{"-H", "Host: site.example", "-H", "Accept: text/html"}, 503)
}
