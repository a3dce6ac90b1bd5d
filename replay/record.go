package replay

import (
	"net/netip"
	"strings"

	"stile/config"
	"stile/network"
)

const headerReferer = config.HeaderReferer

// record is what one line tells about a request. Its strings are parts of a piece of the
// log, which stays in memory as long as any of them is kept.
type record struct {
	at     int64 // unix nanoseconds at which it came; the end, if the log has no durations
	end    int64 // and at which it ended
	took   int64 // nanoseconds; -1: not known
	worked int64 // of the backend; -1: not known, or it was not asked
	bytes  int64 // -1: not known
	told   int64 // what the backend said that it costs; -1: nothing
	status int
	addr   netip.Addr
	from   network.Network

	method, target, host, agent, user, pass, referer string
	named                                            bool     // user is $stile_user's
	header                                           []string // in the order of format.headers
	format                                           *format  // nil: no headers but the Referer
}

// fault is why a line is not a request that stile would have been asked about.
type fault uint8

const (
	fine   fault = iota
	unfit        // it does not have the format's shape
	noAddr       // no address
	noTime       // no time
	noAsk        // nginx answered by itself: no request, or none that it understood
	faults = noAsk + 1
)

// parser turns lines into records.
type parser struct {
	format *format
	clock  clock
	v      values
	arena  []string // for headers
	plain  bool     // the line has no escapes
}

// read fills r from a line. After a fault r is undefined, but for noAsk its times hold.
func (p *parser) read(line string, r *record) fault {
	f, v := p.format, &p.v
	if !f.cut(line, v) {
		return unfit
	}
	p.plain = strings.IndexByte(line, '\\') < 0
	text := v[fieldAddr]
	if text == "" {
		text = v[fieldProxyAddr]
	}
	var ok bool
	if r.addr, ok = parseAddr(text); !ok {
		return noAddr
	}
	if r.end, ok = p.time(); !ok {
		return noTime
	}
	r.from = network.Of(r.addr)
	r.status = int(number(v[fieldStatus]))
	r.took, r.worked, r.at = -1, -1, r.end
	if s := v[fieldTook]; s != "" {
		if r.took = seconds(s); r.took > 0 {
			r.at -= r.took
		}
	}
	if s := v[fieldUpstreamTime]; s != "" {
		r.worked = sum(s, seconds)
	}
	r.bytes = -1
	for _, k := range [...]field{fieldUpstreamBytes, fieldBytesSent, fieldBodyBytes} {
		if r.bytes < 0 && v[k] != "" {
			r.bytes = sum(v[k], number)
		}
	}
	r.told = -1
	if s := v[fieldCost]; s != "" {
		r.told = number(s)
	}
	if !p.request(r) {
		return noAsk
	}
	r.host = v[fieldHost]
	if r.host == "" {
		if r.host = v[fieldHTTPHost]; r.host == "" {
			r.host = v[fieldServer]
		}
	}
	r.host = p.text(r.host)
	r.agent = p.text(v[fieldAgent])
	r.pass = v[fieldPass]
	r.user, r.named = v[fieldStileUser], true
	if r.user == "" && v[fieldUser] != "" && r.status != 401 {
		r.user, r.named = p.text(v[fieldUser]), false
	}
	r.referer = p.text(v[head+headerReferer])
	r.header, r.format = nil, nil
	if len(f.headers) > 1 || len(f.headers) == 1 && f.headers[0] != head+headerReferer {
		p.headers(r)
	}
	return fine
}

// text is a value as it was before nginx escaped it.
func (p *parser) text(s string) string {
	if p.plain {
		return s
	}
	return p.format.plain(s)
}

// headers fills r.header. The memory is the record's for good.
func (p *parser) headers(r *record) {
	n := len(p.format.headers)
	if len(p.arena) < n {
		p.arena = make([]string, 1024*n)
	}
	r.header, r.format, p.arena = p.arena[:n:n], p.format, p.arena[n:]
	for i, k := range p.format.headers {
		r.header[i] = p.text(p.v[k])
	}
}

