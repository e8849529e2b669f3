//go:build cgo

package main

import (
	"fmt"
	"os"
	"time"

	mpi "github.com/sbromberger/gompi"

	"github.com/mpiguard/mpiguard/internal/doctor"
	"github.com/mpiguard/mpiguard/mpiguard"
	"github.com/mpiguard/mpiguard/mpiguard/mpicomm"
)

// world is what is needed of mpicomm.World.
type world interface {
	mpiguard.Messenger
	mpiguard.Aborter
}

// start starts MPI, examines the job, and returns the exit code of this rank.
func (o options) start() int {
	returned := limit("MPI_Init", 3*o.Deadline)
	mpi.Start(false)
	returned()
	return o.run(mpicomm.World())
}

// run examines the job over w and stops MPI, or ends the job where that cannot
// be.
func (o options) run(w world) (code int) {
	e := &exam{mail: mail{comm: w}, deadline: o.Deadline, library: mpicomm.Library(), threadLevel: mpicomm.ThreadLevel()}
	report, together := &doctor.Report{}, false
	if report.Silent = e.meet(); len(report.Silent) == 0 {
		report, together = e.examine()
	}
	switch rank := w.Rank(); {
	case rank == 0:
		code = o.write(os.Stdout, report)
	case len(report.Silent) > 0: // rank 0 is: the first who is there says so and ends the job
		time.Sleep(time.Duration(min(rank-1, 20)) * 500 * time.Millisecond)
		code = o.write(os.Stdout, report)
	}
	if !together {
		w.Abort(code)
	}
	returned := limit("MPI_Finalize", o.Deadline)
	mpi.Stop()
	returned()
	return code
}

// The tags of messages on MPI_COMM_WORLD, before the communicator of our own is
// known to be complete.
const (
	tagHello = iota
	tagWelcome
)

// meet holds all ranks until all are there. Rank 0 returns those that are not in
// time; another rank returns rank 0 if that is silent.
func (e *exam) meet() []doctor.Silent {
	c := mpi.NewCommunicator(nil)
	ranks := e.comm.Size()
	if e.comm.Rank() != 0 {
		host, _ := os.Hostname()
		c.SendBytes([]byte(clip(" "+host, maxHostBytes)), 0, tagHello) // short enough to wait for nobody
		if _, ok := probe(c, 0, tagWelcome, 2*e.deadline); !ok {
			return []doctor.Silent{e.silent(0, "at the start")}
		}
		c.RecvPreallocBytes(make([]byte, 1), 0, tagWelcome)
		return nil
	}
	e.hosts = make([]string, ranks)
	here := make([]bool, ranks)
	here[0] = true
	end := time.Now().Add(e.deadline)
	for range ranks - 1 {
		source, ok := probe(c, mpi.AnySource, tagHello, time.Until(end))
		if !ok {
			return e.absent(here, "at the start")
		}
		buf := make([]byte, maxHostBytes)
		s := c.RecvPreallocBytes(buf, source, tagHello)
		here[source], e.hosts[source] = true, string(buf[1:s.GetCount(mpi.Byte)])
	}
	for rank := 1; rank < ranks; rank++ {
		c.SendBytes([]byte{0}, rank, tagWelcome)
	}
	return nil
}

const maxHostBytes = 65

// probe waits for a message and returns its source.
func probe(c *mpi.Communicator, source, tag int, patience time.Duration) (int, bool) {
	for start := time.Now(); ; time.Sleep(maxNap) {
		if found, s := c.Iprobe(source, tag); found {
			return s.GetSource(), true
		}
		if time.Since(start) > patience {
			return 0, false
		}
	}
}

// limit ends this rank with a message unless a call of MPI, which cannot be
// interrupted, has returned in time.
func limit(call string, patience time.Duration) (returned func()) {
	t := time.AfterFunc(patience, func() {
		host, _ := os.Hostname()
		fmt.Fprintf(os.Stderr, "mpidoctor: rank %s on %s waits in %s since %v, for ranks that do not say this\n",
			launched(os.Environ()), host, call, patience)
		time.Sleep(time.Second) // so that others can say it before the launcher ends them
		os.Exit(exitErrors)
	})
	return func() { t.Stop() }
}
