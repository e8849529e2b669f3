package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/mpiguard/mpiguard/internal/doctor"
	"github.com/mpiguard/mpiguard/mpiguard"
)

// exam is one rank's part of the examination. Rank 0 leads: what all ranks tell
// goes through collectives, and what may take longer is done by its orders, so
// that it knows for whom it waits.
type exam struct {
	mail
	// hosts are those of the ranks, on rank 0; "" for one that never said.
	hosts                []string
	library, threadLevel string
	deadline             time.Duration // within which a rank that does not answer is named
}

// A deadline is for a wait that ends in vain, for telling rank 0 so, and for the
// roll call that shows who is missing.
func (e *exam) patience() time.Duration { return e.deadline * 2 / 5 }
func (e *exam) slack() time.Duration    { return e.deadline / 5 }

func within(d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), d)
}

// examine makes the report, which is complete on rank 0 alone; another rank
// reports nothing but that rank 0 is silent. Not together: a rank is missing, and
// MPI cannot be stopped in order.
func (e *exam) examine() (report *doctor.Report, together bool) {
	report = &doctor.Report{}
	err := e.gather(report)
	switch leads := e.comm.Rank() == 0; {
	case errors.Is(err, mpiguard.ErrBroken) && leads:
		report.Silent = e.rollCall("when the ranks told their limits")
		if len(report.Silent) == 0 {
			report.Err = fmt.Errorf("all ranks answer, but one came too late: %w", err)
		}
		return report, false
	case errors.Is(err, mpiguard.ErrBroken):
		_ = e.present()
		time.Sleep(e.patience() + e.slack()) // rank 0 ends the job, unless it is the one
		report.Silent = []doctor.Silent{e.silent(0, "when the ranks told their limits")}
		return report, false
	case err != nil: // the same on all ranks
		report.Err = err
		return report, true
	case leads:
		return report, e.lead(report)
	case e.obey(report) != nil:
		report.Silent = []doctor.Silent{e.silent(0, "when it was to give orders")}
		return report, false
	}
	return report, true
}

// lead is what rank 0 does with the others. Until all are there, none begins to
// stop MPI: a job that is ended while some ranks wait in MPI_Finalize makes
// mpirun of Open MPI 4 hang or crash, now and then.
func (e *exam) lead(report *doctor.Report) (together bool) {
	e.measure(report)
	e.order(doPresent)
	report.Silent = e.rollCall("at the end")
	blocked := slices.ContainsFunc(report.Links, func(l doctor.Link) bool { return l.Blocked })
	if blocked || len(report.Silent) > 0 {
		return false
	}
	e.order(doStop)
	ctx, cancel := within(e.patience())
	defer cancel()
	e.flush(ctx)
	return true
}

// present tells rank 0 that this rank is there.
func (e *exam) present() error {
	ctx, cancel := within(e.patience())
	defer cancel()
	return e.sendBytes(ctx, nil, 0, tagHere)
}

// rollCall waits for all ranks to be present and returns those that are not.
func (e *exam) rollCall(when string) []doctor.Silent {
	ctx, cancel := within(e.patience())
	defer cancel()
	here := make([]bool, e.comm.Size())
	here[0] = true
	for range e.comm.Size() - 1 {
		m, err := e.receiveBytes(ctx, nil, mpiguard.AnySource, tagHere)
		if err != nil {
			break
		}
		here[m.Source] = true
	}
	return e.absent(here, when)
}

// absent are the ranks that are not here.
func (e *exam) absent(here []bool, when string) []doctor.Silent {
	var silent []doctor.Silent
	for rank, is := range here {
		if !is {
			silent = append(silent, e.silent(rank, when))
		}
	}
	return silent
}

func (e *exam) silent(rank int, when string) doctor.Silent {
	s := doctor.Silent{Rank: rank, When: fmt.Sprintf("within %v %s", e.deadline, when)}
	if rank < len(e.hosts) {
		s.Host = e.hosts[rank]
	}
	return s
}
