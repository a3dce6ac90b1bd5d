package replay

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"stile/nginx/nginxtest"
)

// TestNginxLogs: what a real nginx writes of hostile requests, in each of its ways to escape,
// is read back as it was sent.
func TestNginxLogs(t *testing.T) {
	const (
		asJSON = `'{"ip":"$remote_addr","time":"$time_iso8601","r":"$request","status":$status,'
		          '"a":"$http_user_agent","f":"$http_referer","took":$request_time}'`
		asText = `'$remote_addr [$time_local] $msec "$request" $status $request_time $upstream_response_time $host "$http_referer" "$http_user_agent" "$http_accept"'`
	)
	n := nginxtest.Start(t, nginxtest.Options{
		HTTP: "log_format asjson escape=json " + asJSON + ";\nlog_format astext " + asText + ";\n",
		// The last log is the one that is waited for.
		Site: "server {\n listen 80;\n access_log /run/stile/json.log asjson;\n access_log /run/stile/text.log astext;\n access_log /run/stile/access.log combined;\n location / { return 200 ok; }\n}\n",
	})
	agents := []string{`a"b`, `a\b`, `\`, `\\`, `\"`, `" 200 1 "-" "`, `","a":"forged`, "tab\there", "h\xc3\xa4\xe2\x82\xac", "\xff\xfe", `\x22\u0041`, "a]b[c", "{}", "-", `'`, "a\x7fb"}
	var targets []string
	for i, a := range agents {
		target := "/t" + strings.Repeat("x", i) + `?q="\` + "\xc3\xa4"
		targets = append(targets, target)
		if r := n.Get(target, "User-Agent: "+a, "Referer: "+a); r.Status != 200 {
			t.Fatalf("%q: status %d", a, r.Status)
		}
	}
	n.AccessLines(len(agents))
	for file, text := range map[string]string{
		"access.log": "combined",
		"text.log":   "log_format astext " + asText + ";",
		"json.log":   "log_format asjson escape=json " + asJSON + ";",
	} {
		b, err := os.ReadFile(filepath.Join(n.Dir(), file))
		if err != nil {
			t.Fatal(err)
		}
		fm, err := compile(text, "stile")
		if err != nil {
			t.Fatal(err)
		}
		p := parser{format: fm}
		lines := strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")
		if len(lines) != len(agents) {
			t.Fatalf("%s has %d lines", file, len(lines))
		}
		for i, line := range lines {
			var r record
			if why := p.read(line, &r); why != fine {
				t.Errorf("%s: %s: fault %d", file, line, why)
				continue
			}
			agent := agents[i]
			if agent == "-" {
				agent = "" // nginx writes the same for none
			}
			if r.target != targets[i] || r.agent != agent || r.referer != agent || r.status != 200 || r.addr.String() != "127.0.0.1" || r.end == 0 {
				t.Errorf("%s: %s: target %q, agent %q (want %q), referer %q, status %d", file, line, r.target, r.agent, agent, r.referer, r.status)
			}
		}
		if found, err := detect(lines, "stile"); file == "access.log" && (err != nil || found.name != "combined") {
			t.Errorf("%v %v", found, err)
		}
	}
}
