package mint

import (
	"testing"
	"time"
)

// go test -run - -bench . ./decide/mint
func BenchmarkPrice(b *testing.B) {
	l := New(Options{PerNetworkDay: many})
	for i := range uint64(200_000) {
		l.mint(i, v6(int(i)), v6(int(i)), start)
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		l.Price(v6(i%200_000), at(time.Minute))
	}
}

func BenchmarkMint(b *testing.B) {
	l := New(Options{PerNetworkDay: many})
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		l.mint(uint64(i), v6(i%200_000), v4(i%200_000), start+int64(i)*1000)
	}
}

func BenchmarkWait(b *testing.B) {
	l := New(Options{})
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		l.Wait(v4(i%200_000), start+int64(i)*1000)
	}
}
