package replay

import (
	"strings"
	"time"

	"stile/decide"
)

// Verdicts count requests of one reckoning. In the second, Asked are proofs: the requests
// that they were asked for are allowed, or refused, too.
type Verdicts struct{ Allowed, Asked, Refused int64 }

// ruleCount is what fell under one rule.
type ruleCount struct {
	requests       int64
	callers, asked distinct
	verdicts       [2]Verdicts
	reasons        [decide.Reasons]int64 // of those that are not allowed, if nobody solves
	first          int64
	firstWhy       decide.Reason
	firstMeter     int
	bytes, took    int64
	timed          int64
}

// bite is one limit that said no.
type bite struct {
	requests int64
	callers  distinct
	first    int64
}

// route is the first segment of paths.
type route struct {
	requests, asked, refused, bytes, took, timed int64
}

// noted keeps what is told of requests that are not let through.
func (s *simulation) noted(r *request, v decide.Verdict, rc *ruleCount, e *caller, rule int, found bool, key uint64, now int64) {
	rc.reasons[v.Reason]++
	rc.asked.add(key)
	m, byMeter := s.strict.Policy().Meter(v)
	if !byMeter {
		m = -1
	}
	if rc.first == 0 {
		rc.first, rc.firstWhy, rc.firstMeter = now, v.Reason, m
	}
	if !found {
		rule = -1
	}
	if e.what == nil {
		e.what = &what{at: now, rule: rule, meter: m, reason: v.Reason.String(), target: clip(r.target), agent: clip(r.agent), addr: r.addr.String()}
		if !r.addr.Is4() {
			p, _ := r.addr.Prefix(64)
			e.what.addr = p.String()
		}
		if r.user != "" {
			e.what.addr = "user " + clip(r.user)
		}
	}
	if byMeter && v.Reason >= decide.Meter && v.Reason <= decide.Collective {
		at := 3*m + int(v.Reason-decide.Meter)
		if s.bites[at] == nil {
			s.bites[at] = &bite{first: now}
		}
		s.bites[at].requests++
		s.bites[at].callers.add(key)
	}
}

// clip is a copy of the beginning of a client's text.
func clip(s string) string { return strings.Clone(s[:min(len(s), maxText)]) }

// behind counts a request that is judged later than it came.
func (s *simulation) behind(r *request) {
	by := time.Duration(s.now - r.at)
	if r.took > 0 {
		s.late++
		return
	}
	if by > time.Second {
		s.back++
		s.mostBack = max(s.mostBack, by)
	}
}

// routeNames are the first segments of paths, numbered as they come.
type routeNames struct {
	ids   map[string]uint16
	names []string
}

// maxRoutes is how many there are at most; the last is all others.
const maxRoutes = 2000

func newRouteNames() *routeNames { return &routeNames{ids: map[string]uint16{}} }

// of is the number of a path's first segment.
func (n *routeNames) of(path string) uint16 {
	name := path
	if i := strings.IndexByte(path[1:], '/'); i >= 0 {
		name = path[:i+2]
	}
	name = name[:min(len(name), 64)]
	if id, ok := n.ids[name]; ok {
		return id
	}
	if len(n.names) >= maxRoutes {
		if len(n.names) == maxRoutes {
			n.names = append(n.names, "(others)")
		}
		return maxRoutes
	}
	id := uint16(len(n.names))
	name = strings.Clone(name)
	n.names = append(n.names, name)
	n.ids[name] = id
	return id
}
