package crawler

import (
	"net/netip"
	"sync"
)

const (
	// queueSize is how many lookups wait or run at once.
	queueSize = 256
	// perNetwork is how many of them one network (IPv4 /24, IPv6 /48) may have: who
	// imitates crawlers from many addresses of his own does not take the places of others.
	perNetwork = 4
)

// job is one lookup.
type job struct {
	addr    netip.Addr
	network netip.Prefix
	claimed Set
	running bool
}

// queue is the lookups that wait, first come first served, and those that run. It is
// small enough to be searched. It is safe for concurrent use.
type queue struct {
	mu    sync.Mutex
	jobs  []job
	ready chan struct{} // one token a job that waits
}

func newQueue() *queue {
	return &queue{jobs: make([]job, 0, queueSize), ready: make(chan struct{}, queueSize)}
}

// fairNetwork is the network that an address counts in.
func fairNetwork(a netip.Addr) netip.Prefix {
	bits := 24
	if a.Is6() {
		bits = 48
	}
	p, _ := a.Prefix(bits) // fails for no length of an address
	return p
}

// add lets a lookup wait, unless it does already. It tells false when there is no place
// for it.
func (q *queue) add(a netip.Addr, claimed Set) (added, ok bool) {
	network := fairNetwork(a)
	q.mu.Lock()
	defer q.mu.Unlock()
	same := 0
	for i := range q.jobs {
		j := &q.jobs[i]
		if j.addr == a && j.claimed == claimed {
			return false, true
		}
		if j.network == network {
			same++
		}
	}
	if same >= perNetwork || len(q.jobs) == queueSize {
		return false, false
	}
	q.jobs = append(q.jobs, job{a, network, claimed, false})
	q.ready <- struct{}{} // it has room: there are at most queueSize jobs
	return true, true
}

// take is the lookup that has waited longest, which runs from now on. It is called once
// for each token.
func (q *queue) take() job {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i := range q.jobs {
		if j := &q.jobs[i]; !j.running {
			j.running = true
			return *j
		}
	}
	panic("BUG: a token without a job")
}

// done ends a lookup that ran.
func (q *queue) done(j *job) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i := range q.jobs {
		if q.jobs[i].addr == j.addr && q.jobs[i].claimed == j.claimed {
			copy(q.jobs[i:], q.jobs[i+1:])
			q.jobs = q.jobs[:len(q.jobs)-1]
			return
		}
	}
}

// len is how many lookups wait or run.
func (q *queue) len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.jobs)
}
