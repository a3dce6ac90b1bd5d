package page

import (
	"strings"
	"testing"
)

func TestPickLanguage(t *testing.T) {
	f := func(header, want string) {
		t.Helper()
		if got := PickLanguage(header).Tag; got != want {
			t.Errorf("%q: %s, want %s", header, got, want)
		}
	}
	// What browsers send.
	f("", "en")
	f("de", "de")
	f("de-AT,de;q=0.9,en-US;q=0.8,en;q=0.7", "de")
	f("fr-CH, fr;q=0.9, en;q=0.8, de;q=0.7, *;q=0.5", "fr")
	f("en-US,en;q=0.5", "en")
	f("pt-BR,pt;q=0.8,en-US;q=0.5", "pt-BR")
	f("pt-PT,pt;q=0.8", "pt")
	f("pt-AO", "pt")
	f("zh-CN,zh;q=0.9", "zh-Hans")
	f("zh-TW,zh;q=0.9", "zh-Hant")
	f("zh-HK", "zh-Hant")
	f("zh-Hant-HK", "zh-Hant")
	f("zh-Hans-TW", "zh-Hans")
	f("zh-SG", "zh-Hans")
	f("zh", "zh-Hans")
	f("no", "nb")
	f("nn-NO,nn;q=0.9,no;q=0.8", "nb")
	f("iw-IL", "he")
	f("in", "id")
	f("sr-Latn-RS, hu;q=0.5", "hu")
	f("FA-ir", "fa")
	f("ur", "ur")
	f("es-419", "es")

	// Weights.
	f("en;q=0.1, de;q=0.9, fr;q=0.5", "de")
	f("de;q=0.5, fr;q=0.5", "de")
	f("de;q=0, fr;q=0.1", "fr")
	f("xx, yy;q=0.9, ja;q=0.001", "ja")
	f("xx;q=1.0, ja;q=1.000", "ja")
	f("ja ; q=0.3 , ko;Q=0.4", "ko")
	f("*", "en")
	f("*;q=0.9, ja;q=0.1", "en")
	f("*;q=0, ja;q=0.1", "ja")
	f("de;q=0", "en")

	// What is no weight weighs nothing.
	for _, q := range []string{"1.1", "2", "0.1234", "1.", "-1", ".5", "0,5", "NaN", "1e9", "", "0x1", "+1", "1.001", "0.5 0.5"} {
		want := "fr"
		if q == "1." {
			want = "de" // allowed: "1" [ "." 0*3("0") ]
		}
		f("de;q="+q+", fr;q=0.2", want)
	}
	f("de;level=1, fr;q=0.2", "fr")
	f("de;q=0.5;q=0.9, fr;q=0.2", "fr")

	// Hostile input.
	f("und", "en")
	f("-", "en")
	f(",,,;;;===", "en")
	f("\x00\xff\xfe", "en")
	f("de\x00", "en")
	f("d\xc3\xa9", "en")
	f(strings.Repeat("x", 9000), "en")
	f(strings.Repeat("xx,", 3000)+"de", "en")
	f(strings.Repeat(",", 31)+"de", "de")
	f(strings.Repeat(",", 32)+"de", "en")
	f(strings.Repeat("d", 15)+"-"+strings.Repeat("e", 100)+",nl", "nl")
	f("de-"+strings.Repeat("x-", 200), "de")
	f("../../etc/passwd", "en")
}

func FuzzPickLanguage(f *testing.F) {
	for _, s := range []string{"", "de-AT,de;q=0.9,en-US;q=0.8", "zh-Hant-HK;q=0.5,*;q=0.1", "und", "iw, in;q=0.999", "pt-br-x;q=1.000", ";q=,;;", "\xff,\x00"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, header string) {
		l := PickLanguage(header)
		if l == nil || languages[l.index] != l {
			t.Fatalf("%q: %v", header, l)
		}
		// It is English, or it was asked for.
		if primary, _, _ := strings.Cut(l.Tag, "-"); l != english {
			asked := strings.ToLower(header)
			for other, is := range byTag {
				if is == l && strings.Contains(asked, other) {
					return
				}
			}
			if !strings.Contains(asked, primary) {
				t.Fatalf("%q: %s", header, l.Tag)
			}
		}
	})
}
