//go:build cgo

package mpicomm

// #include <mpi.h>
// #include "mpicomm.h"
import "C"

// Library returns what the MPI library says of itself, in one or more lines.
// It needs no MPI that was started.
func Library() string {
	var text [C.MPI_MAX_LIBRARY_VERSION_STRING]C.char
	var length C.int
	if C.MPI_Get_library_version(&text[0], &length) != C.MPI_SUCCESS {
		return ""
	}
	return C.GoString(&text[0]) // Open MPI counts the NUL at the end too
}

// ThreadLevel returns the name of the level of threading that MPI was started
// with, e.g. "MPI_THREAD_SINGLE", or "" where MPI is not running.
func ThreadLevel() string {
	switch C.mg_thread_level() {
	case C.MPI_THREAD_SINGLE:
		return "MPI_THREAD_SINGLE"
	case C.MPI_THREAD_FUNNELED:
		return "MPI_THREAD_FUNNELED"
	case C.MPI_THREAD_SERIALIZED:
		return "MPI_THREAD_SERIALIZED"
	case C.MPI_THREAD_MULTIPLE:
		return "MPI_THREAD_MULTIPLE"
	}
	return ""
}
