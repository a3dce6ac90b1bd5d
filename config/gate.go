package config

import (
	"fmt"
	"path"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// gateDef is a [[gate]] as read; it is in the configuration unless another of the same
// name replaces it.
type gateDef struct {
	Gate
	definition
}

func (in *reading) readGate(t *table) {
	g := Gate{Queue: 32, PerCaller: 4, Wait: 20 * time.Second, Lease: time.Minute, Scale: 1, Pos: Pos{t.file, t.node.line}}
	g.Name = t.name("gate", "rules, metrics and holds use it")
	unit := t.budget("budget", &g) // whether it is known: without it nothing can be said of a cost
	if unit {
		if n, ok := t.amount("free_below", g.Unit, 0, g.Budget, "it is more than the budget: "); ok {
			g.FreeBelow = n
		}
	}
	if n, ok := t.number("queue", 0, 65536, " places"); ok {
		g.Queue = int(n)
	}
	if n, ok := t.number("per_caller", 0, 65536, "; 0 is no limit"); ok {
		g.PerCaller = int(n)
	}
	t.wait("wait", &g.Wait)
	if d, ok := t.duration("lease", time.Second, time.Hour); ok {
		g.Lease = d
	}
	t.cost("cost", &g, unit)
	g.Unseen = max(g.Budget/2, 1) // two fit at once, and a stranger needs no pass for one
	if unit && g.Cost != CostFixed {
		if n, ok := t.amount("unseen", g.Unit, g.Unit.least(), g.Budget, t.alone("unseen", &g)); ok {
			g.Unseen = n
		}
	}
	t.scale("scale", &g.Scale)
	if unit && g.Cost == CostFixed {
		t.fixed(&g)
	}
	t.finish()
	in.gates = append(in.gates, gateDef{g, definition{g.Name, t, false}})
}

// fixed finds what cannot be meant together with a cost that is the same for all.
func (t *table) fixed(g *Gate) {
	how := `write cost = "learned"`
	if g.Unit == Requests {
		how = `give the budget a unit, such as "16MiB" or "8s"`
	}
	if t.has("unseen") {
		t.wrong("unseen", "every request costs %s, known or not: take it out, or %s", g.Unit.Format(g.Fixed), how)
	}
	if t.has("scale") {
		t.wrong("scale", "every request costs %s: write the product as cost and take scale out", g.Unit.Format(g.Fixed))
	}
	if g.Fixed > 0 && g.FreeBelow > g.Fixed {
		t.wrong("free_below", "every request costs %s, so none would ever wait: want at most %s", g.Unit.Format(g.Fixed), g.Unit.written(g.Fixed))
	}
}

// alone is what to say of a cost above the budget.
func (t *table) alone(key string, g *Gate) string {
	return fmt.Sprintf("it is more than the budget: write %s = %s if such a request shall run alone; ", key, g.Unit.written(g.Budget))
}

// budget reads how much may be in flight, and with it the unit of the gate.
func (t *table) budget(key string, g *Gate) (ok bool) {
	const three = `budget = 8 (requests), "16MiB" (bytes) or "8s" (backend time)`
	switch v := t.keys[key].(type) {
	case nil:
		t.report(t.node, "it has no budget", "say how much may be in flight at once: "+three)
		return false
	case int64:
		g.Unit = Requests
		if v > g.Unit.most() {
			t.tooMany(key, v)
			return false
		}
	case string:
		minutes, isMinutes := strings.CutSuffix(v, "m")
		_, bytesErr := Bytes.Parse(v)
		_, microsErr := Micros.Parse(v)
		switch {
		case isDigits(v):
			if n, _ := Requests.Parse(v); n > Requests.most() {
				t.tooMany(key, n)
			} else {
				t.wrong(key, "want %s = %d for requests, without quotes, or a unit such as %q or %q", key, n, v+"MiB", v+"s")
			}
			return false
		case isMinutes && isDigits(minutes) && len(minutes) < 6:
			n, _ := strconv.Atoi(minutes)
			t.wrong(key, "an m is a minute here and a megabyte in nginx: write %q or %q", fmt.Sprintf("%ds", n*60), fmt.Sprintf("%dMiB", n))
			return false
		case bytesErr == nil:
			g.Unit = Bytes
		case microsErr == nil:
			g.Unit = Micros
		case meantSize(v) != "":
			t.wrong(key, "%v", bytesErr)
			return false
		case meantDuration(v) != "":
			t.wrong(key, "%v", microsErr)
			return false
		default:
			t.wrong(key, "want %s", three)
			return false
		}
	default:
		t.wrong(key, "want %s", three)
		return false
	}
	g.Budget, ok = t.amount(key, g.Unit, g.Unit.least(), g.Unit.most(), "")
	return ok
}

// tooMany reports a budget without a unit that no number of requests can be.
func (t *table) tooMany(key string, n int64) {
	t.wrong(key, "want 1 to %d requests; if bytes are meant, write %s", Requests.most(), Bytes.written(min(n, Bytes.most())))
}

// wait reads how long a request may wait in the daemon.
func (t *table) wait(key string, to *time.Duration) {
	if s, ok := t.keys[key].(string); ok {
		if d, err := parseDuration(s); err == nil && d > MaxWait {
			t.wrong(key, "nginx waits 30s for the check, then takes the daemon for dead and lets the request through: want at most %q", short(MaxWait))
			return
		}
	}
	if d, ok := t.duration(key, 100*time.Millisecond, MaxWait); ok {
		*to = d
	}
}

// cost reads how a gate knows what a request costs. unit: whether that of the gate is
// known.
func (t *table) cost(key string, g *Gate, unit bool) {
	if g.Unit == Requests {
		g.Fixed = 1
	} else {
		g.Cost = CostLearned
	}
	s, _ := t.keys[key].(string)
	file, isFile := strings.CutPrefix(s, "file:")
	word := isFile || s == "learned" || s == "header"
	switch {
	case !t.has(key):
	case !unit && isFile:
		t.costFile(key, file)
	case !unit:
	case word && g.Unit == Requests:
		t.wrong(key, `a budget of requests counts each alike: write cost = 1, or give the budget a unit, such as "16MiB" or "8s"`)
	case s == "learned":
		g.Cost = CostLearned
	case s == "header":
		g.Cost = CostHeader
	case isFile && g.Unit != Bytes:
		t.wrong(key, `a file has a size and the budget is a time: want "learned", "header" or a time such as "500ms"`)
	case isFile:
		g.Cost, g.File = CostFile, file
		t.costFile(key, file)
	case s == "file":
		t.wrong(key, "want the file's path too, such as %q", "file:/srv/verified/{2}/{3}.json")
	case path.IsAbs(s) || strings.Contains(s, "://"):
		t.wrong(key, "want a path on this machine after file:, such as %q", "file:/srv/verified/{2}/{3}.json")
	case g.Unit != Requests && !isAmount(t.keys[key]):
		want := `want "learned", "header" or a time such as "500ms"`
		if g.Unit == Bytes {
			want = `want "learned", "header", "file:/…/{1}" or a size such as "1MiB"`
		}
		if hint := didYouMean(s, []string{"learned", "header"}); hint != "" {
			want += ": " + hint
		}
		t.wrong(key, "%s", want)
	default:
		g.Cost = CostFixed
		g.Fixed, _ = t.amount(key, g.Unit, g.Unit.least(), g.Budget, t.alone(key, g))
	}
}

// isAmount tells whether a value, right or wrong, is meant for a number or an amount.
func isAmount(v any) bool {
	s, isText := v.(string)
	_, isNumber := v.(int64)
	return isNumber || isText && strings.ContainsAny(s, "0123456789")
}

var costSegment = regexp.MustCompile(`\{([0-9]{1,9})\}`)

// maxCostFile keeps what {N} becomes within the longest path that Linux opens, 4096.
const maxCostFile = 1024

// costFile checks the path of a file with segments of the request's path in it.
func (t *table) costFile(key, file string) {
	const such = "file:/srv/verified/{2}/{3}.json"
	for _, g := range costSegment.FindAllStringSubmatch(file, -1) {
		if n, _ := strconv.Atoi(g[1]); n < 1 || n > maxSegment || g[1] != strconv.Itoa(n) {
			t.wrong(key, "%s: want segments {1} to {%d} of the path that is asked for", g[0], maxSegment)
			return
		}
	}
	rest := costSegment.ReplaceAllString(file, "x")
	switch {
	case !path.IsAbs(file):
		t.wrong(key, "want an absolute path, such as %q", such)
	case strings.ContainsAny(rest, "{}"):
		t.wrong(key, "{ and } stand around the number of a segment of the path that is asked for, such as %q", such)
	case strings.Contains(rest+"/", "/../"):
		t.wrong(key, "want a path without .., such as %q", such)
	case !isAbsolute(rest):
		t.wrong(key, "want the path of a file, without empty parts: %q", "file:"+path.Clean(file))
	case rest == file:
		t.wrong(key, "it would be the same file for every request: want {1} or another segment of the path in it, such as %q", such)
	case len(file) > maxCostFile:
		t.wrong(key, "the path has %d bytes: want at most %d", len(file), maxCostFile)
	case strings.ContainsAny(file, "\t\x00"):
		t.wrong(key, "want a path without control characters")
	}
}

// scale is a number, whole or not.
func (t *table) scale(key string, to *float64) {
	var f float64
	switch v := t.keys[key].(type) {
	case nil:
		return
	case int64:
		f = float64(v)
	case float64:
		f = v
	case string:
		if _, err := strconv.ParseFloat(v, 64); err == nil && strings.Trim(v, "0123456789.") == "" {
			t.wrong(key, "want the number without quotes: %s = %s", key, v)
			return
		}
	}
	if !(f >= 0.001 && f <= 1e6) { // nan is neither
		t.wrong(key, "want a number from 0.001 to 1000000")
		return
	}
	*to = f
}

// resolveGates finds the gates that rules name, and numbers those that are kept: an
// unused one of a preset costs nothing, the operator's own may be for holds.
func (in *reading) resolveGates() {
	c := in.config
	var byName map[string]int
	in.gates, byName = replace(in.gates, func(g *gateDef) *definition { return &g.definition })
	for i := range in.rules {
		r := &in.rules[i]
		if r.gate == nil {
			continue
		}
		n, ok := byName[r.gate.text]
		if !ok || r.gate.text == "" {
			r.table.wrong("gate", "%s", noSuch("gate", r.gate.text, definedNames(in.gates, func(g *gateDef) *definition { return &g.definition })))
			continue
		}
		in.gates[n].used = true
		r.Gate = n + 1
	}
	number := make([]int, len(in.gates)+1)
	for i := range in.gates {
		if g := &in.gates[i]; g.used || !g.preset() {
			c.Gates = append(c.Gates, g.Gate)
			number[i+1] = len(c.Gates)
		}
	}
	for i := range in.rules {
		in.rules[i].Gate = number[in.rules[i].Gate]
	}
	if len(c.Gates) > maxGates {
		g := c.Gates[maxGates]
		in.report(g.Pos, fmt.Sprintf("gate %q", g.Name), fmt.Sprintf("it is number %d", maxGates+1), fmt.Sprintf("want at most %d", maxGates))
	}
}
