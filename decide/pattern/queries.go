package pattern

import "strings"

// Queries is a list of Query. The parameters of a query are looked through once for all of
// them, and most by their first byte only. The zero value is an empty list.
type Queries struct {
	named  []Query
	first  [4]uint64 // the bytes with which their names begin
	others []Query   // expressions, which see the whole query
}

// CompileQueries compiles a list.
func CompileQueries(texts []string) (qs Queries, err error) {
	for _, text := range texts {
		q, err := CompileQuery(text)
		switch {
		case err != nil:
			return Queries{}, err
		case q.re != nil:
			qs.others = append(qs.others, q)
		default:
			qs.named = append(qs.named, q)
			qs.first[q.name[0]>>6] |= 1 << (q.name[0] & 63)
		}
	}
	return qs, nil
}

// Empty tells whether there are none.
func (qs *Queries) Empty() bool { return len(qs.named)+len(qs.others) == 0 }

// Match tells whether any of them matches a raw query, without its question mark.
func (qs *Queries) Match(s string) bool {
	if len(qs.named) > 0 && qs.matchNamed(s) {
		return true
	}
	for i := range qs.others {
		if qs.others[i].re.match(s) {
			return true
		}
	}
	return false
}

func (qs *Queries) matchNamed(s string) bool {
	for s != "" {
		param := s
		if i := separator(s); i < len(s) {
			param, s = s[:i], s[i+1:]
		} else {
			s = ""
		}
		if param == "" {
			continue
		}
		first, _ := decodeAt(param, 0)
		if qs.first[first>>6]&(1<<(first&63)) == 0 {
			continue
		}
		name, value, _ := strings.Cut(param, "=")
		for i := range qs.named {
			if qs.named[i].has(name, value) {
				return true
			}
		}
	}
	return false
}

// Present tells whether any of them matches every query but the empty one.
func (qs *Queries) Present() bool {
	for i := range qs.others {
		if qs.others[i].re.re.String() == "(?s)." {
			return true
		}
	}
	return false
}
