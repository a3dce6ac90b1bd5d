package path

import "unsafe"

// lend makes a string of b without copying it. Its bytes change when b's do: it is
// only for Readings, whose strings are valid until the next Parse writes into the
// buffer that b is part of.
func lend(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
