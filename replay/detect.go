package replay

import (
	"fmt"
	"strings"
)

// known are the formats that are tried when none is given, the fullest first. Those that
// are open do not read what follows.
var known = []struct {
	name, text string
	open       bool
}{
	{"combined", combinedText, false},
	{"combined, then $request_time and $upstream_response_time", combinedText + ` $request_time $upstream_response_time`, false},
	{"combined, then $request_time", combinedText + ` $request_time`, false},
	{`combined, then "$http_x_forwarded_for" (nginx.conf's "main")`, combinedText + ` "$http_x_forwarded_for"`, false},
	{"a host, then combined", `$host ` + combinedText, false},
	{"a host with its port, then combined", `$host:$server_port ` + combinedText, false},
	{"a host, then combined, and more that is not read", `$host ` + combinedText, true},
	{"stile's (README)", stileText, false},
	{"combined, and more that is not read", combinedText, true},
	{"common", `$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent`, false},
}

// stileText is the log_format that the README recommends.
const stileText = `$remote_addr [$time_iso8601] "$request" $status $request_id $request_time $upstream_response_time $upstream_bytes_received $host "$http_referer" "$http_user_agent" "$http_accept" "$http_sec_fetch_dest" "$stile_verdict" $stile_status`

const detectLines = 200

// detect is the format that most of the lines have.
func detect(lines []string, passCookie string) (*format, error) {
	if len(lines) > detectLines {
		lines = lines[:detectLines]
	}
	if object := newObject(passCookie); strings.HasPrefix(strings.TrimSpace(lines[0]), "{") {
		if object.learn(lines) {
			return object, nil
		}
	}
	var best *format
	most := 0
	for _, k := range known {
		f, err := compileText(k.name, k.text, escapeDefault, passCookie)
		if err != nil {
			panic("BUG: " + k.text + ": " + err.Error())
		}
		f.open = k.open
		p, n := parser{format: f}, 0
		for _, line := range lines {
			var r record
			why := p.read(line, &r)
			if (why == fine || why == noAsk) && (r.took >= 0 || p.v[fieldTook] == "") && (r.worked >= 0 || p.v[fieldUpstreamTime] == "") {
				n++
			}
		}
		if n > most {
			best, most = f, n
		}
	}
	if most*2 <= len(lines) {
		return nil, fmt.Errorf("the log has none of the formats that stile knows by itself (combined, with a host, a time or an X-Forwarded-For beside it, JSON): its first line is %.200q; give the log_format of nginx.conf by --format", lines[0])
	}
	return best, nil
}
