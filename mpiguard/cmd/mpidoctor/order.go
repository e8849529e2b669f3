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
	e.measureAgain(report, first, blocked)
}

// measureAgain has links measured once more that look bad, since a core that was
// busy at the wrong moment looks the same. The better figures count.
func (e *exam) measureAgain(report *doctor.Report, first []int, blocked []bool) {
	start := time.Now()
	for _, i := range report.Doubtful() {
		l := &report.Links[i]
		if blocked[l.Nodes[0]] || blocked[l.Nodes[1]] {
			continue
		}
		if time.Since(start) > e.deadline { // so many are no accident
			return
		}
		again := e.round([][2]int{l.Nodes}, first, blocked)[0]
		if again.Blocked {
			*l = again
			continue
		}
		l.LatencySeconds = min(l.LatencySeconds, again.LatencySeconds)
		l.BytesPerSecond = max(l.BytesPerSecond, again.BytesPerSecond)
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
	patience := e.deadline
	if rounds := len(doctor.Rounds(len(report.Nodes))); rounds > 0 {
		patience *= time.Duration(rounds + 2) // it may be busy with others for as long
	}
	for {
		o, err := e.nextOrder(patience)
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
