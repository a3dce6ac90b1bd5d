package replay

import (
	"fmt"
	"slices"
	"sort"
	"strings"
	"time"

	"stile/budget"
	"stile/config"
	"stile/decide"
)

// Report is what came of a run.
type Report struct {
	Policy   []string // the files of the configuration
	Logs     []string
	Formats  []string
	Bytes    int64 // of lines, unpacked
	Requests int64
	Callers  int // an estimate, within 1 %
	First    time.Time
	Last     time.Time
	Assumed  []string    // what the log cannot tell, and what was taken for it
	Verdicts [2]Verdicts // before gates
	AtGates  [2]int64    // refused at a gate, of those that are allowed
	Rules    []RuleRow   // by requests
	Unused   []string    // rules under which nothing fell
	Limits   []LimitRow
	Choices  []ChoiceRow
	Top      []CallerRow
	Routes   []RouteRow
	Gates    []GateRow
	NoTimes  bool // the log has none: gates cannot be reckoned
	Skipped  Skipped

	series *series
}

// RuleRow is one rule.
type RuleRow struct {
	Name     string
	Requests int64
	Callers  int // an estimate
	Verdicts [2]Verdicts
	Stopped  int // callers that were asked or refused, if nobody solves
	First    time.Time
	Why      string // of the first
	Reasons  string // of all, the most frequent first
	Seconds  float64
	Bytes    int64
	Would    int64 // of a rule in observe mode: requests that it would not have let through
	Observes bool
}

// LimitRow is a limit that was reached, if nobody solves.
type LimitRow struct {
	Meter, Of string
	Limit     int64 // 0: several, by the kind of network, that are multiples of
	Stranger  int64
	Window    time.Duration
	Requests  int64
	Callers   int
	First     time.Time
}

// ChoiceRow is what was asked of a meter, whatever its limits.
type ChoiceRow struct {
	Meter       string
	Window      time.Duration
	Stranger    uint32 // the limit in force, 0: none
	Callers     int64
	P50         int64 // what that share of callers did not exceed in any window
	P90, P99    int64
	Most        int64 // of one caller
	OnePercent  int64 // the least limit for a stranger that would have asked one caller in a hundred at most
	Nobody      int64 // and nobody; the networks around callers have multiples of it
	Strangers   uint32
	All         int64 // all strangers together, in their busiest window
	AllAt       time.Time
	Minute      int64 // and minute of the clock
	MinuteAt    time.Time
	peaks       *histogram
	PerSegments bool
}

// CallerRow is one who was asked, or refused.
type CallerRow struct {
	Who                      string
	Requests, Asked, Refused int64
	First                    time.Time
	Rule, Why, Target, Agent string
}

// RouteRow is the first segment of paths.
type RouteRow struct {
	Path                     string
	Requests, Asked, Refused int64
	Bytes                    int64
	Seconds                  float64
	Mean                     float64 // seconds; -1: not known
}

// GateRow is a gate in one reckoning.
type GateRow struct {
	Name         string
	AllSolve     bool
	Budget       string
	Requests     int64
	Admitted     int64
	Waited       int64
	Asked        int64 // more than half the budget: a proof first
	Refused      string
	RefusedCount int64
	FirstRefused time.Time
	WaitP50      time.Duration
	WaitP99      time.Duration
	WaitMost     time.Duration
	MostQueue    int
	QueueAt      time.Time
	MostInFlight string
	InFlightAt   time.Time
	Places       int
	Notes        []string
	series       *series
	budget       int64
	amount       func(int64) string
}

const topRows = 20

func (s *simulation) report(zone *time.Location) *Report {
	at := func(ns int64) time.Time {
		if ns == 0 {
			return time.Time{}
		}
		return time.Unix(0, ns).In(zone)
	}
	s.demands.settle()
	f := s.feed
	r := &Report{
		Policy: s.cfg.Files, Formats: f.formats, Bytes: f.bytes, Requests: s.requests, Callers: s.everyone.count(),
		First: at(s.first), Last: at(s.last), Verdicts: s.verdicts, Skipped: f.skip, series: s.series, NoTimes: s.gates[0] == nil,
	}
	r.Skipped.Late, r.Skipped.Back, r.Skipped.MostBack = s.late, s.back, s.mostBack
	r.Assumed = s.assumed()
	s.ruleRows(r, at)
	s.limitRows(r, at)
	s.choiceRows(r, at)
	s.callerRows(r, at)
	s.routeRows(r)
	for k := range s.gates {
		for i := range s.cfg.Gates {
			if g := s.gates[k][s.cfg.Gates[i].Name]; g != nil && g.requests > 0 {
				r.Gates = append(r.Gates, g.row(k == 1, at))
				r.AtGates[k] += r.Gates[len(r.Gates)-1].RefusedCount
			}
		}
	}
	return r
}

