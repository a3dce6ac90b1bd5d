package config

import (
	"fmt"

	"stile/decide/pattern"
)

// Patterns are compiled by decide/pattern: here to find what is wrong with them, and
// once more by the decision.

func checkPath(s string) error {
	p, err := pattern.CompilePath(s)
	if err != nil {
		return err
	}
	if why := p.Never(); why != "" {
		return fmt.Errorf("pattern %q: can never match: %s", s, why)
	}
	return nil
}

// checkExempt is for the path of a rule that lets through what it matches: an
// expression that matches more than was meant would be a hole.
func checkExempt(s string) error {
	p, err := pattern.CompilePath(s)
	if err != nil {
		return nil // reported by checkPath
	}
	if why := p.Loose(); why != "" {
		return fmt.Errorf("pattern %q: lets through more than it seems to: %s", s, why)
	}
	return nil
}

func checkHost(s string) error {
	_, err := pattern.CompileHost(s)
	return err
}

func checkText(s string) error {
	_, err := pattern.CompileText(s)
	return err
}

func checkQuery(s string) error {
	_, err := pattern.CompileQuery(s)
	return err
}
