package pattern

import "strings"

// Host is a pattern for the host that a request names: a name or an address, or
// "*.example.org" for everything below example.org, at any depth, but not
// example.org itself. ASCII case does not count. "~" and "~*" begin regular expressions
// (see Path), which do not see a port either, and in which case does not count.
type Host struct {
	name  string // lower case; with below its leading dot
	below bool
	re    *regex
}

// CompileHost compiles a Host, or says what is wrong with it and the way out.
func CompileHost(text string) (Host, error) {
	if err := check(text); err != nil {
		return Host{}, err
	}
	if text[0] == '~' {
		re, err := compileRegex(text, true)
		return Host{re: re}, err
	}
	name, below := strings.CutPrefix(text, "*")
	bare := strings.TrimPrefix(name, ".")
	switch {
	case text == "*":
		return Host{}, faultf(text, "matches anything; leave the key out")
	case strings.Contains(text, "://") || strings.Contains(text, "/"):
		return Host{}, faultf(text, `a host has no scheme and no path; write "example.org"`)
	case below && !strings.HasPrefix(name, "."):
		return Host{}, faultf(text, `"*" stands for whole labels: write "*.example.org"`)
	case strings.Contains(name, "*"):
		return Host{}, faultf(text, `"*" only at the front, as in "*.example.org"; for anything else begin with "~"`)
	case !below && bare != name:
		return Host{}, faultf(text, `write a list: ["%s", "*.%s"]`, bare, bare)
	case withoutPort(text) != text:
		return Host{}, faultf(text, `a port is not looked at; write "%s"`, withoutPort(text))
	case strings.HasSuffix(text, "."):
		return Host{}, faultf(text, "a dot at the end is not looked at; take it away")
	}
	for i := range len(bare) {
		switch c := bare[i]; {
		case c >= 0x80:
			return Host{}, faultf(text, "write an international name as it is sent, in its xn-- form")
		case !isLetter(c) && (c < '0' || '9' < c) && strings.IndexByte("-_.", c) < 0 && (bare[0] != '[' || strings.IndexByte("[]:", c) < 0):
			return Host{}, faultf(text, "%q cannot be in a host; an IPv6 address is written as \"[2001:db8::1]\"", c)
		}
	}
	if bare == "" || strings.Contains(bare, "..") || below && bare[0] == '[' {
		return Host{}, faultf(text, `not a host; write "example.org" or "*.example.org"`)
	}
	return Host{name: lower(name), below: below}, nil
}

// Match tells whether a host matches. A port and a dot behind it are not looked at.
func (h *Host) Match(s string) bool {
	s = strings.TrimSuffix(withoutPort(s), ".")
	switch {
	case h.re != nil:
		return h.re.match(s)
	case h.below:
		return len(s) > len(h.name) && hasSuffixFold(s, h.name)
	}
	return h.name != "" && sameFold(s, h.name)
}

// withoutPort takes ":port" off a host. In an address in brackets colons are no port.
func withoutPort(s string) string {
	i := strings.LastIndexByte(s, ':')
	if i < 0 || strings.IndexByte(s[i:], ']') >= 0 {
		return s
	}
	return s[:i]
}
