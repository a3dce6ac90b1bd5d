package page

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"path"
	"strings"
)

//go:embed languages/*.json
var languageFiles embed.FS

// A Lang is one of the languages that the pages are written in, one file each in
// languages/. To add one, add a file, and for a script that runs from right to left its
// tag in readLanguages; the tests say what is missing.
type Lang struct {
	Tag string // BCP 47, as in Content-Language

	dir   string // "ltr" or "rtl"
	index int    // into languages
	words words
}

// words are what the visitor reads. {t} is a time in one of the units; the sentences
// around it are such that it needs no inflection.
type words struct {
	// The challenge page.
	Heading  string `json:"heading"`
	Lead     string `json:"lead"`
	Wait     string `json:"wait"` // without JavaScript; {t}
	WaitLink string `json:"wait_link"`
	NeedJS   string `json:"need_js"`
	Support  string `json:"support"` // {id}

	// What page.js says there.
	Work    string `json:"work"`
	Slow    string `json:"slow"`
	More    string `json:"more"`
	Done    string `json:"done"`
	Proved  string `json:"proved"`
	Cookies string `json:"cookies"`
	Frame   string `json:"frame"`
	NewTab  string `json:"new_tab"`
	Loop    string `json:"loop"`
	Failed  string `json:"failed"`
	Network string `json:"network"`
	Ceiling string `json:"ceiling"`
	Again   string `json:"again"`

	// The refused pages.
	Waiting       string `json:"waiting"` // {t}
	LimitHeading  string `json:"limit_heading"`
	Limit         string `json:"limit"`
	BusyHeading   string `json:"busy_heading"`
	Busy          string `json:"busy"`
	DeniedHeading string `json:"denied_heading"`
	Denied        string `json:"denied"`
	Posted        string `json:"posted"` // instead of Limit or Busy, when something was sent
	UnsafeHeading string `json:"unsafe_heading"`
	Unsafe        string `json:"unsafe"`
	UnsafeLink    string `json:"unsafe_link"`
	UnsafeThen    string `json:"unsafe_then"`

	Units [3]string `json:"units"` // seconds, minutes, hours; {n}
}

var (
	languages = readLanguages() // in the order of their files
	byTag     = indexLanguages()
	english   = byTag["en"]
)

// readLanguages reads the embedded files, which a test holds complete: a panic here
// reaches no user.
func readLanguages() (all []*Lang) {
	files, err := fs.Glob(languageFiles, "languages/*.json")
	if err != nil {
		panic(fmt.Sprintf("BUG: %v", err))
	}
	for i, name := range files {
		l := &Lang{Tag: strings.TrimSuffix(path.Base(name), ".json"), dir: "ltr", index: i}
		text, err := languageFiles.ReadFile(name)
		if err != nil {
			panic(fmt.Sprintf("BUG: %v", err))
		}
		d := json.NewDecoder(bytes.NewReader(text))
		d.DisallowUnknownFields()
		if err := d.Decode(&l.words); err != nil {
			panic(fmt.Sprintf("BUG: %s: %v", name, err))
		}
		switch l.Tag {
		case "ar", "fa", "he", "ur":
			l.dir = "rtl"
		}
		all = append(all, l)
	}
	return all
}

// indexLanguages finds languages by their tag in lower case, and by others that mean
// the same.
func indexLanguages() map[string]*Lang {
	index := map[string]*Lang{}
	for _, l := range languages {
		index[strings.ToLower(l.Tag)] = l
	}
	for other, tag := range map[string]string{
		"iw": "he", "in": "id", "mo": "ro", // withdrawn codes that are still sent
		"no": "nb", "nn": "nb",
		"zh": "zh-hans", "cmn": "zh-hans", "yue": "zh-hant",
	} {
		index[other] = index[tag]
	}
	return index
}

// Limits of what is looked at in one Accept-Language. A browser sends a few dozen
// bytes; whoever sends more gets the best of the beginning.
const (
	maxAcceptBytes  = 1024
	maxAcceptRanges = 32
)

// PickLanguage is the language that an Accept-Language (RFC 9110, section 12.5.4)
// prefers among those that there are, English when it names none of them. It never
// returns nil, whatever it is given, and does not allocate.
func PickLanguage(acceptLanguage string) *Lang {
	if len(acceptLanguage) > maxAcceptBytes {
		acceptLanguage = acceptLanguage[:maxAcceptBytes]
	}
	best, bestWeight := english, 0
	for n := 0; n < maxAcceptRanges && acceptLanguage != ""; n++ {
		var element string
		element, acceptLanguage, _ = strings.Cut(acceptLanguage, ",")
		tag, parameter, weighted := strings.Cut(element, ";")
		weight := 1000
		if weighted {
			weight = parseWeight(strings.Trim(parameter, " \t"))
		}
		if weight <= bestWeight {
			continue // also what is malformed: its weight is 0
		}
		if l := match(strings.Trim(tag, " \t")); l != nil {
			best, bestWeight = l, weight
		}
	}
	return best
}

// match finds the language for one range: the whole tag, or what it begins with.
func match(tag string) *Lang {
	if tag == "*" {
		return english
	}
	var buf [16]byte
	if len(tag) > len(buf) {
		tag = tag[:len(buf)] // no tag of ours is that long
	}
	lower := buf[:len(tag)]
	for i := range lower {
		c := tag[i]
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		lower[i] = c
	}
	if l := byTag[string(lower)]; l != nil {
		return l
	}
	primary, rest, _ := bytes.Cut(lower, []byte("-"))
	if string(primary) == "zh" && traditional(rest) {
		return byTag["zh-hant"]
	}
	if len(primary) == 2 && primary[0] == 'p' && primary[1] == 't' && bytes.HasPrefix(rest, []byte("br-")) {
		return byTag["pt-br"]
	}
	return byTag[string(primary)]
}

// traditional tells the script of Chinese: named, or that of the region.
func traditional(rest []byte) bool {
	for len(rest) > 0 {
		var part []byte
		part, rest, _ = bytes.Cut(rest, []byte("-"))
		switch string(part) {
		case "hant", "tw", "hk", "mo":
			return true
		case "hans":
			return false
		}
	}
	return false
}

// parseWeight reads "q=0.8" as 800. What is not a weight of RFC 9110, section
// 12.4.2, weighs nothing.
func parseWeight(s string) int {
	if len(s) < 3 || len(s) > 7 || s[0]|0x20 != 'q' || s[1] != '=' {
		return 0
	}
	s = s[2:]
	if s[0] != '0' && s[0] != '1' || len(s) > 1 && s[1] != '.' {
		return 0
	}
	weight, unit := int(s[0]-'0')*1000, 100
	for i := 2; i < len(s); i++ {
		if s[i] < '0' || s[i] > '9' {
			return 0
		}
		weight += int(s[i]-'0') * unit
		unit /= 10
	}
	if weight > 1000 {
		return 0
	}
	return weight
}
