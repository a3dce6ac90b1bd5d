package pattern

import "strings"

// Path is a pattern for a path as nginx reads it: decoded, without dot segments and double
// slashes (see decide/path). A glob begins with a slash and is held against the whole path:
//
//   - any run within a segment, also none:  /a/*/b   /a/*.png
//     **     any run:                              /packages/**   /**.css
//     /**/   one or more segments, or none:        /**/info/refs
//
// "/packages/**" matches "/packages/" and all below it, not "/packages".
//
// What begins with "~" is a regular expression, what begins with "~*" one in which case does
// not count. As in nginx they match anywhere in the text unless they have ^ and $. They are
// Go's (RE2), so their time is linear in the text.
type Path struct {
	text string
	glob glob
	re   *regex
}

// CompilePath compiles a Path, or says what is wrong with it and the way out.
func CompilePath(text string) (Path, error) {
	if err := check(text); err != nil {
		return Path{}, err
	}
	switch {
	case text[0] == '~':
		re, err := compileRegex(text, false)
		if err != nil {
			return Path{}, err
		}
		return Path{text: text, re: re}, nil
	case text[0] == '^' || strings.HasPrefix(text, "(?"):
		return Path{}, faultf(text, `a regular expression begins with "~"; write "~%s"`, text)
	case text[0] == '*':
		return Path{}, faultf(text, `must begin with "/"; write "/**%s"`, strings.TrimLeft(text, "*"))
	case text[0] != '/' && strings.Contains(text, "://"):
		return Path{}, faultf(text, `a path has no scheme and no host; write host = "…" beside it`)
	case text[0] != '/':
		return Path{}, faultf(text, `must begin with "/", or as a regular expression with "~"; write "/%s", or for any folder "/**/%s"`, text, text)
	case strings.Contains(text, "?"):
		return Path{}, faultf(text, `a path pattern does not see the query; write query = "…" beside it`)
	case strings.Contains(text, "***"):
		return Path{}, faultf(text, `"***" means nothing; write "**"`)
	}
	g, err := compileGlob(text)
	if err != nil {
		return Path{}, faultf(text, "%v", err)
	}
	return Path{text: text, glob: g}, nil
}

// Match tells whether a path matches.
func (p *Path) Match(s string) bool {
	if p.re != nil {
		return p.re.match(s)
	}
	return p.glob.match(s)
}

// Never says why no path, or none that anybody sends, can match, with the way out; or ""
// if nothing speaks against the pattern. A rule with such a pattern is a mistake that
// would go unnoticed: it protects nothing.
func (p *Path) Never() string {
	if p.re != nil {
		return p.re.never()
	}
	if why := unclean(p.text); why != "" {
		return why
	}
	switch {
	case strings.HasSuffix(p.text, "/.") || strings.HasSuffix(p.text, "/.."):
		return whyDots
	case encodedAt(p.text) >= 0:
		return whyEncoded
	case strings.Contains(p.text, "#"):
		return `what follows "#" is never sent; for a "#" that was sent as %23 write a regular expression with "~"`
	case strings.Contains(p.text, `\`) || strings.HasSuffix(p.text, "$") || strings.Contains(p.text, "|"):
		return `looks like a regular expression; begin it with "~"`
	case braces(p.text):
		return `"{a,b}" and "[a-z]" mean nothing in a path pattern; write a list of patterns, or a regular expression with "~"`
	}
	return ""
}

// Loose says why an exemption had better not rest on the pattern, because it admits more
// than it seems to; or "". Globs never are loose.
func (p *Path) Loose() string {
	switch {
	case p.re == nil:
		return ""
	case !p.re.anchored:
		return `matches anywhere in a path; begin it with "~^" and end it in "$"`
	case p.re.looseDot:
		return `a dot matches any character; write "\." for a dot`
	}
	return ""
}

const (
	whyEncoded = `paths are compared decoded; write the character itself instead of its percent-encoding`
	whySlashes = `several slashes are taken for one before the path is compared; write one`
	whyDots    = `segments "." and ".." are resolved before the path is compared; write the path that they lead to`
)

// unclean says what keeps a literal from being part of a path.
func unclean(lit string) string {
	switch {
	case strings.Contains(lit, "//"):
		return whySlashes
	case strings.Contains(lit, "/./") || strings.Contains(lit, "/../"):
		return whyDots
	}
	return ""
}

// braces finds what a shell would expand.
func braces(text string) bool {
	if _, after, ok := strings.Cut(text, "{"); ok {
		inside, _, closed := strings.Cut(after, "}")
		if closed && strings.Contains(inside, ",") {
			return true
		}
	}
	for i := 0; i+4 < len(text); i++ { // "[a-z"
		if text[i] == '[' && text[i+2] == '-' && strings.Contains(text[i+4:], "]") {
			return true
		}
	}
	return false
}

func (x *regex) never() string {
	if len(x.whole) == 1 && x.whole[0] == "" {
		return "a path is never empty"
	}
	for _, list := range [][]string{x.whole, x.heads} {
		if why := every(list, func(s string) string {
			if s != "" && s[0] != '/' {
				return `a path begins with a slash; write "^/"`
			}
			return ""
		}); why != "" {
			return why
		}
	}
	for _, run := range x.runs {
		if why := every(run, func(s string) string {
			switch {
			case unclean(s) != "":
				return unclean(s)
			case encodedAt(s) >= 0:
				return whyEncoded
			case strings.Contains(s, "?"):
				return `the path does not hold the query; write query = "…" beside it (for a "?" that was sent as %3F write a dot)`
			}
			return ""
		}); why != "" {
			return why
		}
	}
	return ""
}

// every is the reason against the first of list, if there is one against each.
func every(list []string, against func(string) string) (why string) {
	for i := len(list) - 1; i >= 0; i-- {
		if why = against(list[i]); why == "" {
			return ""
		}
	}
	return why
}
