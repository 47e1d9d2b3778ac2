//go:build !race

package mapperpool

const instrumented = 1
