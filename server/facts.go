package server

import (
	"bytes"
	"encoding/hex"
	"net/netip"
	"strings"

	"github.com/cespare/xxhash/v2"

	"stile/botauth"
	"stile/config"
	"stile/cookie"
	"stile/decide"
	"stile/decide/path"
	"stile/network"
)

// facts is what nginx says about one client request: everything that the handlers
// know, taken from the raw header block in one pass. It is reused through a pool.
type facts struct {
	req      decide.Request
	readings path.Readings

	// Borrowed from the request; see borrow.
	target, realIP, method, id, proto, host, server, user, cookie, verdict []byte

	bots   *botauth.Verifier
	signed [config.HeaderCount + 1]string // the values of signedFields, for bots

	pass    cookie.Pass
	hasPass bool // a valid pass that counts for this request
	held    bool // a valid pass, though it may have been proven elsewhere only

	verdictText []byte // as it is sent to nginx
	token       []byte // scratch for tokens and cookies
	page        []byte // scratch for an answer's body
	// fault is what is missing from nginx's side, "" when all is there.
	fault string
	// badTarget: nginx would have answered such a target with 400.
	badTarget bool
}

// What nginx itself says about a request; the client's own headers are the places of
// config.Headers.
const (
	fieldTarget = -1 - iota
	fieldMethod
	fieldRealIP
	fieldID
	fieldProto
	fieldHost
	fieldServer
	fieldUser
	fieldVerdict
	fieldForged
	fieldCookie
	fieldAgent
)

// field is a header that is looked at.
type field struct {
	name  string
	place int
}

// longestHeader bounds their names.
const longestHeader = 32

// fields has them by the length of their names: of one length there are at most four.
// It replaces a map, whose hash took a tenth of a check's time (BenchmarkFacts).
var fields = func() (all [longestHeader + 1][]field) {
	add := func(name string, place int) { all[len(name)] = append(all[len(name)], field{name, place}) }
	for i, name := range config.Headers {
		add(name, i)
	}
	for name, place := range map[string]int{
		"X-Original-URI": fieldTarget, "X-Original-Method": fieldMethod, "X-Real-IP": fieldRealIP, "X-Request-ID": fieldID,
		"X-Forwarded-Proto": fieldProto, "X-Forwarded-Host": fieldHost, "X-Stile-Server": fieldServer, "X-Stile-User": fieldUser, "X-Stile-Verdict": fieldVerdict,
		"X-Stile-Forged": fieldForged, "Cookie": fieldCookie, "User-Agent": fieldAgent,
	} {
		add(name, place)
	}
	return all
}()

// place finds a header by its name.
func place(name []byte) (int, bool) {
	list := fields[len(name)]
	for i := range list {
		if string(name) == list[i].name { // as the shipped snippet spells it
			return list[i].place, true
		}
	}
	for i := range list {
		if strings.EqualFold(borrow(name), list[i].name) {
			return list[i].place, true
		}
	}
	return 0, false
}

// read takes the facts from a raw header block. It never fails: what is missing or
// unusable is said in fault and badTarget.
func (f *facts) read(raw []byte) {
	f.reset()
	for len(raw) > 0 {
		line := raw
		if i := bytes.IndexByte(raw, '\n'); i >= 0 {
			line, raw = raw[:i], raw[i+1:]
		} else {
			raw = nil
		}
		if n := len(line); n > 0 && line[n-1] == '\r' {
			line = line[:n-1]
		}
		colon := bytes.IndexByte(line, ':')
		if colon <= 0 || colon > longestHeader {
			continue
		}
		value := line[colon+1:]
		for len(value) > 0 && (value[0] == ' ' || value[0] == '\t') {
			value = value[1:]
		}
		f.header(line[:colon], value)
	}
	f.finish()
}

func (f *facts) reset() {
	f.req.ID = [16]byte{}
	f.req.Header = decide.Header{}
	f.req.Agent, f.req.Host, f.req.HasXOU = "", "", false
	f.target, f.realIP, f.method, f.id, f.proto, f.host, f.server, f.user, f.cookie, f.verdict = nil, nil, nil, nil, nil, nil, nil, nil, nil, nil
	f.hasPass, f.held = false, false
	f.fault, f.badTarget = "", false
}

// header files one header away.
func (f *facts) header(name, value []byte) {
	at, ok := place(name)
	switch {
	case !ok:
	case at >= 0:
		f.req.Header[at] = borrow(value)
	case at == fieldTarget:
		f.target = value
	case at == fieldMethod:
		f.method = value
	case at == fieldRealIP:
		f.realIP = value
	case at == fieldID:
		f.id = value
	case at == fieldProto:
		f.proto = value
	case at == fieldHost:
		f.host = value
	case at == fieldServer:
		f.server = value
	case at == fieldUser:
		f.user = value
	case at == fieldVerdict:
		f.verdict = value
	case at == fieldForged:
		f.req.HasXOU = len(value) > 0
	case at == fieldCookie:
		f.cookie = value
	case at == fieldAgent:
		f.req.Agent = borrow(value)
	}
}

// finish turns the borrowed bytes into the values that the decision works on.
func (f *facts) finish() {
	r := &f.req
	r.Host = borrow(f.host)
	r.Method = "GET"
	if len(f.method) > 0 {
		r.Method = borrow(f.method)
	} else {
		f.fault = "X-Original-Method"
	}
	if len(f.id) == 32 {
		if _, err := hex.Decode(r.ID[:], f.id); err != nil {
			r.ID = [16]byte{}
		}
	}
	addr, err := netip.ParseAddr(borrow(f.realIP))
	switch {
	case string(f.realIP) == "unix:":
		// So nginx calls each client of a unix socket: a proxy on this machine, which it was not
		// told to look behind (set_real_ip_from). All that come from there are one, as over loopback.
		addr = netip.AddrFrom4([4]byte{127, 0, 0, 1})
	case err != nil:
		f.fault = "X-Real-IP"
	}
	r.Addr = network.Canonical(addr)
	r.From = network.Of(addr)
	r.Path, r.Query, r.Alt = "", "", nil
	if len(f.target) == 0 {
		f.fault = "X-Original-URI"
	} else if err := f.readings.Parse(borrow(f.target)); err != nil {
		f.badTarget = true
	} else {
		r.Path, r.Query, r.Alt = f.readings.Path, f.readings.Query, f.readings.Alt
	}
}

// identify is step 2 of the decision: who is it?
func (f *facts) identify(st *state, now uint32) {
	r := &f.req
	r.Caller, r.Look = decide.Caller{}, st
	r.Signed, f.bots = f, st.bots
	f.held = len(f.cookie) > 0 && st.passes.Find(f.cookie, st.cfg.Pass.Cookie, now, &f.pass)
	f.hasPass = f.held && st.accepts(&f.pass, r.From)
	switch {
	case len(f.user) > 0:
		r.Caller = decide.Caller{Kind: decide.User, Key: xxhash.Sum64(f.user)}
	case f.hasPass:
		r.Caller = decide.Caller{Kind: decide.Holder, Level: f.pass.Level, Key: xxhash.Sum64(f.pass.ID[:])}
	}
}

// missing tells whether nginx left out what a decision cannot do without.
func (f *facts) missing() bool { return f.fault != "" && f.fault != "X-Original-Method" }

func (f *facts) secure() bool { return string(f.proto) == "https" }
