package main

import (
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"time"
)

// variant is one thing to measure through nginx.
type variant struct {
	name, path, cookie string
	port               int
	rate, p50, p99     []float64 // requests a second; milliseconds
}

func (b *bench) throughNginx() error {
	if err := b.startNginx(); err != nil {
		return err
	}
	vs := []*variant{
		{name: "(a) nginx, a static file", port: b.ports[0]},
		{name: "(b) auth_request to return 204", port: b.ports[1]},
		{name: "(c) auth_request to a bare handler", port: b.ports[2], cookie: b.pass},
		{name: "(d) stile, metered rule, valid pass", port: b.ports[3], cookie: b.pass},
		{name: "(e) stile, a stranger is challenged", port: b.ports[3], path: "closed/"},
	}
	for _, v := range vs {
		if err := b.wait("tcp", fmt.Sprintf("127.0.0.1:%d", v.port)); err != nil {
			return err
		}
	}
	for round := range *rounds {
		for _, i := range turn(round, len(vs)) {
			if err := vs[i].wrk(); err != nil {
				return err
			}
		}
	}
	fmt.Printf("through nginx, %d connections\n", *conns)
	for _, v := range vs {
		row(v.name, v.rate, v.p50, v.p99)
	}
	printRatio("(b) / (a)", vs[1].rate, vs[0].rate)
	printRatio("(c) / (b)", vs[2].rate, vs[1].rate)
	printRatio("(d) / (c)", vs[3].rate, vs[2].rate)
	printRatio("(d) / (a)", vs[3].rate, vs[0].rate)
	printRatio("(e) / (c)", vs[4].rate, vs[2].rate)
	return nil
}

var (
	reRate = regexp.MustCompile(`Requests/sec:\s+([\d.]+)`)
	reP50  = regexp.MustCompile(`50%\s+([\d.]+)(us|ms|s)`)
	reP99  = regexp.MustCompile(`99%\s+([\d.]+)(us|ms|s)`)
	reBad  = regexp.MustCompile(`Non-2xx or 3xx responses: (\d+)`)
)

func (v *variant) wrk() error {
	args := []string{"-t", "1", "-c", strconv.Itoa(*conns), "-d", strconv.Itoa(max(int(*length/time.Second), 1)), "--latency"}
	if v.cookie != "" {
		args = append(args, "-H", "Cookie: "+v.cookie)
	}
	out, err := exec.Command("wrk", append(args, fmt.Sprintf("http://127.0.0.1:%d/%s", v.port, v.path))...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("wrk: %w: %s", err, out)
	}
	if bad := reBad.FindSubmatch(out); (bad != nil) != (v.path != "") {
		return fmt.Errorf("%s: unexpected answers: %s", v.name, out)
	}
	rate := reRate.FindSubmatch(out)
	if rate == nil {
		return fmt.Errorf("wrk says nothing: %s", out)
	}
	r, _ := strconv.ParseFloat(string(rate[1]), 64)
	v.rate = append(v.rate, r)
	v.p50 = append(v.p50, milliseconds(reP50.FindSubmatch(out)))
	v.p99 = append(v.p99, milliseconds(reP99.FindSubmatch(out)))
	return nil
}

func milliseconds(m [][]byte) float64 {
	if m == nil {
		return 0
	}
	x, _ := strconv.ParseFloat(string(m[1]), 64)
	return x * map[string]float64{"us": 0.001, "ms": 1, "s": 1000}[string(m[2])]
}
