package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// ask is one request of one visitor.
type ask struct {
	from   netip.Addr
	path   string
	cookie string
	at     time.Duration // since the beginning
}

// answer is what came of it. Status 0: nothing came.
type answer struct {
	status   int
	from, to time.Time
	text     string // the beginning of the body
}

// dial connects from an address of the visitor's own.
func (a *ask) dial(ctx context.Context, server string) (net.Conn, error) {
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: a.from.AsSlice()}}
	return d.DialContext(ctx, "tcp", server)
}

func (a *ask) head() string {
	head := "GET " + a.path + " HTTP/1.1\r\nHost: gated.example\r\nUser-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0\r\n" +
		"Accept: text/html,*/*;q=0.8\r\nSec-Fetch-Dest: document\r\nSec-Fetch-Mode: navigate\r\nConnection: close\r\n"
	if a.cookie != "" {
		head += "Cookie: " + a.cookie + "\r\n"
	}
	return head + "\r\n"
}

// do asks and reads the whole answer.
func (a *ask) do(ctx context.Context, server string) (answer, error) {
	got := answer{from: time.Now()}
	conn, err := a.dial(ctx, server)
	if err != nil {
		return got, err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	if _, err := io.WriteString(conn, a.head()); err != nil {
		return got, err
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return got, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 512))
	if err == nil {
		_, err = io.Copy(io.Discard, resp.Body)
	}
	got.to = time.Now()
	if err != nil {
		return got, fmt.Errorf("an answer that broke off: %w", err)
	}
	got.status, got.text = resp.StatusCode, string(text)
	return got, nil
}

// addresses are so many different ones of this machine.
func addresses(n int, rnd *rand.Rand) []netip.Addr {
	seen := map[netip.Addr]bool{}
	all := make([]netip.Addr, 0, n)
	for len(all) < n {
		x := rnd.Uint32()
		a := netip.AddrFrom4([4]byte{127, byte(1 + x>>16%254), byte(x >> 8), byte(1 + x%254)})
		if !seen[a] {
			seen[a] = true
			all = append(all, a)
		}
	}
	return all
}

// attack lets all of them ask when it is their time, and returns when each has had its
// answer, or the context is over.
func attack(ctx context.Context, server string, asks []ask) []answer {
	answers := make([]answer, len(asks))
	var group sync.WaitGroup
	start := time.Now()
	for i := range asks {
		select {
		case <-time.After(time.Until(start.Add(asks[i].at))):
		case <-ctx.Done():
		}
		group.Add(1)
		go func() {
			defer group.Done()
			answers[i], _ = asks[i].do(ctx, server) // a status of 0 says enough
		}()
	}
	group.Wait()
	return answers
}

// median of what is not empty.
func median[T int64 | float64 | time.Duration](list []T) T {
	list = slices.Sorted(slices.Values(list))
	return list[len(list)/2]
}
