package pattern

import (
	"regexp"
	"regexp/syntax"
	"strings"
)

// regex is a regular expression behind tests for literals. The engine takes tens of ns a
// byte, so it runs only when they have not decided.
type regex struct {
	re *regexp.Regexp
	literals
}

// compileRegex compiles "~re" or "~*re". With fold case does not count in either.
func compileRegex(text string, fold bool) (*regex, error) {
	expr, starred := strings.CutPrefix(text[1:], "*")
	if expr == "" {
		return nil, faultf(text, "an empty regular expression matches anything; leave the key out")
	}
	// A dot also matches a line feed: "%0A" in a path must not be a way around a rule.
	flags := "(?s)"
	if fold || starred {
		flags = "(?is)"
	}
	re, err := regexp.Compile(flags + expr)
	if err != nil {
		why := strings.Replace(strings.TrimPrefix(err.Error(), "error parsing regexp: "), flags, "", 1)
		switch {
		case strings.Contains(why, "(?=") || strings.Contains(why, "(?!") || strings.Contains(why, "(?<"):
			why += "; there is no look-around: use not = {…}, or a rule before this one"
		case starred && strings.HasPrefix(why, "missing argument to repetition operator"):
			why += `; "~*" begins an expression in which case does not count`
		}
		return nil, faultf(text, "%s", why)
	}
	tree, err := syntax.Parse(flags+expr, syntax.Perl)
	if err != nil {
		return nil, faultf(text, "%v", err)
	}
	return &regex{re, literalsOf(tree.Simplify())}, nil
}

func (x *regex) match(s string) bool {
	if !x.may(s) {
		// The first bytes of U+017F and U+212A, which (?i) takes for s and k.
		return x.beyond && (strings.IndexByte(s, 0xC5) >= 0 || strings.IndexByte(s, 0xE2) >= 0) && x.re.MatchString(s)
	}
	return x.decided || x.re.MatchString(s)
}
