// Package costkey makes the keys under which gates learn what requests cost: the daemon's
// and a replay's alike. Nothing but hashes is kept of what was asked for. No function
// allocates.
package costkey

import (
	"github.com/cespare/xxhash/v2"

	"stile/config"
	"stile/decide"
)

// Headers are those by which backends make a page, a part of it, or its data of one URL, by
// their places in config.Headers. (By languages and encodings they make much the same.)
var Headers = [...]int{config.HeaderAccept, config.HeaderXRequestedWith, config.HeaderHXRequest, config.HeaderTurboFrame}

// Route is the key of a rule and its gate, of which costs are learned together.
func Route(seed uint64, gate, rule string) uint32 {
	var d xxhash.Digest
	d.ResetWithSeed(seed)
	d.WriteString(gate)
	d.Write([]byte{0})
	d.WriteString(rule)
	return uint32(d.Sum64())
}

// Path is the key of what was asked for. The query is part of it: of one page with another
// query the cost is not known, and who asks cheaply by one must not teach that the other is
// cheap. For the same reason so is what a backend may choose a smaller answer by, or read as
// another path: with status 200, too. What a form asks for stands in its body: an empty
// search by GET says nothing of one by POST.
func Path(seed uint64, route uint32, r *decide.Request) uint64 {
	var d xxhash.Digest
	d.ResetWithSeed(seed ^ uint64(route))
	d.WriteString(r.Host)
	d.WriteString(r.Path)
	d.Write([]byte{0})
	d.WriteString(r.Query)
	if r.Method != "GET" && r.Method != "HEAD" {
		d.Write([]byte{0, 0xfe})
		d.WriteString(r.Method)
	}
	for _, h := range Headers {
		if v := r.Header[h]; v != "" {
			d.Write([]byte{0, byte(h)})
			d.WriteString(v)
		}
	}
	for _, alt := range r.Alt {
		d.Write([]byte{0, 0xff})
		d.WriteString(alt)
	}
	return d.Sum64()
}
