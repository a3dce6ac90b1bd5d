package main

import (
	"fmt"
	"slices"
)

// turn is the order of a round: each round begins with another variant.
func turn(round, n int) []int {
	order := make([]int, n)
	for i := range order {
		order[i] = (round + i) % n
	}
	return order
}

// row prints the median of a variant's rates and latencies.
func row(name string, rate, p50, p99 []float64) {
	fmt.Printf("  %-38s %9.0f requests/s", name, median(rate))
	if p50 != nil {
		fmt.Printf("   p50 %6.2f ms   p99 %6.2f ms", median(p50), median(p99))
	}
	fmt.Println()
}

// printRatio prints the median and the spread of the rounds' ratios.
func printRatio(name string, a, b []float64) {
	ratios := make([]float64, len(a))
	for i := range a {
		ratios[i] = a[i] / b[i]
	}
	slices.Sort(ratios)
	n := len(ratios)
	fmt.Printf("  ratio %-32s %9.3f   (%d pairs: min %.3f, quartiles %.3f to %.3f, max %.3f)\n",
		name, median(ratios), n, ratios[0], ratios[n/4], ratios[n-1-n/4], ratios[n-1])
}

func median(v []float64) float64 {
	s := slices.Clone(v)
	slices.Sort(s)
	n := len(s)
	if n == 0 {
		return 0
	}
	return (s[n/2] + s[(n-1)/2]) / 2
}
