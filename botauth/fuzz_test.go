package botauth

import (
	"bytes"
	"errors"
	"testing"
	"time"
)

// FuzzVerify: whatever the fields are, there is a Result; and what is accepted is the
// draft's own signature, in some spelling that signs the same.
func FuzzVerify(f *testing.F) {
	for _, e := range vectors(f) {
		f.Add(e.Input, e.Signature, e.Agent, e.Host, e.Target)
	}
	v := testVerifier(f)
	now := time.Unix(1735689660, 0)
	f.Fuzz(func(t *testing.T, input, sig, agent, host, target string) {
		m := &Message{Method: "GET", Scheme: "https", Host: host, Server: "example.com", Target: target, SignatureInput: input, Signature: sig, SignatureAgent: agent}
		m.Fields = []string{"*/*", "", ""}
		got, err := v.Verify(now, m)
		var why Result
		if err != nil && !errors.As(err, &why) {
			t.Fatalf("%v is no Result", err)
		}
		if err == nil && (got != "tester" || host != "example.com") {
			t.Fatalf("%q for %q", got, host)
		}
	})
}

// FuzzParameters: what is written into a signature base is read again as the same, so
// that two parsers that keep to RFC 8941 see the same in it.
func FuzzParameters(f *testing.F) {
	for _, e := range vectors(f) {
		f.Add(e.Input)
	}
	f.Add(`a=("x";key="y" "z");a=-01;b=?1;c=?0;d=:AAA=:;e=*/x;f="\"\\"`)
	f.Fuzz(func(t *testing.T, field string) {
		s := scanner{s: field}
		if s.key() == "" || !s.take('=') {
			return
		}
		a, b := new(scratch), new(scratch)
		if a.member(&s, "x") != Good {
			return
		}
		again := scanner{s: string(a.input.params)}
		if why := b.member(&again, "x"); why != Good || !again.end() {
			t.Fatalf("%q was written as %q, which is not read: %v", field, a.input.params, why)
		}
		if !bytes.Equal(a.input.params, b.input.params) {
			t.Fatalf("%q, then %q", a.input.params, b.input.params)
		}
		a.input.params, b.input.params = nil, nil
		if a.input.tag != b.input.tag || a.input.keyid != b.input.keyid || a.input.created != b.input.created || a.input.components != b.input.components {
			t.Fatalf("%q is read in two ways", field)
		}
	})
}

// FuzzDirectory: any body is keys or an error.
func FuzzDirectory(f *testing.F) {
	f.Add([]byte(`{"keys":[` + newSigner(f, 'a').jwk() + `]}`))
	f.Add([]byte(`{"keys":[{"kty":"OKP","crv":"Ed25519","x":"` + testX + `","nbf":1e400}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		keys, skipped, err := ParseDirectory(b)
		if err != nil && keys != nil || len(keys)+skipped > maxKeys {
			t.Fatalf("%d keys, %d left out, %v", len(keys), skipped, err)
		}
		for _, k := range keys {
			if len(k.Public) != 32 || len(k.ID) != 43 || k.NotBefore < 0 || k.NotAfter < 0 {
				t.Fatalf("%+v", k)
			}
		}
	})
}
