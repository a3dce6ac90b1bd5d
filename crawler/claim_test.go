package crawler

import (
	"strings"
	"testing"
)

const firefox = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"

func TestClaimed(t *testing.T) {
	f := func(agent, want string) {
		t.Helper()
		var names []string
		for i := range Known {
			if Claimed(agent).Has(ID(i + 1)) {
				names = append(names, Known[i].Name)
			}
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("%s: %q, want %q", agent, got, want)
		}
	}
	f("Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)", "google")
	f("Mozilla/5.0 (Linux; Android 6.0.1; Nexus 5X Build/MMB29P) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/120 Mobile Safari/537.36 (compatible; GOOGLEBOT/2.1)", "google")
	f("Googlebot-Image/1.0", "google")
	f("AdsBot-Google (+http://www.google.com/adsbot.html)", "google")
	f("FeedFetcher-Google; (+http://www.google.com/feedfetcher.html)", "google-user")
	f(firefox+",gzip(gfe) (via translate.google.com)", "google-user")
	f("Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; bingbot/2.0; +http://www.bing.com/bingbot.htm) Chrome/120 Safari/537.36", "bing")
	f("Mozilla/5.0 (Macintosh) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/13.1.1 Safari/605.1.15 (Applebot/0.1; +http://www.apple.com/go/applebot)", "apple")
	f("DuckDuckBot/1.1; (+http://duckduckgo.com/duckduckbot.html)", "duckduckgo")
	f("Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; GPTBot/1.1; +https://openai.com/gptbot)", "openai")
	f("Mozilla/5.0 (compatible; ChatGPT-User/1.0; +https://openai.com/bot)", "openai-user")
	f("Mozilla/5.0 (compatible; ClaudeBot/1.0; +claudebot@anthropic.com)", "anthropic")
	f("Mozilla/5.0 (compatible; PerplexityBot/1.0)", "perplexity")
	f("CCBot/2.0 (https://commoncrawl.org/faq/)", "commoncrawl")
	f("Mozilla/5.0 (compatible; MistralAI-User/1.0; +https://docs.mistral.ai/robots)", "mistral")
	f("Mozilla/5.0 (compatible; Amazonbot/0.1)", "amazon")
	f("Mozilla/5.0 (compatible; MojeekBot/0.11; +https://www.mojeek.com/bot.html)", "mojeek")
	f("Mozilla/5.0 (compatible; Qwantbot/1.0; +https://help.qwant.com/bot/)", "qwant")
	f("Mozilla/5.0 (compatible; archive.org_bot +http://archive.org/details/archive.org_bot)", "archive")
	f("Mozilla/5.0 (compatible; YandexBot/3.0; +http://yandex.com/bots)", "yandex")
	f("Mozilla/5.0 (compatible; Baiduspider/2.0; +http://www.baidu.com/search/spider.html)", "baidu")
	f("Mozilla/5.0 (compatible; PetalBot;+https://webmaster.petalsearch.com/site/petalbot)", "petal")
	f("Mozilla/5.0 (compatible; SeznamBot/4.0; +https://o-seznam.cz/)", "seznam")
	f("Googlebot bingbot", "google bing")
	f("x"+"googlebot", "google")
	f("googlebo", "")
	f("g", "")
	f("", "")
	f(strings.Repeat("x", maxAgent)+"googlebot", "")
	// People.
	f(firefox, "")
	f("Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36 Edg/140.0.0.0", "")
	f("Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.0 Mobile/15E148 Safari/604.1", "")
	f("Mozilla/5.0 (Linux; Android 14) AppleWebKit/537.36 (KHTML, like Gecko) YaBrowser/24.1 Mobile Safari/537.36", "")
	f("git/2.45.0", "")
}

// In one pass the same is found as by looking for each token.
func FuzzClaimed(f *testing.F) {
	f.Add(firefox)
	f.Add("GoogleBOT bingbot \xff")
	f.Fuzz(func(t *testing.T, agent string) {
		lower := []byte(agent[:min(len(agent), maxAgent)])
		for i, c := range lower {
			if 'A' <= c && c <= 'Z' {
				lower[i] = c + 'a' - 'A'
			}
		}
		var want Set
		for i := range Known {
			for _, token := range Known[i].Tokens {
				if strings.Contains(string(lower), token) {
					want = want.With(ID(i + 1))
				}
			}
		}
		if got := Claimed(agent); got != want {
			t.Fatalf("%q: %b, want %b", agent, got, want)
		}
	})
}

func BenchmarkClaimed(b *testing.B) {
	for name, agent := range map[string]string{"browser": firefox, "crawler": "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)"} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				Claimed(agent)
			}
		})
	}
}