// request takes method and target out of the line. False: there is no request in it.
func (p *parser) request(r *record) bool {
	v := &p.v
	r.method, r.target = v[fieldMethod], v[fieldTarget]
	if r.target == "" && v[fieldURI] != "" {
		r.target = p.text(v[fieldURI])
		if args := v[fieldArgs]; args != "" && strings.IndexByte(r.target, '?') < 0 {
			r.target += "?" + p.text(args)
		}
		if r.method == "" {
			r.method = "GET"
		}
		return isMethod(r.method)
	}
	if s := v[fieldRequest]; s != "" && (r.target == "" || r.method == "") {
		i, j := strings.IndexByte(s, ' '), strings.LastIndexByte(s, ' ')
		if i <= 0 {
			return false
		}
		if i == j || !strings.HasPrefix(s[j+1:], "HTTP/") { // HTTP/0.9
			j = len(s)
		}
		r.method = s[:i]
		if r.target == "" {
			r.target = s[i+1 : j]
		}
	}
	if r.method == "" {
		r.method = "GET"
	}
	r.target = p.text(r.target)
	return r.target != "" && isMethod(r.method)
}

func isMethod(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < 'A' || c > 'Z') && c != '-' && c != '_' {
			return false
		}
	}
	return s != ""
}

// parseAddr is netip.ParseAddr, with a fast path for IPv4 (BenchmarkLine).
func parseAddr(s string) (netip.Addr, bool) {
	if b, ok := parseIPv4(s); ok {
		return netip.AddrFrom4(b), true
	}
	a, err := netip.ParseAddr(s)
	return network.Canonical(a), err == nil && a.Zone() == ""
}

func parseIPv4(s string) (b [4]byte, ok bool) {
	n, part, digits := uint(0), 0, 0
	for i := range len(s) {
		switch c := s[i]; {
		case '0' <= c && c <= '9' && digits < 3:
			n = n*10 + uint(c-'0')
			digits++
		case c == '.' && digits > 0 && n < 256 && part < 3:
			b[part] = byte(n)
			part, n, digits = part+1, 0, 0
		default:
			return b, false
		}
	}
	b[3] = byte(n)
	return b, part == 3 && digits > 0 && n < 256
}

// number is a whole number, -1 if there is none.
func number(s string) int64 {
	if s == "" || len(s) > 18 {
		return -1
	}
	n := int64(0)
	for i := range len(s) {
		c := s[i] - '0'
		if c > 9 {
			return -1
		}
		n = n*10 + int64(c)
	}
	return n
}

// seconds is "1.234" in nanoseconds, -1 if it is none. More than a year is none.
func seconds(s string) int64 {
	whole, fraction, _ := strings.Cut(s, ".")
	n := number(whole)
	if n < 0 || n > 366*24*3600 {
		return -1
	}
	part := nanos(fraction)
	if part < 0 {
		return -1
	}
	return n*1e9 + part
}

// nanos is what stands after a decimal point, perhaps nothing; -1 if it is no number.
func nanos(fraction string) int64 {
	if len(fraction) > 9 {
		fraction = fraction[:9]
	}
	if fraction == "" {
		return 0
	}
	n := number(fraction)
	if n < 0 {
		return -1
	}
	for range 9 - len(fraction) {
		n *= 10
	}
	return n
}

// sum adds what nginx writes when it has asked several backends: "0.1, 0.2 : 0.3". One that
// was not reached is "-". -1 if no number is there.
func sum(s string, parse func(string) int64) int64 {
	total := int64(-1)
	for s != "" {
		n := 0
		for n < len(s) && s[n] != ',' && s[n] != ':' && s[n] != ' ' {
			n++
		}
		if x := parse(s[:n]); x >= 0 {
			total = max(total, 0) + x
		}
		if n == len(s) {
			break
		}
		s = s[n+1:]
	}
	return total
}