func (s *simulation) ruleName(i int) string {
	if i < 0 || i >= len(s.cfg.Rules) {
		return "(no rule)"
	}
	return s.cfg.Rules[i].Name
}

func (s *simulation) ruleRows(r *Report, at func(int64) time.Time) {
	would := map[string]uint64{}
	s.strict.Policy().Rules(func(name string, _, n uint64) { would[name] = n })
	for i, c := range s.rules {
		name := s.ruleName(i)
		observes := i < len(s.cfg.Rules) && s.cfg.Rules[i].Mode == config.Observe
		suspects := i < len(s.cfg.Rules) && s.cfg.Rules[i].Do == config.Suspect
		if c.requests == 0 && !(observes && would[name] > 0) {
			if i < len(s.cfg.Rules) && !suspects {
				r.Unused = append(r.Unused, name)
			}
			continue
		}
		row := RuleRow{
			Name: name, Requests: c.requests, Callers: c.callers.count(), Verdicts: c.verdicts, First: at(c.first),
			Bytes: c.bytes, Seconds: float64(c.took) / 1e9, Observes: observes, Would: int64(would[name]),
		}
		if c.first != 0 {
			row.Stopped = c.asked.count()
			row.Why = s.why(c.firstWhy, c.firstMeter)
			row.Reasons = reasons(&c.reasons)
		}
		r.Rules = append(r.Rules, row)
	}
	sort.SliceStable(r.Rules, func(i, j int) bool { return r.Rules[i].Requests > r.Rules[j].Requests })
}

// why is a reason, and the meter if one was it.
func (s *simulation) why(reason decide.Reason, meter int) string {
	if meter < 0 {
		return reason.String()
	}
	return s.cfg.Meters[meter].Name + ", " + budgetOf[reason]
}

// budgetOf is whose budget was used up.
var budgetOf = map[decide.Reason]string{decide.Meter: "caller", decide.Wide: "wide", decide.Collective: "collective"}

func reasons(n *[decide.Reasons]int64) string {
	var list []decide.Reason
	for k, c := range n {
		if c > 0 {
			list = append(list, decide.Reason(k))
		}
	}
	slices.SortStableFunc(list, func(a, b decide.Reason) int { return cmpInt(n[b], n[a]) })
	var out []string
	for _, k := range list {
		name := budgetOf[k]
		if name == "" {
			name = k.String()
		}
		out = append(out, fmt.Sprintf("%s %s", name, count(n[k])))
	}
	return strings.Join(out, "; ")
}

func (s *simulation) limitRows(r *Report, at func(int64) time.Time) {
	for i := range s.cfg.Meters {
		m := &s.cfg.Meters[i]
		for k, of := range []string{"one caller", "the network around", "all strangers together"} {
			b := s.bites[3*i+k]
			if b == nil {
				continue
			}
			limit := [3]int64{int64(m.Stranger), 0, int64(m.Strangers)}[k]
			r.Limits = append(r.Limits, LimitRow{m.Name, of, limit, int64(m.Stranger), m.Window, b.requests, b.callers.count(), at(b.first)})
		}
	}
}

func (s *simulation) choiceRows(r *Report, at func(int64) time.Time) {
	for i := range s.cfg.Meters {
		m, all := &s.cfg.Meters[i], &s.demands.all[i]
		if all.asked == 0 {
			continue
		}
		p, needs := s.demands.of(i)
		r.Choices = append(r.Choices, ChoiceRow{
			Meter: m.Name, Window: m.Window, Stranger: m.Stranger, Callers: int64(p.n), Strangers: m.Strangers,
			P50: p.below(0.5), P90: p.below(0.9), P99: p.below(0.99), Most: p.max, OnePercent: needs.below(0.99), Nobody: max(needs.max, s.demands.wide.needs[i].max),
			All: all.peak, AllAt: at(all.peakAt), Minute: all.peakMinute, MinuteAt: at(all.peakMinuteAt), peaks: p, PerSegments: len(m.Per.Segments) > 0,
		})
	}
}

