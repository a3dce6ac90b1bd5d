package crawler

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"
)

// Published reads addresses as owners publish them: JSON with a list of prefixes
// ({"prefixes": [{"ipv4Prefix": "…"}, {"ipv6Prefix": "…"}, "…"]}, or that list alone), or
// text with one a line. A word of any other kind anywhere in it is an error: half a list
// would make spoofers of the other half. date is the day it was made, "" if it does not
// say.
func Published(b []byte) (nets []netip.Prefix, date string, err error) {
	if len(b) > maxListBytes {
		return nil, "", fmt.Errorf("it is larger than %d bytes", maxListBytes)
	}
	b = bytes.TrimSpace(bytes.TrimPrefix(b, []byte("\xef\xbb\xbf")))
	switch {
	case len(b) == 0:
		return nil, "", errors.New("it is empty")
	case b[0] == '<':
		return nil, "", errors.New("it is a web page, not a list: the owner may have moved the list")
	case b[0] == '{' || b[0] == '[':
		nets, date, err = fromJSON(b)
	default:
		nets, err = fromText(string(b))
	}
	if err != nil {
		return nil, "", err
	}
	nets, err = check(nets)
	return nets, date, err
}

func fromJSON(b []byte) (nets []netip.Prefix, date string, err error) {
	var doc struct {
		CreationTime string            `json:"creationTime"`
		Prefixes     []json.RawMessage `json:"prefixes"`
	}
	to := any(&doc)
	if b[0] == '[' {
		to = &doc.Prefixes
	}
	if err := json.Unmarshal(b, to); err != nil {
		return nil, "", fmt.Errorf("it is not whole JSON of the usual form: %w", err)
	}
	if len(doc.CreationTime) >= len(time.DateOnly) {
		if day := doc.CreationTime[:len(time.DateOnly)]; isDay(day) {
			date = day
		}
	}
	for _, raw := range doc.Prefixes {
		words, err := prefixWords(raw)
		if err != nil {
			return nil, "", err
		}
		for _, word := range words {
			p, err := parsePrefix(word)
			if err != nil {
				return nil, "", err
			}
			nets = append(nets, p)
		}
	}
	return nets, date, nil
}

func isDay(s string) bool {
	_, err := time.Parse(time.DateOnly, s)
	return err == nil
}

// prefixWords are the prefixes of one entry: a text, or an object that has them under
// the names that are in use.
func prefixWords(raw json.RawMessage) (words []string, err error) {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return []string{s}, nil
	}
	var o struct {
		V4     string `json:"ipv4Prefix"`
		V6     string `json:"ipv6Prefix"`
		Prefix string `json:"prefix"`
		CIDR   string `json:"cidr"`
	}
	if err := json.Unmarshal(raw, &o); err != nil {
		return nil, fmt.Errorf("entry %.60q: want a prefix", raw)
	}
	for _, s := range []string{o.V4, o.V6, o.Prefix, o.CIDR} {
		if s != "" {
			words = append(words, s)
		}
	}
	if words == nil {
		return nil, fmt.Errorf("entry %.60q has no prefix", raw)
	}
	return words, nil
}

func fromText(s string) (nets []netip.Prefix, err error) {
	for n := 1; s != ""; n++ {
		var line string
		line, s, _ = strings.Cut(s, "\n")
		line, _, _ = strings.Cut(line, "#")
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		p, err := parsePrefix(line)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		if nets = append(nets, p); len(nets) > maxPrefixes {
			break // check says so
		}
	}
	return nets, nil
}

// parsePrefix reads a network, or an address alone. Bits beyond the length are cut: some
// owners write them.
func parsePrefix(s string) (netip.Prefix, error) {
	if !strings.Contains(s, "/") {
		a, err := netip.ParseAddr(s)
		if err != nil || a.Zone() != "" {
			return netip.Prefix{}, fmt.Errorf("%.60q: want an address or a network", s)
		}
		return netip.PrefixFrom(a, a.BitLen()), nil
	}
	p, err := netip.ParsePrefix(s)
	if err != nil {
		return netip.Prefix{}, fmt.Errorf("%.60q: want an address or a network", s)
	}
	return p.Masked(), nil
}
