// Package pattern compiles the text patterns of rules: path globs, hosts, agents and
// other header values, query parameters, and regular expressions for all of them.
//
// Whatever was compiled may be used by any number of goroutines. Match never panics,
// allocates nothing, and takes time linear in the text (globs of a text or a parameter:
// at most text times pattern), so that no client can choose a text that is dear.
// The zero value of each type matches nothing.
package pattern

import (
	"fmt"
	"strings"
)

func faultf(text, format string, args ...any) error {
	return fmt.Errorf("pattern %q: %s", text, fmt.Sprintf(format, args...))
}

// check refuses what no kind of pattern may be. A line break at the end comes from a
// block of text in the configuration and would keep the pattern from ever matching.
func check(text string) error {
	switch {
	case text == "":
		return faultf(text, "empty; leave the key out to match anything")
	case strings.ContainsAny(text[len(text)-1:], "\r\n"):
		return faultf(text, "ends in a line break; write it on one line")
	case strings.ContainsAny(text, "\r\n"):
		return faultf(text, "has a line break; write it on one line, and several patterns as a list")
	case strings.TrimSpace(text) != text:
		return faultf(text, `white space at an end; take it away, or in a regular expression write "\\x20"`)
	}
	for i := range len(text) {
		if text[i] < ' ' || text[i] == 0x7F {
			return faultf(text, `control byte %#02x at position %d; in a regular expression write it as "\\x%02x"`, text[i], i+1, text[i])
		}
	}
	return nil
}

// lower is strings.ToLower for ASCII only: header values need not be UTF-8.
func lower(s string) string {
	b := []byte(s)
	for i, c := range b {
		b[i] = lowerByte(c)
	}
	return string(b)
}

func lowerByte(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		return c | 0x20
	}
	return c
}

// sameFold tells whether s, in any ASCII case, is low, which is in lower case.
func sameFold(s, low string) bool {
	if len(s) != len(low) {
		return false
	}
	for i := range len(s) {
		if lowerByte(s[i]) != low[i] {
			return false
		}
	}
	return true
}

func hasPrefixFold(s, low string) bool { return len(s) >= len(low) && sameFold(s[:len(low)], low) }

func hasSuffixFold(s, low string) bool {
	return len(s) >= len(low) && sameFold(s[len(s)-len(low):], low)
}
