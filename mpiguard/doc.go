// Package mpiguard keeps the ranks of an MPI program within their memory.
//
// A rank that passes its limit is killed by the kernel, and the whole job with it.
// A Guard, one a rank, knows the limits of the rank and why they are what they are
// (Budget), measures what is used (Usage, Survey), raises a Level as memory runs
// short, and grants memory before it is allocated (Reserve), out of one budget that
// all ranks of a node share.
//
//	g, err := mpiguard.New(ctx, mpicomm.World(), mpiguard.Config{}) // Collective.
//	if err != nil {
//		return err
//	}
//	defer g.Close()
//
// Package chunk reads in pieces that follow the headroom, package bufpool keeps
// buffers that are paid for; a *Reservation is the account of both.
//
// # Collective calls
//
// New, Survey and Pulse are collective: all ranks of the communicator call them in
// the same order. They always enter; what keeps a rank from taking part as asked is
// its vote, and all ranks return the same error. Nothing in the background calls
// MPI. All other methods are local, and safe for concurrent use.
//
// # What is not covered
//
// Memory that nobody asked for is measured and leaves less for those who do ask; a
// program that takes it faster than it is measured is still killed. What was
// promised counts as used until it is resident: growth of the process goes first
// to what was promised and not touched, so garbage or a leak that grows after a
// promise is taken for the promise's until the next fall. Limits above a cgroup
// namespace cannot be seen.
package mpiguard
