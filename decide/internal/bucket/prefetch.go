//go:build amd64 || arm64

package bucket

// prefetch asks for a bucket to be brought into the processor's cache. It waits for nothing,
// and needs no lock.
//
//go:noescape
func prefetch(b *Bucket)
