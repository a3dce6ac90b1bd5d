// Package network reduces a client address to the network that stile counts.
//
// A visitor of an IPv6 site owns a whole /64 and can use a new address for every
// request, so the /64 is the caller; for IPv4 it is the address itself.
package network

import (
	"encoding/binary"
	"net/netip"
)

// Network is an IPv4 /32 or an IPv6 /64, or one of the larger networks around
// them (see Wider), as one comparable word. The zero value is no network.
//
// IPv6 networks are their upper 64 bits. The other kinds live below ff00::/8,
// multicast, which is never a source address, so that no two kinds collide.
type Network uint64

const (
	tagV4     = 0xFF00 << 48
	tagV4Net  = 0xFF01 << 48 // /24
	tagV6Net  = 0xFF02 << 48 // /56, folded
	tagV6Site = 0xFF03 << 48 // /48
	lowBits48 = 1<<48 - 1
)

// translated is the well-known prefix behind which a translator (NAT64, SIIT) shows IPv4
// addresses to a network that has IPv6 only: RFC 6052, section 2.1.
var translated = netip.MustParsePrefix("64:ff9b::/96")

// Translated tells whether an address is such a one.
func Translated(a netip.Addr) bool { return translated.Contains(a) }

// Canonical is the one way of writing an address: IPv4-mapped and translated ones are the
// IPv4 addresses in them. Without that all of IPv4 would be one /64 to a server that is
// reached over IPv6 only.
func Canonical(a netip.Addr) netip.Addr {
	if Translated(a) {
		b := a.As16()
		return netip.AddrFrom4([4]byte(b[12:]))
	}
	return a.Unmap()
}

// Of is the network of an address. IPv4-mapped and translated IPv6 addresses are IPv4.
// An invalid address has no network (0).
func Of(a netip.Addr) Network {
	if !a.IsValid() {
		return 0
	}
	if a = Canonical(a); a.Is4() {
		b := a.As4()
		return tagV4 | Network(binary.BigEndian.Uint32(b[:]))
	}
	b := a.As16()
	n := Network(binary.BigEndian.Uint64(b[:8]))
	if n == 0 {
		return 1 // ::1 and its neighbours: a network, though its upper half is zero
	}
	return n
}

// Is4 tells whether n is an IPv4 address.
func (n Network) Is4() bool { return n>>48 == 0xFF00 }

// Wider is the list of the larger networks that n lies in: the /24 for IPv4, the
// /56 and the /48 for IPv6. Unused places are 0. Only a Network made by Of has any.
func (n Network) Wider() [2]Network {
	switch {
	case n == 0:
		return [2]Network{}
	case n.Is4():
		return [2]Network{tagV4Net | n&0xFFFFFF00, 0}
	}
	// A /56 has 56 significant bits and the tag takes 16: fold the upper 16 of the
	// 56 into the lower ones. Global unicast shares its first bits, so two /56 of
	// one machine's visitors practically never meet; if they do, they share a
	// ceiling that is meant to be shared by many anyway.
	p56 := uint64(n) >> 8
	folded := (p56 ^ (p56>>48)*0x9E3779B1) & lowBits48
	return [2]Network{Network(tagV6Net | folded), Network(tagV6Site | uint64(n)>>16)}
}
