package lint

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// checkBacklog: while more connections wait to be accepted than the kernel keeps, nginx sees a daemon that is not there.
func (l *linter) checkBacklog() {
	processes, connections := 1, 512 // nginx's defaults
	var at *directive
	for _, d := range l.top {
		switch d.name {
		case "worker_processes":
			if n, err := strconv.Atoi(d.arg(0)); err == nil {
				processes = n
			} else {
				processes = l.o.CPUs
			}
			if at == nil {
				at = d
			}
		case "events":
			_ = l.each(d.block, 0, func(x *directive) {
				if x.name == "worker_connections" {
					if n, err := strconv.Atoi(x.arg(0)); err == nil {
						connections, at = n, x
					}
				}
			})
		}
	}
	if at == nil || processes <= 0 || connections <= 0 || connections <= l.o.Backlog/processes {
		return
	}
	l.add(Warning, "backlog", at, l.http, fmt.Sprintf("%d workers with %d connections each may ask stile at once, and the kernel keeps %d waiting (net.core.somaxconn)", processes, connections, l.o.Backlog),
		"in a flood that stile is too slow for, what does not fit is let through without being asked (with stile-closed.conf: 503)",
		fmt.Sprintf("worker_connections %d;    or sysctl net.core.somaxconn=%d, in /etc/sysctl.d too, and then restart stile", max(1, l.o.Backlog/processes), processes*connections))
}

// ParseListening reads what listens on this machine: the text of /proc/net/tcp or /proc/net/tcp6. Lines that it does not
// understand it passes over.
func ParseListening(text string) (list []netip.AddrPort) {
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) < 4 || f[3] != "0A" {
			continue
		}
		host, port, ok := strings.Cut(f[1], ":")
		n, err := strconv.ParseUint(port, 16, 16)
		raw, err2 := hex.DecodeString(host)
		if !ok || err != nil || err2 != nil || len(raw)%4 != 0 {
			continue
		}
		for i := 0; i+4 <= len(raw); i += 4 { // words in the order of the machine
			binary.BigEndian.PutUint32(raw[i:], binary.NativeEndian.Uint32(raw[i:]))
		}
		if a, ok := netip.AddrFromSlice(raw); ok {
			list = append(list, netip.AddrPortFrom(a.Unmap(), uint16(n)))
		}
	}
	return list
}
