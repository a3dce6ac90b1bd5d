package crawler

// scanner finds the tokens of all crawlers in one pass over an agent. A pair of letters
// decides in a table of a kilobyte whether a token may begin there at all; few pairs of a
// browser's agent do (BenchmarkClaimed).
type scanner struct {
	first [1 << 10]uint8 // by pair: the first of the tokens that begin with it, plus one
	all   []token        // those of one pair stand together
}

type token struct {
	text string
	pair uint16
	id   ID
}

var tokens = newScanner(Known)

func newScanner(known []Crawler) *scanner {
	s := new(scanner)
	for i := range known {
		for _, t := range known[i].Tokens {
			s.all = append(s.all, token{t, pair(t[0], t[1]), ID(i + 1)})
		}
	}
	// Insertion sort by pair; there are a few dozen.
	for i := range s.all {
		for j := i; j > 0 && s.all[j].pair < s.all[j-1].pair; j-- {
			s.all[j], s.all[j-1] = s.all[j-1], s.all[j]
		}
	}
	for i := len(s.all) - 1; i >= 0; i-- {
		s.first[s.all[i].pair] = uint8(i + 1)
	}
	return s
}

// pair is five bits of each of two bytes: the same for capital and small letters.
func pair(a, b byte) uint16 { return uint16(a&31)<<5 | uint16(b&31) }

// maxAgent is how much of an agent is looked at; a crawler's is far shorter.
const maxAgent = 1024

// Claimed is the crawlers that an agent names. It allocates nothing.
func Claimed(agent string) Set { return tokens.find(agent) }

func (s *scanner) find(agent string) (set Set) {
	if len(agent) > maxAgent {
		agent = agent[:maxAgent]
	}
	for i := 0; i+1 < len(agent); i++ {
		k := s.first[pair(agent[i], agent[i+1])]
		if k == 0 {
			continue
		}
		p := s.all[k-1].pair
		for j := int(k - 1); j < len(s.all) && s.all[j].pair == p; j++ {
			if t := &s.all[j]; hasPrefixFold(agent[i:], t.text) {
				set |= t.id.bit()
			}
		}
	}
	return set
}

// hasPrefixFold compares with a prefix in lower case.
func hasPrefixFold(s, lower string) bool {
	if len(s) < len(lower) {
		return false
	}
	for i := range len(lower) {
		c := s[i]
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		if c != lower[i] {
			return false
		}
	}
	return true
}

// With is the set and one more.
func (s Set) With(id ID) Set { return s | id.bit() }

// Has tells whether a crawler is in the set.
func (s Set) Has(id ID) bool { return id != 0 && s&id.bit() != 0 }

// First is the first crawler of a set in the order of Known, 0 of none.
func (s Set) First() ID {
	for i := range Known {
		if s&(1<<i) != 0 {
			return ID(i + 1)
		}
	}
	return 0
}
