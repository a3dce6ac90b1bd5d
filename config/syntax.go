package config

import (
	"errors"
	"fmt"
	"strings"

	"github.com/BurntSushi/toml"
)

// decode reads TOML. Its only mistakes are of syntax, and then there is one: the
// library stops at the first.
func decode(file, text string) (map[string]any, *node, *Mistake) {
	root, deep := locate(text)
	if deep {
		return nil, nil, &Mistake{Pos: Pos{file, root.line}, Where: "not TOML",
			What: fmt.Sprintf("brackets or a dotted key go more than %d deep here", maxDepth), Want: "close a bracket or a quote before"}
	}
	m, err := decodeTOML(text)
	if err == nil {
		return m, root, nil
	}
	wrong := &Mistake{Pos: Pos{file, 1}, Where: "not TOML", What: err.Error()}
	var pe toml.ParseError
	if errors.As(err, &pe) {
		lines := strings.Split(text, "\n")
		wrong.Pos.Line = min(max(pe.Position.Line, 1), len(lines))
		if strings.HasSuffix(pe.Message, `but got '\n' instead`) && strings.Contains(pe.Message, "name") {
			wrong.Pos.Line = max(wrong.Pos.Line-1, 1) // a header that its line does not close
		}
		wrong.What, wrong.Want = explain(pe.Message, strings.TrimSpace(lines[wrong.Pos.Line-1]))
	}
	return nil, nil, wrong
}

// decodeTOML survives a panic of the library: a reload must not end the daemon.
func decodeTOML(text string) (m map[string]any, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%v", r)
		}
	}()
	_, err = toml.Decode(text, &m)
	return m, err
}

// explain turns what the library says of a line into what the operator wrote and the
// way out. Where it knows none it keeps the library's words.
func explain(message, line string) (what, want string) {
	has := func(parts ...string) bool {
		for _, p := range parts {
			if strings.Contains(message, p) {
				return true
			}
		}
		return false
	}
	what = brief(line)
	key, value, pair := strings.Cut(line, "=")
	key, value = strings.TrimSpace(key), strings.TrimSpace(value)
	switch {
	case has("NULL bytes", "invalid UTF-8", "control characters"):
		return message, "save the file as plain text in UTF-8"
	case has("invalid escape", "hexadecimal digits after"):
		return what, `a backslash means something in "…": write patterns in single quotes, '…'`
	case has("strings cannot contain newlines"):
		return what, "close the quote on the same line"
	case has("already been defined", "already created"):
		if table, found := strings.CutPrefix(line, "["); found {
			table = strings.Trim(table, "[] \t")
			for _, t := range []string{"bot", "meter", "gate", "rule", "expect"} {
				if table == t {
					return what, fmt.Sprintf("write [[%s]], with double brackets, for each of them", t)
				}
			}
			return what, fmt.Sprintf("[%s] stands in this file twice: put its keys under one of them", table)
		}
		return what, fmt.Sprintf("%s is given twice here: keep one", key)
	case has("to end with a newline") && strings.HasPrefix(line, "["):
		return what, fmt.Sprintf("a header has as many closing brackets as opening ones: [[%s]]", strings.Trim(line, "[]"))
	case has("table name", "table array name"):
		return what, "a header stands alone on its line and is closed: [pass] or [[rule]]"
	case has("comma", "array terminator", "inline table terminator") || has("unexpected EOF; expected value") && strings.Contains(value, "["):
		return what, `entries stand between commas and the bracket is closed: ["a", "b"] or { a = "x", b = "y" }`
	case has("unexpected EOF"):
		return what, "what begins here is not closed before the file ends"
	case has("expected '.' or '='", "key name appears blank", "unexpected '='", "keys cannot start"):
		if k, v, ok := strings.Cut(line, ":"); ok && !pair && k != "" {
			return what, fmt.Sprintf("write %s = %s", strings.TrimSpace(k), quoteBare(strings.TrimSpace(v)))
		}
		return what, "a line is KEY = VALUE, a [table], or a # comment"
	case pair && has("expected value but found", "to end with a newline", "invalid float", "expected a digit"):
		switch {
		case strings.HasSuffix(value, ","):
			return what, "no comma at the end of a line"
		case strings.HasPrefix(value, "="):
			return what, "write one ="
		case strings.HasPrefix(value, `"`) || strings.HasPrefix(value, "'"):
			return what, fmt.Sprintf(`one value for a key; several are a list: %s = ["a", "b"]`, key)
		case value == "":
			return what, fmt.Sprintf(`%s has no value: give it one or leave the line out`, key)
		}
		return what, fmt.Sprintf("text stands in straight quotes: %s = %s", key, quoteBare(value))
	}
	return what, message
}

// quoteBare puts text between quotes as the operator should have.
func quoteBare(s string) string {
	if s == "" || strings.ContainsAny(s[:1], `"'[{0123456789`) && !strings.ContainsAny(s[len(s)-1:], "smhd") {
		return s
	}
	s, _, _ = strings.Cut(s, " #")
	s = strings.Trim(strings.TrimSpace(s), `"“”„«»‘’`)
	if strings.Contains(s, `\`) {
		return "'" + s + "'"
	}
	return `"` + s + `"`
}

// brief is text on one line of at most 80 characters.
func brief(s string) string {
	line, _, more := strings.Cut(s, "\n")
	line = strings.TrimRight(line, " \t\r")
	if r := []rune(line); len(r) > 80 {
		line, more = string(r[:79]), true
	}
	if more {
		line += "…"
	}
	return line
}
