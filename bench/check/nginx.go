package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"time"

	"stile/bench/child"
)

// variant is one thing to measure through nginx.
type variant struct {
	name, path, cookie string
	port               int
	counted            string    // as what stile counts it; "": it is not asked
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
		{name: "(d) stile, metered rule, valid pass", port: b.ports[3], cookie: b.pass, counted: `verdict="allow",reason="metered"`},
		{name: "(e) stile, a stranger is challenged", port: b.ports[3], path: "closed/", counted: `verdict="challenge",reason="demand"`},
	}
	for _, v := range vs {
		if err := child.Listening("tcp", fmt.Sprintf("127.0.0.1:%d", v.port)); err != nil {
			return err
		}
	}
	for round := range *rounds {
		for _, i := range turn(round, len(vs)) {
			if err := b.load(vs[i]); err != nil {
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

// load gives a variant its turn, and makes sure that stile was asked about each request:
// a 200 of a site whose nginx cannot reach it looks the same, and is faster.
func (b *bench) load(v *variant) error {
	before, err := b.count(v.counted)
	if err != nil {
		return err
	}
	requests, err := v.wrk()
	if err != nil {
		return err
	}
	after, err := b.count(v.counted)
	if err != nil {
		return err
	}
	if asked := after - before; v.counted != "" && asked < requests {
		return fmt.Errorf("%s: %d requests, but stile counts %d as %s: can nginx reach it?", v.name, requests, asked, v.counted)
	}
	return nil
}

// count is stile's own count of its answers with these labels.
func (b *bench) count(labels string) (int, error) {
	if labels == "" {
		return 0, nil
	}
	c := http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", filepath.Join(b.dir, "admin.sock"))
		},
		DisableKeepAlives: true,
	}}
	resp, err := c.Get("http://stile/metrics")
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err
	}
	m := regexp.MustCompile(`(?m)^stile_checks_total\{` + labels + `\} (\d+)$`).FindSubmatch(text)
	if m == nil {
		return 0, fmt.Errorf("stile does not count %s", labels)
	}
	return strconv.Atoi(string(m[1]))
}

var (
	reDone = regexp.MustCompile(`(\d+) requests in`)
	reRate = regexp.MustCompile(`Requests/sec:\s+([\d.]+)`)
	reP50  = regexp.MustCompile(`50%\s+([\d.]+)(us|ms|s)`)
	reP99  = regexp.MustCompile(`99%\s+([\d.]+)(us|ms|s)`)
	reBad  = regexp.MustCompile(`Non-2xx or 3xx responses: (\d+)`)
)

// wrk returns how many requests were answered.
func (v *variant) wrk() (requests int, err error) {
	args := []string{"-t", "1", "-c", strconv.Itoa(*conns), "-d", strconv.Itoa(max(int(*length/time.Second), 1)), "--latency"}
	if v.cookie != "" {
		args = append(args, "-H", "Cookie: "+v.cookie)
	}
	out, err := exec.Command("wrk", append(args, fmt.Sprintf("http://127.0.0.1:%d/%s", v.port, v.path))...).CombinedOutput()
	if err != nil {
		return 0, fmt.Errorf("wrk: %w: %s", err, out)
	}
	if bad := reBad.FindSubmatch(out); (bad != nil) != (v.path != "") {
		return 0, fmt.Errorf("%s: unexpected answers: %s", v.name, out)
	}
	rate, done := reRate.FindSubmatch(out), reDone.FindSubmatch(out)
	if rate == nil || done == nil {
		return 0, fmt.Errorf("wrk says nothing: %s", out)
	}
	r, _ := strconv.ParseFloat(string(rate[1]), 64)
	v.rate = append(v.rate, r)
	v.p50 = append(v.p50, milliseconds(reP50.FindSubmatch(out)))
	v.p99 = append(v.p99, milliseconds(reP99.FindSubmatch(out)))
	return strconv.Atoi(string(done[1]))
}

func milliseconds(m [][]byte) float64 {
	if m == nil {
		return 0
	}
	x, _ := strconv.ParseFloat(string(m[1]), 64)
	return x * map[string]float64{"us": 0.001, "ms": 1, "s": 1000}[string(m[2])]
}
