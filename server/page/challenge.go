package page

import (
	"slices"
	"strconv"
	"strings"
)

// A Challenge is what changes between two challenge pages.
type Challenge struct {
	Lang      *Lang  // nil: English
	Token     []byte // base64url
	Algorithm uint8
	Bits      uint8
	Parts     int

	// The way without JavaScript: after WaitSeconds, WaitToken opens Target (a request
	// target as it came). No WaitToken: there is no such way to this page. Nor is there
	// for a Target of more than 4 KiB, whose link would be too long for many a server.
	WaitToken   []byte
	WaitSeconds int
	Target      string

	// NoCookies: somebody on this network has just waited and did not bring the pass
	// back. It may have been a neighbour, so the page says it beside the link, and only
	// does not follow the link by itself.
	NoCookies bool

	Support string // a short id that the visitor may quote; empty: none is shown
	Prove   bool   // opened in a tab of its own, to prove: it says so and stays

	// Framed: another site shows the page in a frame. It could make its visitors earn
	// passes that way, so there is nothing to solve or to wait for, only a link to the
	// same address in a new tab. Whatever is about the proof or the wait is ignored.
	Framed bool
}

const maxWaitTarget = 4 << 10

// challengeSheet is a challenge page of one language, cut where something goes in.
type challengeSheet struct {
	open    []byte // up to where <noscript> in the head takes the refresh
	middle  []byte // up to where the way without JavaScript goes
	wait    [3][]byte
	cookies []byte
	needJS  []byte
	framed  []byte // all up to the foot
	foot    foot
	data    []byte // up to the token, after the id
	close   []byte // after the number of parts
	size    int
}

func newChallengeSheet(c *common, l *Lang, prove bool) (s challengeSheet) {
	w := &l.words
	s.open = c.head(nil, l, w.Heading)
	s.open = append(s.open, c.noscript...)

	s.middle = append(s.middle, "</noscript>"+c.script...)
	s.middle = c.body(s.middle, w.Heading)
	s.middle = append(s.middle, "<p>"...)
	s.middle = appendHTML(s.middle, w.Lead)
	s.middle = append(s.middle, `</p><div id="js"><p role="status"></p></div><div id="way"><p>`...)

	before, after, _ := strings.Cut(w.Wait, "{t}")
	s.wait[0] = appendHTML(nil, before)
	s.wait[1] = appendHTML(nil, after)
	s.wait[1] = append(s.wait[1], `</p><p><a class="act" rel="nofollow" href="`...)
	s.wait[2] = append(s.wait[2], `">`...)
	s.wait[2] = appendHTML(s.wait[2], w.WaitLink)
	s.wait[2] = append(s.wait[2], "</a></p>"...)
	s.cookies = appendHTML(nil, w.Cookies)
	s.cookies = append(s.cookies, "</p><p>"...)
	s.needJS = appendHTML(nil, w.NeedJS)
	s.needJS = append(s.needJS, "</p>"...)

	s.framed = c.body(c.head(nil, l, w.Heading), w.Heading)
	s.framed = append(s.framed, "<p>"...)
	s.framed = appendHTML(s.framed, w.Lead)
	s.framed = append(s.framed, "</p><p>"...)
	s.framed = appendHTML(s.framed, w.Frame)
	// An empty href is the page's own address, query and all.
	s.framed = append(s.framed, `</p><p><a class="act" target="_blank" rel="noopener" href="">`...)
	s.framed = appendHTML(s.framed, w.NewTab)
	s.framed = append(s.framed, "</a></p>"...)

	s.foot = c.foot(l)
	s.data = []byte(`<script type="application/json" id="data">{"token":`)

	done := w.Done
	if prove {
		done = w.Proved
		s.close = append(s.close, `,"prove":true`...)
	}
	s.close = append(s.close, `,"words":{`...)
	for _, word := range [][2]string{
		{"work", w.Work}, {"slow", w.Slow}, {"more", w.More}, {"done", done}, {"cookies", w.Cookies},
		{"frame", w.Frame}, {"new_tab", w.NewTab}, {"loop", w.Loop}, {"failed", w.Failed},
		{"network", w.Network}, {"ceiling", w.Ceiling}, {"waiting", w.Waiting}, {"again", w.Again},
	} {
		s.close = append(s.close, `"`+word[0]+`":`...)
		s.close = append(appendJSON(s.close, word[1]), ',')
	}
	s.close = append(s.close, `"units":[`...)
	for i, unit := range w.Units {
		if i > 0 {
			s.close = append(s.close, ',')
		}
		s.close = appendJSON(s.close, unit)
	}
	s.close = append(s.close, "]}}</script></body></html>\n"...)

	s.size = len(s.open) + len(s.middle) + len(s.wait[0]) + len(s.wait[1]) + len(s.wait[2]) + len(s.cookies) +
		len(s.foot.before) + len(s.foot.after) + len(s.data) + len(s.close) + 256
	return s
}

// AppendChallenge appends a challenge page, and does not allocate if dst has the room.
func (p *Pages) AppendChallenge(dst []byte, c *Challenge) []byte {
	l := c.Lang
	if l == nil {
		l = english
	}
	s := &p.challenges[l.index][0]
	if c.Prove {
		s = &p.challenges[l.index][1]
	}
	if c.Framed {
		dst = slices.Grow(dst, len(s.framed)+len(s.foot.before)+len(s.foot.after)+256)
		dst = append(dst, s.framed...)
		dst = s.foot.append(dst, c.Support)
		return append(dst, "</body></html>\n"...)
	}
	dst = slices.Grow(dst, s.size+2*len(c.Target)*4/3+2*len(c.WaitToken)+len(c.Token))

	wait := len(c.WaitToken) > 0 && len(c.Target) <= maxWaitTarget
	dst = append(dst, s.open...)
	if wait && !c.NoCookies {
		dst = append(dst, `<meta http-equiv="refresh" content="`...)
		dst = strconv.AppendInt(dst, int64(max(c.WaitSeconds, 0)), 10)
		dst = append(dst, ";url="...)
		dst = appendWaitURL(dst, c)
		dst = append(dst, `">`...)
	}
	dst = append(dst, s.middle...)
	if c.NoCookies {
		dst = append(dst, s.cookies...)
	}
	if wait {
		dst = append(dst, s.wait[0]...)
		dst = appendTime(dst, l, c.WaitSeconds)
		dst = append(dst, s.wait[1]...)
		dst = appendWaitURL(dst, c)
		dst = append(dst, s.wait[2]...)
	} else {
		dst = append(dst, s.needJS...)
	}
	dst = append(dst, "</div>"...)
	dst = s.foot.append(dst, c.Support)
	dst = append(dst, s.data...)
	dst = appendJSON(dst, c.Token)
	dst = append(dst, `,"algorithm":`...)
	dst = strconv.AppendUint(dst, uint64(c.Algorithm), 10)
	dst = append(dst, `,"bits":`...)
	dst = strconv.AppendUint(dst, uint64(c.Bits), 10)
	dst = append(dst, `,"parts":`...)
	dst = strconv.AppendInt(dst, int64(c.Parts), 10)
	return append(dst, s.close...)
}

// appendWaitURL appends the address that the wait leads to, as part of an attribute.
// The target is opaque in it: neither a browser nor nginx reads it as a path.
func appendWaitURL(dst []byte, c *Challenge) []byte {
	dst = append(dst, waitPath+"?t="...)
	dst = appendHTML(dst, c.WaitToken)
	dst = append(dst, "&amp;u="...)
	return appendBase64(dst, c.Target)
}
