package config

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// findShadowed reports rules that can never match, because a rule above them in the
// same file takes every request that they could. A rule of the operator's that takes
// everything from a preset may be meant so, and is no mistake.
//
// It is sound, not complete: it compares texts of patterns, prefixes of paths and
// networks, and does not reason about regular expressions.
func (in *reading) findShadowed() {
	for i := range in.rules {
		b := &in.rules[i]
		if b.broken {
			continue
		}
		for j := range i {
			a := &in.rules[j]
			if a.broken || a.Pos.File != b.Pos.File || a.Do == Suspect || a.Do == 0 || a.Mode == Observe || !a.Match.covers(&b.Match) {
				continue
			}
			b.table.report(b.table.node, "it can never match",
				fmt.Sprintf("rule %q (line %d) takes every such request before: move this one above it, or take one out", a.Name, a.Pos.Line))
			break
		}
	}
}

// covers tells whether m surely matches every request that o matches.
func (m *Match) covers(o *Match) bool {
	for _, h := range m.Header {
		i := slices.IndexFunc(o.Header, func(oh HeaderMatch) bool { return oh.Name == h.Name })
		if i < 0 || !coversList(h.Patterns, o.Header[i].Patterns, same) {
			return false
		}
	}
	return coversList(m.Host, o.Host, same) &&
		(slices.Contains(m.Path, "/**") || coversList(m.Path, o.Path, coversPath)) &&
		coversList(m.Query, o.Query, same) &&
		coversList(m.Agent, o.Agent, same) &&
		coversList(m.Method, o.Method, same) &&
		coversList(m.Network, o.Network, coversPrefix) &&
		coversList(m.Crawler, o.Crawler, coversCrawler) &&
		coversList(m.ASN, o.ASN, equal) &&
		coversList(m.Country, o.Country, equal) &&
		(m.Not == nil || o.Not != nil && m.Not.within(o.Not))
}

// within tells whether o, as a not, excludes at least what m excludes.
func (m *Match) within(o *Match) bool {
	in := func(m, o []string, covers func(a, b string) bool) bool {
		return len(m) == 0 || coversList(o, m, covers) && len(o) > 0
	}
	for _, h := range m.Header {
		i := slices.IndexFunc(o.Header, func(oh HeaderMatch) bool { return oh.Name == h.Name })
		if i < 0 || !coversList(o.Header[i].Patterns, h.Patterns, same) {
			return false
		}
	}
	return in(m.Host, o.Host, same) && in(m.Path, o.Path, coversPath) && in(m.Query, o.Query, same) &&
		in(m.Agent, o.Agent, same) && in(m.Method, o.Method, same) &&
		(len(m.Network) == 0 || len(o.Network) > 0 && coversList(o.Network, m.Network, coversPrefix)) &&
		in(m.Crawler, o.Crawler, coversCrawler) &&
		(len(m.ASN) == 0 || len(o.ASN) > 0 && coversList(o.ASN, m.ASN, equal)) &&
		(len(m.Country) == 0 || len(o.Country) > 0 && coversList(o.Country, m.Country, equal))
}

// coversList tells whether each of bs is covered by one of as. No as is no condition;
// no bs, where there are as, are requests that as may not match.
func coversList[T any](as, bs []T, covers func(a, b T) bool) bool {
	if len(as) == 0 {
		return true
	}
	if len(bs) == 0 || len(as)*len(bs) > 1<<20 { // too long to compare: not known
		return false
	}
	for _, b := range bs {
		if !slices.ContainsFunc(as, func(a T) bool { return covers(a, b) }) {
			return false
		}
	}
	return true
}

func same(a, b string) bool { return a == b }

func equal[T comparable](a, b T) bool { return a == b }

// coversPath knows "/a/**" and what begins with "/a/".
func coversPath(a, b string) bool {
	if a == b {
		return true
	}
	prefix, ok := strings.CutSuffix(a, "/**")
	if !ok || strings.HasPrefix(a, "~") || strings.Contains(prefix, "*") || strings.HasPrefix(b, "~") {
		return false
	}
	literal, _, _ := strings.Cut(b, "*")
	return strings.HasPrefix(literal, prefix+"/")
}

func coversPrefix(a, b netip.Prefix) bool {
	return a.Bits() <= b.Bits() && a.Contains(b.Addr())
}
