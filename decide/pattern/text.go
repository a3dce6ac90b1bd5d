package pattern

import "strings"

// Text is a pattern for an agent or another header value. Plain text matches where it is
// contained, in any ASCII case; a "*" in it stands for any run of bytes. "~" and "~*"
// begin regular expressions (see Path).
type Text struct {
	pieces []needle // in this order
	re     *regex
}

// CompileText compiles a Text, or says what is wrong with it and the way out.
func CompileText(text string) (Text, error) {
	if text == "" {
		return Text{}, faultf(text, `empty; to match an absent header write "~^$"`)
	}
	if err := check(text); err != nil {
		return Text{}, err
	}
	if text[0] == '~' {
		re, err := compileRegex(text, false)
		return Text{re: re}, err
	}
	var t Text
	for piece := range strings.SplitSeq(text, "*") {
		if piece != "" {
			t.pieces = append(t.pieces, newNeedle(lower(piece)))
		}
	}
	if len(t.pieces) == 0 {
		return Text{}, faultf(text, `matches anything; leave the key out, or to match a header that is present write "~."`)
	}
	return t, nil
}

// Match tells whether a header value matches. An absent header is "".
func (t *Text) Match(s string) bool {
	if t.re != nil {
		return t.re.match(s)
	}
	for i := range t.pieces {
		at := t.pieces[i].index(s)
		if at < 0 {
			return false
		}
		s = s[at+len(t.pieces[i].low):]
	}
	return len(t.pieces) > 0
}
