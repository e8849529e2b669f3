//go:build cgo

package main

import (
	mpi "github.com/sbromberger/gompi"

	"github.com/mpiguard/mpiguard/mpiguard"
	"github.com/mpiguard/mpiguard/mpiguard/mpicomm"
)

func startMPI() (comm mpiguard.Comm, stop func()) {
	mpi.Start(false)
	return mpicomm.World(), mpi.Stop
}
