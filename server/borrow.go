package server

import "unsafe"

// borrow is b as a string without a copy.
//
// Lifetime: the string is good exactly as long as fasthttp leaves the bytes alone,
// which is until the handler that got them returns. Nothing may keep it: decide
// promises not to, and what the server keeps it copies first.
func borrow(b []byte) string {
	if len(b) == 0 {
		return ""
	}
	return unsafe.String(unsafe.SliceData(b), len(b))
}
