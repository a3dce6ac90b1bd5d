package config

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Mistake is one thing that is wrong with a configuration. Load and Parse return all
// of them, joined, in the order of the files and lines.
type Mistake struct {
	Pos   Pos
	Where string // the table: `meter "render"`, "[pass]"; "" at the top of a file
	What  string // as written: `window = "60"`
	Want  string // what to write instead
}

// Error is the line that stile prints, "FILE:LINE: where: what: way out".
func (m *Mistake) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s:%d", m.Pos.File, m.Pos.Line)
	for _, part := range [...]string{m.Where, m.What, m.Want} {
		if part != "" {
			b.WriteString(": ")
			b.WriteString(part)
		}
	}
	// One line, whatever was quoted: the file may be anything, or the library's words.
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, b.String())
}

// join makes one error of all mistakes, in reading order. files says which is first.
func join(mistakes []*Mistake, files []string) error {
	slices.SortStableFunc(mistakes, func(a, b *Mistake) int {
		return cmp.Or(
			cmp.Compare(slices.Index(files, a.Pos.File), slices.Index(files, b.Pos.File)),
			cmp.Compare(a.Pos.Line, b.Pos.Line))
	})
	errs := make([]error, len(mistakes))
	for i, m := range mistakes {
		errs[i] = m
	}
	return errors.Join(errs...)
}

// didYouMean is `did you mean "x"?` for the nearest word, "" when none is near.
func didYouMean(typed string, words []string) string {
	if near := nearest(typed, words); near != "" {
		return fmt.Sprintf("did you mean %q?", near)
	}
	return ""
}

// nearest is the word that was most likely meant, "" when none is near: at most one
// edit for each three letters. Case, hyphens and the like do not count.
func nearest(typed string, words []string) string {
	if len(typed) > 64 {
		return ""
	}
	bare := func(s string) string {
		return strings.NewReplacer("-", "", "_", "", " ", "").Replace(strings.ToLower(s))
	}
	best, least := "", 1<<30
	for _, w := range words {
		d := distance(bare(typed), bare(w))
		if d < least && d <= max(1, len(w)/3) && d < len(w) {
			best, least = w, d
		}
	}
	return best
}

// distance counts the letters to insert, delete, replace or swap with their neighbour
// to turn a into b (optimal string alignment, the restricted Damerau-Levenshtein).
func distance(a, b string) int {
	before, above := []int(nil), make([]int, len(b)+1)
	for j := range above {
		above[j] = j
	}
	for i := range len(a) {
		row := make([]int, len(b)+1)
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			row[j+1] = min(above[j+1]+1, row[j]+1, above[j]+cost)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, above = above, row
	}
	return above[len(b)]
}

// either is `"a", "b" or "c"`.
func either(words []string) string {
	var b strings.Builder
	for i, w := range words {
		switch {
		case i == 0:
		case i == len(words)-1:
			b.WriteString(" or ")
		default:
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%q", w)
	}
	return b.String()
}
