package main

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"stile/bench/child"
)

// direct compares the two daemons without nginx: the same bytes, as nginx sends them,
// over the same kind of socket.
func (b *bench) direct() error {
	bare, gate := filepath.Join(b.dir, "bare.sock"), filepath.Join(b.dir, "stile.sock")
	for _, socket := range []string{bare, gate} {
		if err := child.Listening("unix", socket); err != nil {
			return err
		}
	}
	var rates [2][]float64
	for round := range *rounds {
		for _, i := range turn(round, 2) {
			rate, err := hammer([]string{bare, gate}[i], b.pass, round)
			if err != nil {
				return err
			}
			rates[i] = append(rates[i], rate)
		}
	}
	fmt.Printf("directly to the sockets, %d connections\n", *direct)
	row("bare handler", rates[0], nil, nil)
	row("stile, metered rule, valid pass", rates[1], nil, nil)
	printRatio("stile / bare handler", rates[1], rates[0])
	fmt.Println()
	return nil
}

// request is what nginx asks about one page view of a browser.
func request(pass string, id uint64) string {
	return "GET /check HTTP/1.1\r\nHost: stile\r\nX-Original-URI: /packages/halogen?x=1\r\nX-Original-Method: GET\r\nX-Real-IP: 192.0.2.1\r\n" +
		fmt.Sprintf("X-Request-ID: %032x\r\n", id) +
		"X-Forwarded-Proto: https\r\nX-Forwarded-Host: example.org\r\nX-Stile-TLS: TLSv1.3\r\n" +
		"User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0\r\n" +
		"Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8\r\nAccept-Language: en-US,en;q=0.5\r\nAccept-Encoding: gzip, deflate, br\r\n" +
		"Cookie: session=0123456789abcdef0123456789abcdef; " + pass + "\r\nSec-Fetch-Dest: document\r\nSec-Fetch-Mode: navigate\r\nSec-Fetch-Site: none\r\nSec-Fetch-User: ?1\r\n\r\n"
}

// hammer sends requests over a number of connections, one at a time on each, and
// returns how many were answered with 200 in a second.
func hammer(socket, pass string, round int) (float64, error) {
	var answered atomic.Int64
	var group sync.WaitGroup
	errs := make(chan error, *direct)
	start := time.Now()
	end := start.Add(*length)
	for n := range *direct {
		group.Add(1)
		go func() {
			defer group.Done()
			count, err := pump(socket, pass, uint64(round)<<48|uint64(n)<<32, end)
			answered.Add(count)
			if err != nil {
				errs <- err
			}
		}()
	}
	group.Wait()
	select {
	case err := <-errs:
		return 0, err
	default:
	}
	return float64(answered.Load()) / time.Since(start).Seconds(), nil
}

func pump(socket, pass string, id uint64, end time.Time) (int64, error) {
	conn, err := net.Dial("unix", socket)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	r := bufio.NewReaderSize(conn, 4096)
	text := []byte(request(pass, 0))
	at := strings.Index(string(text), "X-Request-ID: ") + len("X-Request-ID: ")
	count := int64(0)
	for {
		if count%64 == 0 && time.Now().After(end) {
			return count, nil
		}
		id++
		hex(text[at:at+32], id)
		if _, err := conn.Write(text); err != nil {
			return count, err
		}
		status, err := r.ReadSlice('\n')
		if err != nil {
			return count, err
		}
		if !strings.HasPrefix(string(status), "HTTP/1.1 200") {
			return count, fmt.Errorf("got %q", status)
		}
		for {
			line, err := r.ReadSlice('\n')
			if err != nil {
				return count, err
			}
			if len(line) == 2 {
				break
			}
			if strings.HasPrefix(string(line), "Content-Length:") && string(line) != "Content-Length: 0\r\n" {
				return count, errors.New("an answer with a body")
			}
		}
		count++
	}
}

// hex writes a number over 32 hex digits.
func hex(dst []byte, n uint64) {
	const digits = "0123456789abcdef"
	for i := len(dst) - 1; i >= 0; i-- {
		dst[i] = digits[n&15]
		n >>= 4
	}
}
