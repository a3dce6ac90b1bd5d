// Package geotest writes small files of the MaxMind format for tests
// (https://maxmind.github.io/MaxMind-DB/, version 2.0).
package geotest

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"slices"
)

// Write writes a file that has an entry for each network; later ones do not replace
// earlier ones that they overlap.
func Write(name, kind string, entries map[string]map[string]any) error {
	return os.WriteFile(name, Bytes(kind, entries), 0o644)
}

// Bytes is such a file.
func Bytes(kind string, entries map[string]map[string]any) []byte {
	// A tree of two-way nodes: a child is another node, nothing (-1), or an entry (-2 - offset).
	nodes := [][2]int{{-1, -1}}
	var data bytes.Buffer
	for _, text := range slices.Sorted(maps.Keys(entries)) {
		p := netip.MustParsePrefix(text)
		at := data.Len()
		write(&data, entries[text])
		bits := p.Addr().As16()
		length := p.Bits()
		if p.Addr().Is4() {
			bits = [16]byte{} // ::/96, as the format has it
			four := p.Addr().As4()
			copy(bits[12:], four[:])
			length += 96
		}
		n := 0
		for i := range length {
			b := int(bits[i/8] >> (7 - i%8) & 1)
			switch {
			case i == length-1:
				nodes[n][b] = -2 - at
			case nodes[n][b] < 0:
				nodes = append(nodes, [2]int{-1, -1})
				nodes[n][b] = len(nodes) - 1
				n = len(nodes) - 1
			default:
				n = nodes[n][b]
			}
		}
	}
	var out bytes.Buffer
	for _, node := range nodes {
		for _, child := range node {
			v := child
			switch {
			case child == -1:
				v = len(nodes)
			case child < -1:
				v = len(nodes) + 16 + (-2 - child)
			}
			out.Write(binary.BigEndian.AppendUint32(nil, uint32(v)))
		}
	}
	out.Write(make([]byte, 16))
	out.Write(data.Bytes())
	out.WriteString("\xab\xcd\xefMaxMind.com")
	write(&out, map[string]any{
		"binary_format_major_version": uint16(2), "binary_format_minor_version": uint16(0), "build_epoch": uint64(1_790_000_000),
		"database_type": kind, "description": map[string]any{"en": "made by a test"}, "ip_version": uint16(6),
		"languages": []any{"en"}, "node_count": uint32(len(nodes)), "record_size": uint16(32),
	})
	return out.Bytes()
}

// write appends a value. Types are numbered as in the format's section "Data Types".
func write(b *bytes.Buffer, v any) {
	control := func(kind, size int) {
		first := size
		if size >= 29 {
			first = 29
		}
		if kind > 7 {
			b.Write([]byte{byte(first), byte(kind - 7)})
		} else {
			b.WriteByte(byte(kind<<5 | first))
		}
		if size >= 29 {
			b.WriteByte(byte(size - 29))
		}
	}
	number := func(kind int, n uint64) {
		digits := bytes.TrimLeft(binary.BigEndian.AppendUint64(nil, n), "\x00")
		control(kind, len(digits))
		b.Write(digits)
	}
	switch v := v.(type) {
	case string:
		control(2, len(v))
		b.WriteString(v)
	case uint16:
		number(5, uint64(v))
	case uint32:
		number(6, uint64(v))
	case uint64:
		number(9, v)
	case map[string]any:
		control(7, len(v))
		for _, k := range slices.Sorted(maps.Keys(v)) {
			write(b, k)
			write(b, v[k])
		}
	case []any:
		control(11, len(v))
		for _, e := range v {
			write(b, e)
		}
	default:
		panic(fmt.Sprintf("a test wants a value of type %T", v))
	}
}
