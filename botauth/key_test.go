package botauth

import (
	"strings"
	"testing"
)

func TestThumbprint(t *testing.T) {
	// RFC 8037, appendix A.3.
	if got := thumbprint("11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"); got != "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k" {
		t.Error(got)
	}
}

func TestParseKey(t *testing.T) {
	x := `"x":"` + strings.Repeat("A", 42) + `A"`
	f := func(text, wrong string) {
		t.Helper()
		k, err := ParseKey([]byte(text))
		switch {
		case wrong == "" && (err != nil || len(k.Public) != 32 || len(k.ID) != 43):
			t.Errorf("%s: %v", text, err)
		case wrong != "" && (err == nil || !strings.Contains(err.Error(), wrong)):
			t.Errorf("%s: %v, want an error with %q", text, err, wrong)
		}
	}
	f(`{"kty":"OKP","crv":"Ed25519",`+x+`}`, "")
	f(`{"kty":"OKP","crv":"Ed25519",`+x+`,"kid":"anything","use":"sig","alg":"EdDSA","key_ops":["verify"],"nbf":1712793600,"exp":1715385600.5,"more":{}}`, "")
	f(`{"kty":"OKP","crv":"Ed25519",`+x+`,"use":"enc"}`, "want an Ed25519 key")
	f(`{"kty":"OKP","crv":"Ed25519",`+x+`,"alg":"HS256"}`, "want an Ed25519 key")
	f(`{"kty":"OKP","crv":"Ed25519",`+x+`,"key_ops":["sign"]}`, "want an Ed25519 key")
	f(`{"kty":"OKP","crv":"X25519",`+x+`}`, "want an Ed25519 key")
	f(`{"kty":"RSA","n":"AQAB","e":"AQAB"}`, "want an Ed25519 key")
	f(`{"kty":"OKP","crv":"Ed25519","x":"`+testX+`"}`, "test key of RFC 9421")
	f(`{"kty":"OKP","crv":"Ed25519",`+x+`,"d":"AAAA"}`, "private half")
	f(`{"kty":"OKP","crv":"Ed25519","x":"AAAA"}`, "43 characters")
	f(`{"kty":"OKP","crv":"Ed25519","x":"`+strings.Repeat("A", 43)+`="}`, "43 characters")
	f(`{"kty":"OKP","crv":"Ed25519","x":"`+strings.Repeat("A", 42)+`B"}`, "43 characters")
	f(`{"kty":"OKP","crv":"Ed25519","x":"`+strings.Repeat("/", 43)+`"}`, "43 characters")
	f(`{"kty":"OKP","crv":"Ed25519"}`, "43 characters")
	f(`{"kty":"OKP","crv":"Ed25519",`+x+`,"nbf":-1}`, "seconds")
	f(`{"kty":"OKP","crv":"Ed25519",`+x+`,"exp":"soon"}`, "not a JSON Web Key")
	f(`[]`, "not a JSON Web Key")
	f(``, "not a JSON Web Key")
	f(`null`, "want an Ed25519 key")
}

func TestParseDirectory(t *testing.T) {
	a, b := newSigner(t, 'a').jwk(), newSigner(t, 'b').jwk()
	f := func(text string, keys, skipped int, wrong string) {
		t.Helper()
		got, n, err := ParseDirectory([]byte(text))
		switch {
		case wrong == "" && (err != nil || len(got) != keys || n != skipped):
			t.Errorf("%.80s: %d keys, %d left out, %v; want %d and %d", text, len(got), n, err, keys, skipped)
		case wrong != "" && (err == nil || !strings.Contains(err.Error(), wrong)):
			t.Errorf("%.80s: %v, want an error with %q", text, err, wrong)
		}
	}
	f(`{"keys":[`+a+`]}`, 1, 0, "")
	f(`{"keys":[`+a+`,`+b+`],"purpose":"rag","signature_agent":"https://x.test"}`, 2, 0, "")
	f(`{"keys":[`+a+`,`+a+`,{"kty":"RSA"},7,null,`+b+`]}`, 2, 4, "")
	f(`{"keys":[]}`, 0, 0, "")
	f(`{"keys":{"kty":"OKP"}}`, 0, 0, "not a JSON Web Key Set")
	f(`{"keys":null}`, 0, 0, "no list of keys")
	f(`{}`, 0, 0, "no list of keys")
	f(`<!doctype html>`, 0, 0, "not a JSON Web Key Set")
	f(``, 0, 0, "not a JSON Web Key Set")
	f(`{"keys":[`+a+`]}x`, 0, 0, "not a JSON Web Key Set")
	f(`{"keys":[`+strings.Repeat("{},", 64)+`{}]}`, 0, 0, "65 keys")
	f(strings.Repeat(`{"keys":[`, 20000), 0, 0, "not a JSON Web Key Set")
}

func TestParseOrigin(t *testing.T) {
	f := func(s, want, wrong string) {
		t.Helper()
		got, err := ParseOrigin(s)
		switch {
		case wrong == "" && (err != nil || got != want):
			t.Errorf("%q: %q, %v, want %q", s, got, err, want)
		case wrong != "" && (err == nil || !strings.Contains(err.Error(), wrong)):
			t.Errorf("%q: %q, %v, want an error with %q", s, got, err, wrong)
		}
	}
	f("https://agent.example", "https://agent.example", "")
	f("https://Agent.Example/", "https://agent.example", "")
	f("https://agent.example:443", "https://agent.example", "")
	f("https://agent.example:8443", "https://agent.example:8443", "")
	f("https://agent.example/.well-known/http-message-signatures-directory", "https://agent.example", "")
	f("http://127.0.0.1:8080", "http://127.0.0.1:8080", "")
	f("http://[::1]:8080", "http://[::1]:8080", "")
	f("https://192.168.1.1", "https://192.168.1.1", "")
	f("http://agent.example", "", "want https")
	f("http://192.168.1.1", "", "want https")
	f("ftp://agent.example", "", "want https")
	f("agent.example", "", "want the URL")
	f("", "", "want the URL")
	f("https://", "", "want the URL")
	f("https://:443", "", "want the URL")
	f("https://agent.example/jwks.json", "", `want "https://agent.example"`)
	f("https://user@agent.example", "", "want the host alone")
	f("https://agent.example/?x", "", "want the host alone")
	f("https://agent.example#x", "", "want the host alone")
	f("data:application/json,{}", "", "want the URL")
}
