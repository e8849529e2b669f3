package report

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/mpiguard/mpiguard/internal/blackbox"
)

// lookBack are the times before the end for which the text shows the memory of
// each rank.
var lookBack = []time.Duration{5 * time.Second, 2 * time.Second, time.Second, 500 * time.Millisecond, 200 * time.Millisecond, 100 * time.Millisecond, 50 * time.Millisecond}

// Text writes the report for a terminal.
func (run *Run) Text(w io.Writer) error {
	var b strings.Builder
	b.WriteString(run.heading() + "\n\n")
	for _, s := range run.Story {
		b.WriteString(wrap(s, 110) + "\n")
	}
	for _, n := range run.Nodes {
		fmt.Fprintf(&b, "\n%s\n", n.title())
		n.table(&b)
		n.lastSeconds(&b)
		n.reservations(&b)
		n.phaseTable(&b)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// heading says which run it is.
func (run *Run) heading() string {
	text := "run " + run.ID
	if run.Job != "" {
		text += ", job " + run.Job
	}
	if run.Program != "" {
		text += ", " + run.Program
	}
	return fmt.Sprintf("%s: %d %s on %d %s, %s to %s (%s)", text, run.Size, plural(run.Size, "rank"), len(run.Nodes), plural(len(run.Nodes), "node"),
		run.Start.Format("2006-01-02 15:04:05"), run.End.Format("15:04:05"), seconds(run.End.Sub(run.Start)))
}

// wrap breaks a text into lines; those after the first are indented.
func wrap(s string, width int) string {
	var b strings.Builder
	at := 0
	for i, word := range strings.Fields(s) {
		switch {
		case i == 0:
		case at+1+len(word) > width:
			b.WriteString("\n  ")
			at = 2
		default:
			b.WriteByte(' ')
			at++
		}
		b.WriteString(word)
		at += len(word)
	}
	return b.String()
}

// rows writes rows of cells that are separated by tabs.
func rows(b *strings.Builder, write func(w io.Writer)) {
	w := tabwriter.NewWriter(b, 0, 0, 2, ' ', tabwriter.AlignRight)
	write(w)
	w.Flush()
}

func (n *Node) table(b *strings.Builder) {
	rows(b, func(w io.Writer) {
		fmt.Fprintln(w, "rank\tfate\tlast sign\tlevel\tanon\tpeak\tGo\tother\tshmem\treserved\tuntouched\tunaccounted\theadroom\tchunk\t")
		for _, r := range n.Ranks {
			s := r.Last
			if s == nil {
				fmt.Fprintf(w, "%d\t%s\t?\t\t\t\t\t\t\t\t\t\t\t\t\n", r.Rank, r.Fate)
				continue
			}
			chunk := "-"
			if s.ChunkBytes > 0 {
				chunk = size(s.ChunkBytes)
			}
			fmt.Fprintf(w, "%d\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t\n", r.Rank, r.Fate, s.At.Format("15:04:05.000"), s.Level,
				size(s.AnonBytes), size(r.PeakAnonBytes), size(s.GoBytes), size(s.NonGoBytes), size(s.ShmemBytes),
				size(s.ReservedBytes), size(s.UntouchedBytes), size(s.UnaccountedBytes), size(s.HeadroomBytes), chunk)
		}
	})
	for _, r := range n.Ranks {
		if r.Damage != "" {
			fmt.Fprintf(b, "the record of rank %d is damaged: %s\n", r.Rank, r.Damage)
		}
	}
}

// lastSeconds shows the private memory of each rank before the end of the node.
func (n *Node) lastSeconds(b *strings.Builder) {
	end := n.end()
	if end.IsZero() {
		return
	}
	rows(b, func(w io.Writer) {
		fmt.Fprint(w, "\nanon before "+end.Format("15:04:05.000")+"\t")
		for _, d := range lookBack {
			fmt.Fprintf(w, "-%v\t", d)
		}
		fmt.Fprint(w, "last\t\n")
		for _, r := range n.Ranks {
			if r.Last == nil {
				continue
			}
			fmt.Fprintf(w, "rank %d\t", r.Rank)
			for _, d := range lookBack {
				fmt.Fprintf(w, "%s\t", r.anonAt(end.Add(-d)))
			}
			fmt.Fprintf(w, "%s\t\n", size(r.Last.AnonBytes))
		}
	})
}

// end is when the last sample of the node's ranks was taken.
func (n *Node) end() time.Time {
	var end time.Time
	for _, r := range n.Ranks {
		if r.Last != nil && r.Last.At.After(end) {
			end = r.Last.At
		}
	}
	return end
}

// anonAt is the private memory at a moment, "-" where nothing is known of it.
func (r *Rank) anonAt(t time.Time) string {
	if s := sampleAt(r.Samples, t); !s.At.After(t) && !r.Last.At.Before(t) {
		return size(s.AnonBytes)
	}
	return "-"
}

func (n *Node) reservations(b *strings.Builder) {
	rows(b, func(w io.Writer) {
		first := true
		for _, r := range n.Ranks {
			for _, h := range r.Holders {
				if first {
					fmt.Fprintf(w, "\nlargest reservations\tsize\tin the last %s\t\n", seconds(growthOver))
					first = false
				}
				fmt.Fprintf(w, "rank %d: %q\t%s\t%s\t\n", r.Rank, h.Name, size(h.SizeBytes), signed(h.GrownBytes))
			}
		}
	})
}

func (n *Node) phaseTable(b *strings.Builder) {
	rows(b, func(w io.Writer) {
		first := true
		for _, r := range n.Ranks {
			for _, p := range r.Phases {
				if first {
					fmt.Fprintln(w, "\nphase\tstart\ttook\tpeak anon\tgrowth\t")
					first = false
				}
				took, growth := r.outcome(p)
				fmt.Fprintf(w, "rank %d: %q\t%s\t%s\t%s\t%s\t\n", r.Rank, p.Name, clock(p.Start), took, size(p.PeakAnonBytes), growth)
			}
		}
	})
}

// outcome says how long a phase took and what the rank grew by meanwhile. Of one
// that did not end it tells as much as the last sample.
func (r *Rank) outcome(p blackbox.Phase) (took, growth string) {
	switch {
	case !p.End.IsZero():
		return seconds(p.End.Sub(p.Start)), signed(p.EndAnonBytes - p.StartAnonBytes)
	case r.Last == nil:
		return "not ended", "?"
	}
	return "not ended", signed(r.Last.AnonBytes - p.StartAnonBytes)
}
