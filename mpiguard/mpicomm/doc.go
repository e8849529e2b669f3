// Package mpicomm is a mpiguard.Messenger over MPI, for programs that start
// MPI with github.com/sbromberger/gompi:
//
//	func init() { runtime.LockOSThread() } // main stays on the thread that starts MPI
//
//	func main() {
//		mpi.Start(false)
//		defer mpi.Stop()
//		guard, err := mpiguard.New(context.Background(), mpicomm.World(), mpiguard.Config{})
//		...
//	}
//
// mpi.Start(false) starts MPI for one thread: all calls come from that thread,
// others return ErrWrongThread. mpi.Start(true) allows any goroutine, one at a
// time. Calls of this package at the same time return ErrConcurrent; it cannot
// see those that the program makes through gompi, which are the program's to
// keep apart.
//
// # Ends
//
// A wait that ends early leaves the communicator broken (see mpiguard.Comm).
// What this rank still had to pass on in that collective may be lost to the
// others, who then wait until their own ctx ends. mpi.Stop waits for all ranks:
// after ErrBroken end with World().Abort instead. Calls after mpi.Stop return
// ErrFinalized.
//
// # Building
//
// The package needs cgo and an MPI-3 library; without cgo it is empty. The
// flags in its source, like those of gompi, are for Debian's and Ubuntu's Open
// MPI on x86-64. Elsewhere say where MPI is:
//
//	CGO_CFLAGS="$(mpicc --showme:compile)" CGO_LDFLAGS="$(mpicc --showme:link)" go build ./...  # Open MPI
//	CGO_CFLAGS="$(mpicc -compile_info | cut -d' ' -f2-)" CGO_LDFLAGS="$(mpicc -link_info | cut -d' ' -f2-)" go build ./...  # MPICH
package mpicomm
