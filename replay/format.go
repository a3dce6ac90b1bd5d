package replay

import (
	"fmt"
	"slices"
	"strings"

	"stile/config"
)

// field is what stile takes from a line. From head on it is a request header, by its
// place in config.Headers.
type field uint8

const (
	skipped field = iota
	fieldAddr
	fieldProxyAddr
	fieldUser
	fieldStileUser
	fieldPass
	fieldLocal // the three clocks
	fieldISO
	fieldMsec
	fieldRequest
	fieldMethod
	fieldTarget
	fieldURI // decoded: a poor man's target
	fieldArgs
	fieldStatus
	fieldUpstreamBytes
	fieldBytesSent
	fieldBodyBytes
	fieldTook
	fieldUpstreamTime
	fieldHost
	fieldHTTPHost
	fieldServer
	fieldAgent
	fieldCost // what the backend said in X-Stile-Cost
	head
	fieldCount = head + config.HeaderCount
)

// variables are nginx's names for them.
var variables = func() map[string]field {
	m := map[string]field{
		"remote_addr": fieldAddr, "proxy_protocol_addr": fieldProxyAddr, "remote_user": fieldUser, "stile_user": fieldStileUser,
		"time_local": fieldLocal, "time_iso8601": fieldISO, "msec": fieldMsec,
		"request": fieldRequest, "request_method": fieldMethod, "request_uri": fieldTarget, "uri": fieldURI, "document_uri": fieldURI, "args": fieldArgs, "query_string": fieldArgs,
		"status": fieldStatus, "upstream_bytes_received": fieldUpstreamBytes, "bytes_sent": fieldBytesSent, "body_bytes_sent": fieldBodyBytes,
		"request_time": fieldTook, "upstream_response_time": fieldUpstreamTime,
		"host": fieldHost, "http_host": fieldHTTPHost, "server_name": fieldServer, "http_user_agent": fieldAgent,
		"stile_cost": fieldCost, "upstream_http_x_stile_cost": fieldCost,
	}
	for i, name := range config.Headers {
		m["http_"+strings.ToLower(strings.ReplaceAll(name, "-", "_"))] = head + field(i)
	}
	m["content_type"] = head + config.HeaderContentType
	return m
}()

// escape is how nginx writes bytes that would break a line.
type escape uint8

const (
	escapeDefault escape = iota // \xNN, and a quote never stands for itself
	escapeJSON                  // \" \\ \n \uNNNN
	escapeNone
)

// format is a compiled log_format: it takes a line apart.
type format struct {
	name    string // as the operator knows it
	before  string // the first variable
	steps   []step
	escape  escape
	object  map[string]field // the keys of a JSON object; nil: it is read by steps
	learned bool             // has is of an object that has been seen
	has     [fieldCount]bool
	headers []field
	open    bool // what follows the last step is not read
}

// step is a variable, and what stands between it and the next.
type step struct {
	is   field
	sep  string
	keep bool // sep is one byte, and the next value begins with it
}

const combinedText = `$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent "$http_referer" "$http_user_agent"`

// compile makes a format of a log_format string, of a whole log_format directive, or of
// one of the names "combined" and "json". passCookie is the cookie that passes are in.
func compile(text, passCookie string) (*format, error) {
	switch text {
	case "combined":
		f, err := compileText("combined", combinedText, escapeDefault, passCookie)
		return f, err
	case "json":
		return newObject(passCookie), nil
	}
	body, esc, err := directive(text)
	if err != nil {
		return nil, err
	}
	return compileText("the given log_format", body, esc, passCookie)
}

func compileText(name, text string, esc escape, passCookie string) (*format, error) {
	f := &format{name: name, escape: esc}
	literal := &f.before
	for rest := text; rest != ""; {
		i := strings.IndexByte(rest, '$')
		if i != 0 {
			if i < 0 {
				i = len(rest)
			}
			*literal += rest[:i]
			rest = rest[i:]
			continue
		}
		variable, after, err := cutVariable(rest)
		if err != nil {
			return nil, err
		}
		is := variables[variable]
		if variable == "cookie_"+passCookie {
			is = fieldPass
		}
		if n := len(f.steps); n > 0 && f.steps[n-1].sep == "" {
			switch last := &f.steps[n-1]; {
			case variable == "is_args" || is == fieldArgs && last.is == fieldURI:
				rest = after
				if is == fieldArgs { // $uri$is_args$args
					last.is = fieldURI
				}
				continue
			case is == fieldTarget || is == fieldURI:
				last.sep, last.keep = "/", true
			default:
				return nil, fmt.Errorf("log_format: nothing stands between $%s and what is before it: where one ends and the other begins cannot be told", variable)
			}
		}
		if is != skipped && f.has[is] {
			is = skipped
		}
		f.has[is] = true
		f.steps = append(f.steps, step{is: is})
		literal, rest = &f.steps[len(f.steps)-1].sep, after
	}
	return f, f.complete()
}