func (s *simulation) callerRows(r *Report, at func(int64) time.Time) {
	var list []*caller
	for i := range s.demands.callers.callers {
		if c := &s.demands.callers.callers[i]; c.what != nil {
			list = append(list, c)
		}
	}
	sort.Slice(list, func(i, j int) bool {
		a, b := list[i], list[j]
		if n, m := a.asked+a.refused, b.asked+b.refused; n != m {
			return n > m
		}
		return a.what.at < b.what.at || a.what.at == b.what.at && a.what.addr < b.what.addr
	})
	for _, c := range list[:min(len(list), topRows)] {
		w := c.what
		why := w.reason
		if w.meter >= 0 {
			why = s.cfg.Meters[w.meter].Name + " " + w.reason
		}
		r.Top = append(r.Top, CallerRow{w.addr, int64(c.requests), int64(c.asked), int64(c.refused), at(w.at), s.ruleName(w.rule), why, w.target, w.agent})
	}
}

func (s *simulation) routeRows(r *Report) {
	for i, path := range s.find.routes.names {
		n := &s.routes[i]
		row := RouteRow{Path: path, Requests: n.requests, Asked: n.asked, Refused: n.refused, Bytes: n.bytes, Seconds: float64(n.took) / 1e9, Mean: -1}
		if n.timed > 0 {
			row.Mean = row.Seconds / float64(n.timed)
		}
		r.Routes = append(r.Routes, row)
	}
	sort.Slice(r.Routes, func(i, j int) bool {
		a, b := &r.Routes[i], &r.Routes[j]
		if a.Requests != b.Requests {
			return a.Requests > b.Requests
		}
		return a.Path < b.Path
	})
	r.Routes = r.Routes[:min(len(r.Routes), topRows)]
}

func (g *gate) row(allSolve bool, at func(int64) time.Time) GateRow {
	g.advance(1 << 62) // to the end of whoever is still in it
	row := GateRow{
		Name: g.cfg.Name, AllSolve: allSolve, Budget: g.cfg.Amount(g.cfg.Budget), Requests: g.requests, Admitted: g.admitted, Waited: g.waited, Asked: g.asked,
		WaitP50: time.Duration(g.waits.below(0.5)) * time.Microsecond, WaitP99: time.Duration(g.waits.below(0.99)) * time.Microsecond, WaitMost: time.Duration(g.waits.max) * time.Microsecond,
		MostQueue: g.mostQueue, QueueAt: at(g.mostQueueAt), MostInFlight: g.cfg.Amount(g.mostInFlight), InFlightAt: at(g.mostInFlightAt), Places: g.cfg.Queue,
		FirstRefused: at(g.firstRefused), series: g.series, budget: g.cfg.Budget, amount: g.cfg.Amount,
	}
	var why []string
	for a, n := range g.refused {
		if n > 0 {
			row.RefusedCount += n
			why = append(why, fmt.Sprintf("%s %s", budget.Answer(a), count(n)))
		}
	}
	row.Refused = strings.Join(why, "; ")
	if g.noTime > 0 {
		row.Notes = append(row.Notes, fmt.Sprintf("%s of them took no time, as far as the log says (0.000, or no backend was asked)", count(g.noTime)))
	}
	if g.oversize > 0 {
		row.Notes = append(row.Notes, fmt.Sprintf("%s cost more than the whole budget, and ran alone", count(g.oversize)))
	}
	if g.unseenCosts > 0 {
		row.Notes = append(row.Notes, fmt.Sprintf("%s were taken to cost %s (unseen): %s", count(g.unseenCosts), g.cfg.Amount(g.cfg.Unseen), map[bool]string{
			true: "the file was not found on this machine", false: "nothing had been learned yet"}[g.cfg.Cost == config.CostFile]))
	}
	return row
}
