package server

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"stile/budget"
)

func learnedGates() *gates {
	g := &gates{seed: 42, costs: budget.NewCosts(64, budget.Cost{})}
	for i := range 20 {
		g.costs.Teach(uint64(i%3), uint64(i)*0x9e3779b97f4a7c15, budget.Cost{Bytes: 1000, Time: time.Second}, 1)
	}
	place, _ := g.servers.find([]byte("a.example"), 1)
	g.servers.ended(nil, place, 1)
	g.servers.find([]byte("b.example"), 1)
	return g
}

func TestLearnedIsKept(t *testing.T) {
	state := learnedGates().appendState(nil)
	g := &gates{costs: budget.NewCosts(64, budget.Cost{})}
	if err := g.restore(state); err != nil {
		t.Fatal(err)
	}
	if g.seed != 42 || g.costs.Len() != 20 {
		t.Errorf("seed %d, %d costs", g.seed, g.costs.Len())
	}
	if _, told := g.servers.find([]byte("a.example"), 1); !told {
		t.Error("a.example does not tell any more")
	}
	if _, told := g.servers.find([]byte("b.example"), 1); told {
		t.Error("b.example tells")
	}
	if again := g.appendState(nil); len(again) != len(state) {
		t.Errorf("%d bytes, before %d", len(again), len(state))
	}
}

// Whatever the file has become, nothing is half taken.
func TestLearnedBroken(t *testing.T) {
	state := learnedGates().appendState(nil)
	f := func(what string, b []byte) {
		t.Helper()
		g := &gates{seed: 7, costs: budget.NewCosts(64, budget.Cost{})}
		if err := g.restore(b); err == nil {
			t.Errorf("%s was taken", what)
		} else if g.seed != 7 || g.costs.Len() != 0 || len(g.servers.told()) != 0 {
			t.Errorf("%s: an error, and it was half taken", what)
		}
	}
	for n := range len(state) {
		f("a part", state[:n])
	}
	f("more", append(bytes.Clone(state), 0))
	f("another version", bytes.Replace(state, []byte("learned 1"), []byte("learned 2"), 1))
	many := bytes.Clone(state)
	many[len(learnedMagic)+8] = 0xff
	many[len(learnedMagic)+11] = 0xff
	f("too many servers", many)
}

func TestWriteFile(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "learned")
	for _, text := range []string{"first", "second"} {
		if err := writeFile(name, []byte(text)); err != nil {
			t.Fatal(err)
		}
		if b, err := os.ReadFile(name); err != nil || string(b) != text {
			t.Errorf("%q %v", b, err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "x"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := writeFile(filepath.Join(dir, "x"), nil); err == nil {
		t.Error("a folder was replaced")
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if strings.Contains(f.Name(), ".new-") {
			t.Errorf("%s was left behind", f.Name())
		}
	}
}

func FuzzLearned(f *testing.F) {
	f.Add(learnedGates().appendState(nil))
	f.Add([]byte(learnedMagic))
	f.Fuzz(func(t *testing.T, b []byte) {
		g := &gates{costs: budget.NewCosts(64, budget.Cost{})}
		if g.restore(b) == nil {
			g.appendState(nil)
		}
	})
}
