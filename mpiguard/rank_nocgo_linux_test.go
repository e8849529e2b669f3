//go:build !cgo

package mpiguard_test

// rank needs MPI.
func rank(string) int { panic("no rank without cgo") }
