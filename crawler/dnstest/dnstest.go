// Package dnstest is a DNS server on loopback for tests.
package dnstest

import (
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/miekg/dns"
)

// Zone is a DNS server on loopback: records by name and type, as in a zone file.
type Zone struct {
	Addr    string // of the server, "127.0.0.1:port"
	Asked   atomic.Int64
	records map[string][]dns.RR

	mu     sync.Mutex
	silent map[string]bool // names that it never answers about
	broken map[string]bool // names for which it fails
}

// New starts a server with records as in a zone file; it ends with the test.
func New(t testing.TB, records ...string) *Zone {
	z := &Zone{records: map[string][]dns.RR{}, silent: map[string]bool{}, broken: map[string]bool{}}
	for _, text := range records {
		rr, err := dns.NewRR(text)
		if err != nil {
			t.Fatal(err)
		}
		key := strings.ToLower(rr.Header().Name)
		z.records[key] = append(z.records[key], rr)
	}
	streams, packets, err := listen()
	if err != nil {
		t.Fatal(err)
	}
	z.Addr = packets.LocalAddr().String()
	for _, s := range []*dns.Server{{PacketConn: packets, Handler: z}, {Listener: streams, Handler: z}} {
		started := make(chan struct{})
		s.NotifyStartedFunc = func() { close(started) }
		go s.ActivateAndServe() // its error is that of the shutdown
		<-started
		t.Cleanup(func() {
			if err := s.Shutdown(); err != nil {
				t.Error(err)
			}
		})
	}
	return z
}

// listen opens one port for streams and for packets. A port that is free for the one may be
// taken for the other, by any program's connection.
func listen() (streams net.Listener, packets net.PacketConn, err error) {
	for range 100 {
		if streams, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			return nil, nil, err
		}
		if packets, err = net.ListenPacket("udp", streams.Addr().String()); err == nil {
			return streams, packets, nil
		}
		streams.Close()
	}
	return nil, nil, err
}

// Silence makes it never answer about a name.
func (z *Zone) Silence(name string) {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.silent[name] = true
}

// Break makes it fail for a name.
func (z *Zone) Break(name string) {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.broken[name] = true
}

// ServeDNS answers one question.
func (z *Zone) ServeDNS(w dns.ResponseWriter, q *dns.Msg) {
	z.Asked.Add(1)
	name, kind := strings.ToLower(q.Question[0].Name), q.Question[0].Qtype
	z.mu.Lock()
	silent, broken := z.silent[name], z.broken[name]
	z.mu.Unlock()
	if silent {
		return
	}
	m := new(dns.Msg)
	m.SetReply(q)
	if broken {
		m.Rcode = dns.RcodeServerFailure
	} else if len(z.records[name]) == 0 {
		m.Rcode = dns.RcodeNameError
	}
	for hops := 0; hops < 8; hops++ {
		next := ""
		for _, rr := range z.records[name] {
			if rr.Header().Rrtype == kind || rr.Header().Rrtype == dns.TypeCNAME {
				m.Answer = append(m.Answer, rr)
			}
			if c, ok := rr.(*dns.CNAME); ok {
				next = strings.ToLower(c.Target)
			}
		}
		if name = next; name == "" {
			break
		}
	}
	if _, udp := w.RemoteAddr().(*net.UDPAddr); udp {
		m.Truncate(1232)
	}
	if err := w.WriteMsg(m); err != nil {
		return // who asked has gone
	}
}

// Reverse is the record that gives an address a name.
func Reverse(addr, name string) string { return reverse(addr) + " 60 IN PTR " + name }

func reverse(addr string) string {
	r, err := dns.ReverseAddr(addr)
	if err != nil {
		panic(err)
	}
	return r
}

// YandexBot is the agent of a crawler that DNS alone verifies.
const YandexBot = "Mozilla/5.0 (compatible; YandexBot/3.0; +http://yandex.com/bots)"

// Yandex starts a server by which one address is Yandex's crawler and another only has its
// name; about a third it fails.
func Yandex(t testing.TB, genuine, forged, unknown string) *Zone {
	z := New(t, Reverse(genuine, "spider.yandex.com."), "spider.yandex.com. 60 IN A "+genuine, Reverse(forged, "spider.yandex.com."))
	z.Break(reverse(unknown))
	return z
}
