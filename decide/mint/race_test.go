//go:build race

package mint

// effort is how many times a test does over what the race detector makes slow.
const effort = 1
