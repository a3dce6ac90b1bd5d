package pattern

import (
	"regexp/syntax"
	"slices"
	"strings"
	"unicode/utf8"
)

// literals is what a regular expression demands of a text in plain strings. Of each list
// that is not empty one entry must hold.
type literals struct {
	whole []string // the text is it
	heads []string // it begins with it
	tails []string // it ends in it
	parts []needle // it contains it; without fold only their text is used

	fold    bool // the strings are in lower case and compared in any ASCII case
	decided bool // where they hold, the expression matches
	beyond  bool // with fold: it also matches texts with U+017F for an s or U+212A for a k

	anchored bool       // matches whole texts only
	looseDot bool       // has a dot between two letters, as in "favicon.ico"
	runs     [][]string // for Never: of each, one must be contained
}

// maxSet is how many strings a list may have: more tests would cost more than the engine.
// A class of more than maxClass characters is not worth its factor: "[0-9]" says little.
const (
	maxSet   = 16
	maxClass = 4
)

func (l *literals) may(s string) bool {
	return (len(l.whole) == 0 || l.is(s)) &&
		(len(l.heads) == 0 || l.begins(s)) &&
		(len(l.tails) == 0 || l.ends(s)) &&
		(len(l.parts) == 0 || l.has(s))
}

func (l *literals) is(s string) bool {
	for _, w := range l.whole {
		if l.fold && sameFold(s, w) || s == w {
			return true
		}
	}
	return false
}

func (l *literals) begins(s string) bool {
	for _, h := range l.heads {
		if l.fold && hasPrefixFold(s, h) || strings.HasPrefix(s, h) {
			return true
		}
	}
	return false
}

func (l *literals) ends(s string) bool {
	for _, t := range l.tails {
		if l.fold && hasSuffixFold(s, t) || strings.HasSuffix(s, t) {
			return true
		}
	}
	return false
}

func (l *literals) has(s string) bool {
	for i := range l.parts {
		if p := &l.parts[i]; l.fold && p.index(s) >= 0 || !l.fold && strings.Contains(s, p.low) {
			return true
		}
	}
	return false
}

// literalsOf finds them. The expression is taken as a sequence; what stands next to each
// other in it and has few possible texts is a run.
func literalsOf(tree *syntax.Regexp) literals {
	l := literals{
		fold:     folds(tree),
		decided:  true,
		anchored: anchoredBy(tree, syntax.OpBeginText) && anchoredBy(tree, syntax.OpEndText),
		looseDot: looseDot(tree),
	}
	seq := sequence(nil, tree)
	begin, end := false, false
	if len(seq) > 0 && seq[0].Op == syntax.OpBeginText {
		begin, seq = true, seq[1:]
	}
	if n := len(seq); n > 0 && seq[n-1].Op == syntax.OpEndText {
		end, seq = true, seq[:n-1]
	}
	// Runs, the first one and the last one possibly empty.
	runs := [][]string{{""}}
	for _, re := range seq {
		last := &runs[len(runs)-1]
		if set, ok := l.texts(re); !ok {
			l.decided = false
			runs = append(runs, []string{""})
		} else if longer := product(*last, set); longer != nil {
			*last = longer
		} else {
			l.decided = false
			runs = append(runs, set)
		}
	}

	if len(runs) == 1 && begin && end {
		l.whole = runs[0]
	} else {
		if begin {
			l.heads = useful(runs[0])
		}
		if end {
			l.tails = useful(runs[len(runs)-1])
		}
		best := 0
		for i, run := range runs {
			if i == 0 && begin || i == len(runs)-1 && end {
				continue
			}
			if n := shortest(run); n > best {
				best = n
				l.parts = l.parts[:0]
				for _, s := range run {
					l.parts = append(l.parts, newNeedle(s))
				}
			}
		}
	}
	for _, run := range runs {
		if len(useful(run)) > 0 {
			l.runs = append(l.runs, run)
		}
		l.beyond = l.beyond || l.fold && slices.ContainsFunc(run, func(s string) bool { return strings.ContainsAny(s, "ks") })
	}
	return l
}

// useful is run, or nil if it may be empty text: then it demands nothing.
func useful(run []string) []string {
	if shortest(run) == 0 {
		return nil
	}
	return run
}

func shortest(run []string) int {
	n := len(run[0])
	for _, s := range run {
		n = min(n, len(s))
	}
	return n
}

// product is each of a followed by each of b, or nil if these are too many.
func product(a, b []string) (out []string) {
	if len(a)*len(b) > maxSet {
		return nil
	}
	for _, x := range a {
		for _, y := range b {
			if !slices.Contains(out, x+y) {
				out = append(out, x+y)
			}
		}
	}
	return out
}

