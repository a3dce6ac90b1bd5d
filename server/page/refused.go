package page

import (
	"slices"
	"strconv"
	"strings"
)

// Reason says why a request is refused.
type Reason uint8

const (
	Limit   Reason = iota // too many requests; again after a while
	Denied                // the operator does not want it; never
	Busy                  // too many visitors at once; the page tries again by itself
	Ceiling               // this network has had its passes of today
	Unsafe                // something was sent that first needs a proof, in another tab
	Early                 // the link of a wait was followed too soon; the page tries again by itself
	Failed                // the link of a wait is of no use (any more)
	reasons
)

func (r Reason) String() string {
	if r < reasons {
		return [reasons]string{"limit", "denied", "busy", "ceiling", "unsafe", "early", "failed"}[r]
	}
	return "unknown"
}

// A Refused is what changes between two refusals.
type Refused struct {
	Lang         *Lang // nil: English
	Reason       Reason
	RetrySeconds int    // when it may go better; 0: not said
	Support      string // a short id that the visitor may quote; empty: none is shown

	// Target is where the link to try again leads: a path on this site, with its query;
	// what is not surely one leads to the front page. Empty: the page's own address, and
	// for Failed, whose address will not get better, the front page.
	Target string

	// Posted: the request was not a GET or HEAD. Then the page neither repeats it by
	// itself nor has a link that would repeat it as a GET; it says how to go back and
	// send again.
	Posted bool
}

// refusedSheet is a refusal of one language, cut where something goes in.
type refusedSheet struct {
	open   []byte    // up to where the head takes the refresh and the script
	script []byte    // for the page that tries again by itself
	text   []byte    // up to the waiting time
	posted []byte    // the same, when something was sent
	wait   [2][]byte // around the waiting time
	again  [2][]byte // around the address that the link leads to; empty: no link
	foot   foot
	size   int
}

func newRefusedSheet(c *common, l *Lang, r Reason) (s refusedSheet) {
	w := &l.words
	heading, text, posted := w.LimitHeading, w.Limit, w.Posted
	switch r {
	case Denied:
		heading, text, posted = w.DeniedHeading, w.Denied, w.Denied
	case Busy:
		heading, text = w.BusyHeading, w.Busy
	case Ceiling:
		text, posted = w.Ceiling, w.Ceiling
	case Unsafe:
		heading, text, posted = w.UnsafeHeading, w.Unsafe, w.Unsafe
	case Early:
		heading, text, posted = w.Heading, w.Lead, w.Lead
	case Failed:
		heading, text, posted = w.Heading, w.Failed, w.Failed
	}
	s.open = c.head(nil, l, heading)
	s.script = []byte(c.script)
	paragraph := func(text string) []byte {
		b := c.body(nil, heading)
		b = append(b, "<p>"...)
		b = appendHTML(b, text)
		return append(b, "</p>"...)
	}
	s.text, s.posted = paragraph(text), paragraph(posted)

	waiting, again := w.Waiting, w.Again
	if r == Early {
		waiting, again = w.Wait, w.WaitLink
	}
	before, after, _ := strings.Cut(waiting, "{t}")
	s.wait[0] = appendHTML([]byte(`<p id="wait">`), before)
	s.wait[1] = append(appendHTML(nil, after), "</p>"...)
	switch r {
	case Limit, Busy, Ceiling, Early, Failed:
		// An empty href is the page's own address, query and all.
		s.again[0] = []byte(`<p><a class="act" href="`)
		s.again[1] = appendHTML([]byte(`">`), again)
		s.again[1] = append(s.again[1], "</a></p>"...)
	case Unsafe:
		// A new tab: this one keeps its history, and the form in it.
		s.again[0] = []byte(`<p><a class="act" target="_blank" rel="noopener" href="` + provePath)
		s.again[1] = appendHTML([]byte(`">`), w.UnsafeLink)
		s.again[1] = append(s.again[1], "</a></p><p>"...)
		s.again[1] = appendHTML(s.again[1], w.UnsafeThen)
		s.again[1] = append(s.again[1], "</p>"...)
	}

	s.foot = c.foot(l)
	s.size = len(s.open) + len(s.script) + max(len(s.text), len(s.posted)) + len(s.wait[0]) + len(s.wait[1]) +
		len(s.again[0]) + len(s.again[1]) + len(s.foot.before) + len(s.foot.after) + 256
	return s
}

// AppendRefused appends a refusal, and does not allocate if dst has the room.
func (p *Pages) AppendRefused(dst []byte, r *Refused) []byte {
	l := r.Lang
	if l == nil {
		l = english
	}
	reason := r.Reason
	if reason >= reasons {
		reason = Denied
	}
	s := &p.refusals[l.index][reason]
	dst = slices.Grow(dst, s.size+len(r.Target))

	// Two ways to try again by itself, never both: page.js comes back when somebody
	// looks, a little later for everybody; without JavaScript the browser does.
	returns := reason == Busy && !r.Posted && r.RetrySeconds > 0
	dst = append(dst, s.open...)
	if returns {
		dst = append(dst, `<noscript><meta http-equiv="refresh" content="`...)
		dst = strconv.AppendInt(dst, int64(r.RetrySeconds), 10)
		dst = append(dst, `"></noscript>`...)
		dst = append(dst, s.script...)
	}
	if reason == Early && !r.Posted && r.RetrySeconds > 0 { // until the link is too old
		dst = append(dst, `<meta http-equiv="refresh" content="`...)
		dst = strconv.AppendInt(dst, int64(r.RetrySeconds), 10)
		dst = append(dst, `">`...)
	}
	if r.Posted {
		dst = append(dst, s.posted...)
	} else {
		dst = append(dst, s.text...)
	}
	if r.RetrySeconds > 0 && reason != Denied && reason != Unsafe {
		dst = append(dst, s.wait[0]...)
		dst = appendTime(dst, l, r.RetrySeconds)
		dst = append(dst, s.wait[1]...)
	}
	if len(s.again[0]) > 0 && (!r.Posted || reason == Unsafe) {
		dst = append(dst, s.again[0]...)
		if reason != Unsafe {
			dst = appendAgain(dst, r)
		}
		dst = append(dst, s.again[1]...)
	}
	dst = s.foot.append(dst, r.Support)
	if returns {
		dst = append(dst, `<script type="application/json" id="data">{"retry":`...)
		dst = strconv.AppendInt(dst, int64(r.RetrySeconds), 10)
		dst = append(dst, `}</script>`...)
	}
	return append(dst, "</body></html>\n"...)
}

// appendAgain appends the address that the link to try again leads to.
func appendAgain(dst []byte, r *Refused) []byte {
	if r.Target == "" && r.Reason != Failed || onSite(r.Target) {
		return appendHTML(dst, r.Target)
	}
	return append(dst, '/')
}

// onSite tells whether a browser surely reads a target as a path on this site. To it
// "//host" and "/\\host" are another site, and it drops line ends and tabs first.
func onSite(target string) bool {
	if target == "" || target[0] != '/' || len(target) > 1 && (target[1] == '/' || target[1] == '\\') {
		return false
	}
	for i := range len(target) {
		if target[i] <= ' ' || target[i] == 0x7f {
			return false
		}
	}
	return true
}
