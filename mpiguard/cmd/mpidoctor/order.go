package main

import (
	"time"

	"github.com/mpiguard/mpiguard/internal/doctor"
)

// order is what rank 0 tells another rank to do.
type order struct {
	Do   task
	Peer int // the other rank of a link
}

type task int

const (
	doMeasure task = iota // the way to Peer, and tell rank 0
	doAnswer              // Peer, which measures
	doPresent             // tell rank 0 that it is there
	doStop                // stop MPI, as all are there
)

// measure has the first ranks of the nodes measure the ways between them, as many
// at a time as there are pairs of nodes.
func (e *exam) measure(report *doctor.Report) {
	first := make([]int, len(report.Nodes)) // rank of each node
	for rank := len(report.Ranks) - 1; rank >= 0; rank-- {
		first[report.Ranks[rank].Node] = rank
	}
	blocked := make([]bool, len(report.Nodes)) // those that need not be waited for again
	for _, pairs := range doctor.Rounds(len(report.Nodes)) {
		var free [][2]int
		for _, p := range pairs {
			if !blocked[p[0]] && !blocked[p[1]] {
				free = append(free, p)
			}
		}
		report.Links = append(report.Links, e.round(free, first, blocked)...)
	}
}

// round measures links, of which no two have a node in common.
func (e *exam) round(pairs [][2]int, first []int, blocked []bool) []doctor.Link {
	ctx, cancel := within(e.patience() + e.slack())
	defer cancel()
	for _, p := range pairs {
		// An order that is not got shows in the reply that does not come.
		_ = e.post(order{doAnswer, first[p[0]]}, first[p[1]], tagOrder)
		if first[p[0]] != 0 {
			_ = e.post(order{doMeasure, first[p[1]]}, first[p[0]], tagOrder)
		}
	}
	var links []doctor.Link
	for _, p := range pairs {
		var l doctor.Link
		if first[p[0]] == 0 {
			l = e.link(first[p[1]])
		} else if _, err := e.receive(ctx, &l, first[p[0]], tagReply); err != nil {
			l = doctor.Link{Blocked: true}
			blocked[p[0]] = true // it would have said if the other were silent
		}
		blocked[p[1]] = blocked[p[1]] || l.Blocked && !blocked[p[0]]
		l.Nodes = p
		links = append(links, l)
	}
	return links
}

// order has all other ranks do something. Who does not get it does not answer.
func (e *exam) order(t task) {
	for rank := 1; rank < e.comm.Size(); rank++ {
		_ = e.post(order{Do: t}, rank, tagOrder)
	}
}

// obey does what rank 0 says until it says to stop. An error is that rank 0 is
// silent.
func (e *exam) obey(report *doctor.Report) error {
	rounds := len(doctor.Rounds(len(report.Nodes)))
	for {
		o, err := e.nextOrder(time.Duration(rounds+1) * e.deadline) // it may be busy with others for as long
		if err != nil {
			return err
		}
		switch o.Do {
		case doMeasure:
			if err := e.post(e.link(o.Peer), 0, tagReply); err != nil {
				return err
			}
		case doAnswer:
			e.answer(o.Peer)
		case doPresent:
			if err := e.present(); err != nil {
				return err
			}
		case doStop:
			return nil
		}
	}
}

func (e *exam) nextOrder(patience time.Duration) (o order, err error) {
	ctx, cancel := within(patience)
	defer cancel()
	_, err = e.receive(ctx, &o, 0, tagOrder)
	return o, err
}
