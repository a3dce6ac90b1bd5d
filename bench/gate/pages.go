package main

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os"
)

// sizes are the files of the story: what a page's name is, and how many bytes its file
// has at least. The last one is larger than the budget.
var sizes = []struct {
	name  string
	bytes int64
}{
	{"1.4", 1_400_000},
	{"4.4", 4_400_000},
	{"25", 25_000_000},
}

// writePages makes the files: what a package index knows of one package, with all its
// versions, their files and what they need. The same seed makes the same files.
func writePages(dir string, seed uint64) error {
	for i, s := range sizes {
		if err := writePage(pageFile(dir, s.name), s.bytes, rand.New(rand.NewPCG(seed, uint64(i)))); err != nil {
			return err
		}
	}
	return nil
}

func pageFile(dir, size string) string { return dir + "/" + size + ".json" }

func writePage(name string, size int64, rnd *rand.Rand) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	defer f.Close()
	w := &counted{w: bufio.NewWriterSize(f, 1<<16)}
	fmt.Fprintf(w, `{"name":%q,"synopsis":%q,"versions":[`, word(rnd), word(rnd)+" for "+word(rnd))
	for v := 0; w.n < size; v++ {
		if v > 0 {
			w.WriteString(",")
		}
		writeVersion(w, v, rnd)
	}
	w.WriteString("]}\n")
	if err := w.w.Flush(); err != nil {
		return err
	}
	return f.Close()
}

func writeVersion(w *counted, v int, rnd *rand.Rand) {
	fmt.Fprintf(w, `{"version":"%d.%d.%d","published":"20%02d-%02d-%02d","yanked":%t,"needs":[`, v/100, v/10%10, v%10, 10+rnd.IntN(16), 1+rnd.IntN(12), 1+rnd.IntN(28), rnd.IntN(50) == 0)
	for i := range 2 + rnd.IntN(8) {
		if i > 0 {
			w.WriteString(",")
		}
		fmt.Fprintf(w, `{"name":%q,"range":"^%d.%d"}`, word(rnd), rnd.IntN(9), rnd.IntN(30))
	}
	w.WriteString(`],"files":[`)
	for i := range 10 + rnd.IntN(60) {
		if i > 0 {
			w.WriteString(",")
		}
		fmt.Fprintf(w, `{"path":"%s.c","size":%d}`, word(rnd), rnd.IntN(100_000))
	}
	w.WriteString("]}")
}

// counted knows how much has been written.
type counted struct {
	w *bufio.Writer
	n int64
}

func (c *counted) Write(b []byte) (int, error) {
	c.n += int64(len(b))
	return c.w.Write(b)
}

func (c *counted) WriteString(s string) {
	c.n += int64(len(s))
	c.w.WriteString(s)
}

var syllables = []string{"ha", "lo", "gen", "par", "ser", "tri", "mo", "nad", "ef", "fect", "lens", "quo", "ri", "um", "ta", "ble"}

func word(rnd *rand.Rand) string {
	s := ""
	for range 2 + rnd.IntN(3) {
		s += syllables[rnd.IntN(len(syllables))]
	}
	return s
}
