package replay

import (
	"os"
	"strings"
	"testing"
)

func TestLines(t *testing.T) {
	f := func(text, line string, want map[field]string) {
		t.Helper()
		fm, err := compile(text, "stile")
		if err != nil {
			t.Errorf("%s: %v", text, err)
			return
		}
		var v values
		if !fm.cut(line, &v) {
			t.Errorf("%s: %q does not fit", text, line)
			return
		}
		for k, w := range want {
			if got := fm.plain(v[k]); got != w {
				t.Errorf("%s: %q: field %d is %q, want %q", text, line, k, got, w)
			}
		}
	}
	f("combined", `192.0.2.1 - - [30/Nov/2026:06:37:11 +0100] "GET /a?b=c HTTP/1.1" 200 512 "-" "curl/8.0"`,
		map[field]string{fieldAddr: "192.0.2.1", fieldUser: "", fieldLocal: "30/Nov/2026:06:37:11 +0100", fieldRequest: "GET /a?b=c HTTP/1.1", fieldStatus: "200", fieldBodyBytes: "512", head + headerReferer: "", fieldAgent: "curl/8.0"})
	f("combined", `192.0.2.1 - ann lee [30/Nov/2026:06:37:11 +0100] "GET / HTTP/1.1" 200 512 "http://x/\x22\x5C" "a\x22 \x22b [x] - \xC3\xA4"`,
		map[field]string{fieldUser: "ann lee", head + headerReferer: `http://x/"\`, fieldAgent: "a\" \"b [x] - ä"})
	f(`$remote_addr [$time_local] "$request" $status ${request_time}s`, `2001:db8::1 [30/Nov/2026:06:37:11 +0100] "GET / HTTP/2.0" 200 0.125s`,
		map[field]string{fieldTook: "0.125"})
	f(`$remote_addr $msec $request_method $scheme://$host$request_uri $status`, `192.0.2.1 1796020631.250 GET https://www.example.org/a/b?c 200`,
		map[field]string{fieldHost: "www.example.org", fieldTarget: "/a/b?c", fieldMethod: "GET"})
	f(`$remote_addr $msec "$uri$is_args$args" $status`, `192.0.2.1 1796020631.250 "/a b?c=d" 200`, map[field]string{fieldURI: "/a b?c=d"})
	f(`log_format main escape=json '{"ip":"$remote_addr","t":"$time_iso8601",'
	                    '"r":"$request","a":"$http_user_agent"}';`, `{"ip":"192.0.2.1","t":"2026-11-30T06:37:11+01:00","r":"GET /\u00e4\"\\ HTTP/1.1","a":"x\",\"a\":\"y\\"}`,
		map[field]string{fieldRequest: `GET /ä"\ HTTP/1.1`, fieldAgent: `x","a":"y\`})
	f("log_format main '$remote_addr\t[$time_local]\t\"$request\"';", "192.0.2.1\t[30/Nov/2026:06:37:11 +0100]\t\"GET / HTTP/1.1\"", map[field]string{fieldRequest: "GET / HTTP/1.1"})
	f(`$remote_addr $msec "$request" "$cookie_stile" $request_uri`, `192.0.2.1 1796020631.250 "GET / HTTP/1.1" "abc" /`, map[field]string{fieldPass: "abc"})
	f("json", `{"time_iso8601": "2026-11-30T06:37:11+01:00", "nested": {"a": ["}", "\"", {}]}, "remote_addr":"192.0.2.1", "request":"GET \/ HTTP\/1.1", "status": 200, "none": null}`,
		map[field]string{fieldISO: "2026-11-30T06:37:11+01:00", fieldAddr: "192.0.2.1", fieldRequest: "GET / HTTP/1.1", fieldStatus: "200"})
}

func TestLinesThatDoNotFit(t *testing.T) {
	f := func(text, line string) {
		t.Helper()
		fm, err := compile(text, "stile")
		if err != nil {
			t.Fatal(err)
		}
		p := parser{format: fm}
		var r record
		if why := p.read(line, &r); why == fine || why == noAsk {
			t.Errorf("%q fits", line)
		}
	}
	const good = `192.0.2.1 - - [30/Nov/2026:06:37:11 +0100] "GET / HTTP/1.1" 200 512 "-" "curl/8.0"`
	for n := range len(good) { // cut off anywhere
		f("combined", good[:n])
	}
	f("combined", good+" more")
	f("combined", strings.Replace(good, "192.0.2.1", "unix:", 1))
	f("combined", strings.Replace(good, "192.0.2.1", "192.0.2.1000", 1))
	f("combined", strings.Replace(good, "Nov", "Nom", 1))
	f("combined", strings.Replace(good, "11 +0100", "71 +0100", 1))
	f("combined", `192.0.2.1 - - [30/Nov/2026:06:37:11 +0100] "GET / "x HTTP/1.1" 200 512 "-" "curl/8.0"`) // nginx never writes such a quote
	f("json", `{"time_iso8601":"2026-11-30T06:37:11+01:00"`)
	f("json", `{"time_iso8601":"2026-11-30T06:37:11+01:00"} {}`)
	f("json", "null")
}

func TestFormatsThatAreNone(t *testing.T) {
	f := func(text, want string) {
		t.Helper()
		if _, err := compile(text, "stile"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	f("", "want combined, json, or a log_format")
	f("combine", "want combined, json, or a log_format")
	f(`[$time_local] "$request"`, "no address of the client")
	f(`$remote_addr "$request"`, "no time")
	f(`$remote_addr [$time_local]`, "no request")
	f(`$remote_addr$status [$time_local] "$request"`, "nothing stands between")
	f(`$remote_addr [$] "$request"`, "without a name")
	f(`${remote_addr [$time_local]`, "closing brace")
	f(`log_format x 'abc`, "not closed")
	f(`log_format x;`, "no text")
	f(`log_format x escape=xml '$a';`, "want default, json or none")
}

// TestNothingInALineForgesAnother: what a client can put into a line, escaped as nginx does,
// moves no other field.
func TestNothingInALineForgesAnother(t *testing.T) {
	fm, err := compile("combined", "stile")
	if err != nil {
		t.Fatal(err)
	}
	for _, evil := range []string{`" 200 1 "-" "x`, `\`, `\\`, `" "`, "\n", `\x22 200 5 \x22`, "[1] - -", `"`} {
		line := `192.0.2.1 - - [30/Nov/2026:06:37:11 +0100] "GET /` + nginxEscape(evil) + ` HTTP/1.1" 404 7 "` + nginxEscape(evil) + `" "` + nginxEscape(evil) + `"`
		var v values
		if !fm.cut(line, &v) || v[fieldStatus] != "404" || v[fieldBodyBytes] != "7" || fm.plain(v[fieldAgent]) != evil || fm.plain(v[fieldRequest]) != "GET /"+evil+" HTTP/1.1" {
			t.Errorf("%q: %q", evil, v)
		}
	}
}

// nginxEscape is escape=default (ngx_http_log_escape).
func nginxEscape(s string) string {
	var b strings.Builder
	for _, c := range []byte(s) {
		if c == '"' || c == '\\' || c < 0x20 || c > 0x7e {
			const digits = "0123456789ABCDEF"
			b.WriteString(`\x` + string(digits[c>>4]) + string(digits[c&15]))
			continue
		}
		b.WriteByte(c)
	}
	return b.String()
}

// FuzzLine: any line under a few formats. What fits has all fields in it, and nothing panics.
func FuzzLine(f *testing.F) {
	for _, line := range []string{
		`192.0.2.1 - - [30/Nov/2026:06:37:11 +0100] "GET /a?b=c HTTP/1.1" 200 512 "-" "curl/8.0"`, `{"ip":"::1","time":"2026-11-30T06:37:11+01:00","request":"GET / HTTP/1.1"}`,
		`192.0.2.1 1796020631.250 "GET / HTTP/1.1" 200 0.1, 0.2 : 0.3 -`, "\x00\xff", `{"a":{"b":[1,2,{}]},"c":"\ud83d\ude00\u12"}`, "", `"`, `\x2`,
	} {
		f.Add(line)
	}
	var formats []*format
	for _, text := range []string{"combined", "json", `$remote_addr $msec "$request" $status $upstream_response_time $request_time`, `log_format x escape=json '{"ip":"$remote_addr","time":"$time_iso8601","request":"$request"}';`, `$remote_addr $time_iso8601 $host$request_uri`} {
		fm, err := compile(text, "stile")
		if err != nil {
			f.Fatal(err)
		}
		formats = append(formats, fm)
	}
	f.Fuzz(func(t *testing.T, line string) {
		for _, fm := range formats {
			p := parser{format: fm}
			var r, again record
			why := p.read(line, &r)
			if why2 := p.read(line, &again); why != why2 || r.end != again.end {
				t.Fatalf("%q: %d, then %d", line, why, why2)
			}
			if why != fine {
				continue
			}
			if !r.addr.IsValid() || r.from == 0 || r.end <= 0 || r.at > r.end || r.target == "" || r.method == "" || r.took < -1 || r.bytes < -1 {
				t.Fatalf("%q: %+v", line, r)
			}
		}
	})
}

// FuzzFormat: any log_format. What compiles takes a line apart that was written by it.
func FuzzFormat(f *testing.F) {
	for _, text := range []string{
		combinedText, stileText, "combined", "json", `log_format x escape=json '{"a":"$remote_addr"}';`, "$remote_addr$host$request_uri $msec", "${a}${b}", "$", "log_format", `log_format a "\t\n\\\"$x"`, `{"$remote_addr $msec $request`,
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		fm, err := compile(text, "stile")
		if err != nil {
			return
		}
		if fm.object != nil {
			return
		}
		var line strings.Builder
		line.WriteString(fm.before)
		for i := range fm.steps {
			s := &fm.steps[i]
			line.WriteString("7")
			if !s.keep {
				line.WriteString(s.sep)
			}
		}
		var v values
		fm.cut(line.String(), &v)
		if strings.Contains(text, "7") || strings.Contains(text, `\`) {
			return // the separators have what the values have
		}
		for i := range fm.steps {
			if fm.steps[i].keep {
				return
			}
		}
		if !fm.cut(line.String(), &v) {
			t.Fatalf("%q does not fit its own %q", line.String(), text)
		}
		for i := range fm.steps {
			if k := fm.steps[i].is; k != skipped && v[k] != "7" {
				t.Fatalf("%q: field %d is %q", text, k, v[k])
			}
		}
	})
}

// TestReadme: the README's log_format is known without being told, and has all that matters.
func TestReadme(t *testing.T) {
	b, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(b), "\nlog_format stile ")
	body, _, end := strings.Cut(rest, ";")
	if !ok || !end {
		t.Fatal("README.md has no log_format stile")
	}
	text, _, err := directive("log_format stile " + body + ";")
	if err != nil || text != stileText {
		t.Errorf("%v\n%s\n%s", err, text, stileText)
	}
	line := `192.0.2.1 [2026-11-30T06:37:11+01:00] "GET / HTTP/1.1" 200 0123456789abcdef0123456789abcdef 0.010 0.009 512 www.example.org "-" "x" "text/html" "document" "allow" 200`
	fm, err := detect([]string{line}, "stile")
	if err != nil || fm.name != "stile's (README)" {
		t.Errorf("%v %v", fm, err)
	}
}
