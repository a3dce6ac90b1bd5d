package crawler

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"syscall"
	"time"

	"stile/network"
)

// fetchTime bounds one download, with its redirects.
const fetchTime = 30 * time.Second

// Fetch reads a crawler's list from where its owner publishes it, all its parts or
// nothing. urls replace the owner's when the operator has named others; of those alone
// it believes hosts that are not on the public Internet, and plain http.
func Fetch(ctx context.Context, id ID, urls []string, now time.Time) (*List, error) {
	own := urls != nil
	if !own {
		urls = Known[id-1].URLs
	}
	if len(urls) == 0 {
		return nil, errors.New("its owner publishes no list that a program can read: " + wayWithout(id))
	}
	l := &List{Name: id.Name(), Sources: urls}
	for _, u := range urls {
		b, err := download(ctx, u, own)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", u, err)
		}
		nets, _, err := Published(b)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", u, err)
		}
		l.Nets = append(l.Nets, nets...)
	}
	// It is what the owner publishes on this day, whenever it was made.
	l.Date = now.UTC().Format(time.DateOnly)
	var err error
	l.Nets, err = check(l.Nets)
	return l, err
}

func wayWithout(id ID) string {
	if Known[id-1].Domains != nil {
		return "it is verified by DNS"
	}
	return "name one in [crawler] urls"
}

// FromFile reads a crawler's list from a file that has what its owner publishes.
func FromFile(id ID, file string, now time.Time) (*List, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxListBytes+1))
	if err != nil {
		return nil, err
	}
	nets, date, err := Published(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if date == "" {
		date = now.UTC().Format(time.DateOnly)
	}
	return &List{Name: id.Name(), Date: date, Sources: []string{file}, Nets: nets}, nil
}

// download is what a URL answers with, no more than a list may be.
func download(ctx context.Context, where string, own bool) ([]byte, error) {
	first, err := url.Parse(where)
	if err != nil {
		return nil, err
	}
	believed := func(u *url.URL) error {
		if u.Scheme != "https" && !(own && u.Scheme == "http" && u.Host == first.Host) {
			return fmt.Errorf("%s is not https", u.Redacted())
		}
		return nil
	}
	if err := believed(first); err != nil {
		return nil, err
	}
	client := &http.Client{
		Timeout: fetchTime,
		Transport: &http.Transport{
			DialContext:            dial(first, own),
			TLSHandshakeTimeout:    10 * time.Second,
			ResponseHeaderTimeout:  15 * time.Second,
			MaxResponseHeaderBytes: 64 << 10,
			DisableKeepAlives:      true,
		},
		CheckRedirect: func(r *http.Request, via []*http.Request) error {
			if len(via) > 3 {
				return errors.New("more than three redirects")
			}
			return believed(r.URL)
		},
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, where, nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set("User-Agent", "stile (crawlers update)")
	r.Header.Set("Accept", "application/json, text/plain;q=0.9")
	answer, err := client.Do(r)
	if err != nil {
		var u *url.Error
		if errors.As(err, &u) {
			err = u.Err // the URL is said by whoever asked
		}
		return nil, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("it answers %s", answer.Status)
	}
	b, err := io.ReadAll(io.LimitReader(answer.Body, maxListBytes+1))
	if err != nil {
		return nil, fmt.Errorf("after %d bytes: %w", len(b), err)
	}
	return b, nil
}

// dial connects to public addresses only, whatever a name says at that moment; and to
// any address of the first host, if the operator has named it.
func dial(first *url.URL, own bool) func(ctx context.Context, network, addr string) (net.Conn, error) {
	return func(ctx context.Context, protocol, addr string) (net.Conn, error) {
		host, _, err := net.SplitHostPort(addr)
		if err != nil {
			return nil, err
		}
		d := net.Dialer{Timeout: 10 * time.Second}
		if !own || !strings.EqualFold(host, first.Hostname()) {
			d.Control = func(_, to string, _ syscall.RawConn) error {
				a, err := netip.ParseAddrPort(to)
				if err != nil || !network.Public(a.Addr()) {
					return fmt.Errorf("%s is %s, which is not on the public Internet", host, to)
				}
				return nil
			}
		}
		return d.DialContext(ctx, protocol, addr)
	}
}

// Differs tells how many prefixes of a list are new and how many are gone, compared
// with the one before (nil: none).
func (l *List) Differs(old *List) (added, gone int) {
	if old == nil {
		return len(l.Nets), 0
	}
	was := make(map[netip.Prefix]bool, len(old.Nets))
	for _, p := range old.Nets {
		was[p] = true
	}
	for _, p := range l.Nets {
		if !was[p] {
			added++
		}
	}
	return added, added + len(old.Nets) - len(l.Nets)
}
