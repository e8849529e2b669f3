//go:build !cgo

package main

import (
	"fmt"
	"os"
)

// start says why it cannot.
func (o options) start() int {
	fmt.Fprintln(os.Stderr, "mpidoctor: built without cgo, and so without MPI: build it with CGO_ENABLED=1 where MPI is installed")
	return exitErrors
}