// sequence appends to seq what re matches one after the other.
func sequence(seq []*syntax.Regexp, re *syntax.Regexp) []*syntax.Regexp {
	switch re.Op {
	case syntax.OpCapture, syntax.OpConcat:
		for _, sub := range re.Sub {
			seq = sequence(seq, sub)
		}
		return seq
	case syntax.OpPlus: // once, and then anything
		return append(sequence(seq, re.Sub[0]), &syntax.Regexp{Op: syntax.OpStar, Sub: re.Sub})
	}
	return append(seq, re)
}

// texts lists all texts that re can match, if these are few. A condition without a text
// of its own counts as no text: what is demanded then is less than what re demands.
func (l *literals) texts(re *syntax.Regexp) (set []string, ok bool) {
	switch re.Op {
	case syntax.OpEmptyMatch:
		return []string{""}, true
	case syntax.OpBeginLine, syntax.OpEndLine, syntax.OpBeginText, syntax.OpEndText, syntax.OpWordBoundary, syntax.OpNoWordBoundary:
		l.decided = false
		return []string{""}, true
	case syntax.OpLiteral:
		return l.literal(re.Rune, re.Flags&syntax.FoldCase != 0)
	case syntax.OpCharClass:
		if len(re.Rune) == 0 || classSize(re) > maxClass {
			return nil, false
		}
		for i := 0; i < len(re.Rune); i += 2 {
			for r := re.Rune[i]; r <= re.Rune[i+1]; r++ {
				s, ok := l.literal([]rune{r}, false)
				if !ok {
					return nil, false
				}
				set = append(set, s...)
			}
		}
		return set, true
	case syntax.OpCapture:
		return l.texts(re.Sub[0])
	case syntax.OpQuest:
		set, ok = l.texts(re.Sub[0])
		return append(set, ""), ok
	case syntax.OpConcat:
		set = []string{""}
		for _, sub := range re.Sub {
			more, ok := l.texts(sub)
			if !ok {
				return nil, false
			}
			if set = product(set, more); set == nil {
				return nil, false
			}
		}
		return set, true
	case syntax.OpAlternate:
		for _, sub := range re.Sub {
			more, ok := l.texts(sub)
			if !ok || len(set)+len(more) > maxSet {
				return nil, false
			}
			set = append(set, more...)
		}
		return set, true
	}
	return nil, false
}

func classSize(class *syntax.Regexp) (n int) {
	for i := 0; i < len(class.Rune); i += 2 {
		n += int(class.Rune[i+1]-class.Rune[i]) + 1
	}
	return n
}

// literal is what texts is for runes in a row; folded: in any case, as (?i) has it.
func (l *literals) literal(runes []rune, folded bool) (set []string, ok bool) {
	for _, r := range runes {
		// The engine takes any byte that is not UTF-8 for this one.
		if r == utf8.RuneError || !utf8.ValidRune(r) || folded && r >= utf8.RuneSelf {
			return nil, false
		}
		if l.fold && !folded && r < utf8.RuneSelf && isLetter(byte(r)) {
			l.decided = false // the comparison takes both cases
		}
	}
	if l.fold {
		return []string{lower(string(runes))}, true
	}
	return []string{string(runes)}, true
}

// folds tells whether any part of re is compared without regard to case.
func folds(re *syntax.Regexp) bool {
	return re.Op == syntax.OpLiteral && re.Flags&syntax.FoldCase != 0 || slices.ContainsFunc(re.Sub, folds)
}

// anchoredBy tells whether re matches only at that end of the text.
func anchoredBy(re *syntax.Regexp, end syntax.Op) bool {
	switch re.Op {
	case end:
		return true
	case syntax.OpCapture:
		return anchoredBy(re.Sub[0], end)
	case syntax.OpConcat:
		if end == syntax.OpBeginText {
			return anchoredBy(re.Sub[0], end)
		}
		return anchoredBy(re.Sub[len(re.Sub)-1], end)
	case syntax.OpAlternate:
		return !slices.ContainsFunc(re.Sub, func(sub *syntax.Regexp) bool { return !anchoredBy(sub, end) })
	}
	return false
}

// looseDot tells whether somewhere in re a single dot stands between two letters or digits.
func looseDot(re *syntax.Regexp) bool {
	for i := 1; re.Op == syntax.OpConcat && i+1 < len(re.Sub); i++ {
		before, dot, after := re.Sub[i-1], re.Sub[i], re.Sub[i+1]
		if (dot.Op == syntax.OpAnyChar || dot.Op == syntax.OpAnyCharNotNL) && before.Op == syntax.OpLiteral && after.Op == syntax.OpLiteral &&
			isWord(before.Rune[len(before.Rune)-1]) && isWord(after.Rune[0]) {
			return true
		}
	}
	return slices.ContainsFunc(re.Sub, looseDot)
}

func isWord(r rune) bool {
	return r < utf8.RuneSelf && (isLetter(byte(r)) || '0' <= r && r <= '9')
}