// needs is what a decision cannot be made without.
var needs = [...]struct {
	what, example, keys string
	any                 []field
}{
	{"address of the client", "$remote_addr", "remote_addr or ip", []field{fieldAddr, fieldProxyAddr}},
	{"time", "[$time_local] or $msec", "time_iso8601 or ts", []field{fieldLocal, fieldISO, fieldMsec}},
	{"request", `"$request"`, "request, request_uri or path", []field{fieldRequest, fieldTarget, fieldURI}},
}

// lacks are the needs that the format has no field for.
func (f *format) lacks() (missing []int) {
	for i := range needs {
		if !slices.ContainsFunc(needs[i].any, func(k field) bool { return f.has[k] }) {
			missing = append(missing, i)
		}
	}
	return missing
}

// complete checks that a decision can be made of the format's fields.
func (f *format) complete() error {
	if missing := f.lacks(); missing != nil {
		n := &needs[missing[0]]
		return fmt.Errorf("log_format has no %s: stile needs it; add %s to the log_format, and replay what is logged from then on", n.what, n.example)
	}
	for k := head; k < fieldCount; k++ {
		if f.has[k] {
			f.headers = append(f.headers, k)
		}
	}
	return nil
}

// cutVariable cuts "$name" or "${name}" off.
func cutVariable(s string) (name, rest string, err error) {
	s = s[1:]
	braced := strings.HasPrefix(s, "{")
	if braced {
		s = s[1:]
	}
	n := 0
	for n < len(s) && (s[n] == '_' || '0' <= s[n] && s[n] <= '9' || 'a' <= s[n]|0x20 && s[n]|0x20 <= 'z') {
		n++
	}
	name, rest = s[:n], s[n:]
	if braced {
		if !strings.HasPrefix(rest, "}") {
			return "", "", fmt.Errorf("log_format: ${%s: want a closing brace", name)
		}
		rest = rest[1:]
	}
	if name == "" {
		return "", "", fmt.Errorf("log_format: a $ without a name (in a shell put the format in single quotes)")
	}
	return name, rest, nil
}

// directive reads nginx's whole directive, "log_format NAME escape=json 'text' 'more';", or
// takes the text for what would be between the quotes.
func directive(s string) (text string, esc escape, err error) {
	trimmed := strings.TrimSpace(s)
	rest, ok := strings.CutPrefix(trimmed, "log_format")
	if !ok || rest == "" || !strings.ContainsAny(rest[:1], " \t\r\n") {
		if strings.HasPrefix(trimmed, "{") {
			esc = escapeJSON
		}
		if !strings.Contains(s, "$") {
			return "", 0, fmt.Errorf(`--format %q: want combined, json, or a log_format such as '$remote_addr [$time_local] "$request" $status'`, s)
		}
		return s, esc, nil
	}
	for i := 0; ; i++ {
		rest = strings.TrimLeft(rest, " \t\r\n")
		if rest == "" || rest[0] == ';' {
			break
		}
		var word string
		if word, rest, err = cutWord(rest); err != nil {
			return "", 0, err
		}
		switch {
		case i == 0: // the format's name
		case i == 1 && strings.HasPrefix(word, "escape="):
			n := slices.Index([]string{"escape=default", "escape=json", "escape=none"}, word)
			if n < 0 {
				return "", 0, fmt.Errorf("log_format: %q: want default, json or none", word)
			}
			esc = escape(n)
		default:
			text += word
		}
	}
	if text == "" {
		return "", 0, fmt.Errorf("log_format: the directive has no text: want log_format NAME '$remote_addr …';")
	}
	return text, esc, nil
}

// cutWord cuts one word off, as nginx reads its configuration.
func cutWord(s string) (word, rest string, err error) {
	quote := s[0]
	if quote != '\'' && quote != '"' {
		n := strings.IndexAny(s, " \t\r\n;")
		if n < 0 {
			n = len(s)
		}
		return s[:n], s[n:], nil
	}
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch c := s[i]; {
		case c == quote:
			return b.String(), s[i+1:], nil
		case c == '\\' && i+1 < len(s):
			i++
			switch s[i] {
			case 't':
				b.WriteByte('\t')
			case 'n':
				b.WriteByte('\n')
			case 'r':
				b.WriteByte('\r')
			case '"', '\'', '\\':
				b.WriteByte(s[i])
			default:
				b.WriteByte('\\')
				b.WriteByte(s[i])
			}
		default:
			b.WriteByte(c)
		}
	}
	return "", "", fmt.Errorf("log_format: the quote before %.40q is not closed", s[1:])
}
