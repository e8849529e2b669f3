package doctor

import (
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
)

// Text is the report for people: a line for each node, one for ranks that are
// alike, and what was found.
func (r *Report) Text() string {
	var b strings.Builder
	if len(r.Ranks) > 0 {
		fmt.Fprintf(&b, "%s on %s\n\n", count(int64(len(r.Ranks)), "rank"), count(int64(len(r.Nodes)), "node"))
		r.writeLimits(&b)
		r.writePlaces(&b)
		r.writeRanks(&b)
	}
	all := r.Findings()
	for _, n := range r.notes() {
		fmt.Fprintf(&b, "note: %s%s\n", on(n.Hosts), n.Text)
	}
	for _, f := range all {
		fmt.Fprintf(&b, "%v: %s%s\n", f.Severity, on(f.Hosts), f.Text)
	}
	if len(all) == 0 {
		fmt.Fprintln(&b, "nothing wrong was found")
	}
	return b.String()
}

// on says where something is.
func on(hosts []string) string {
	if len(hosts) == 0 {
		return ""
	}
	return strings.Join(bounded(hosts), ", ") + ": "
}

// notes are the remarks on the limits of the nodes.
func (r *Report) notes() []Finding {
	var f findings
	for _, n := range r.Nodes {
		for _, note := range n.Notes {
			f.add(Warning, n.Host, "%s", note)
		}
	}
	return f
}

// table writes rows in columns, and an empty line.
func table(b *strings.Builder, rows [][]string) {
	w := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	w.Flush()
	b.WriteByte('\n')
}

func (r *Report) writeLimits(b *strings.Builder) {
	rows := [][]string{{"node", "ranks", "limit", "used", "headroom", "limited by"}}
	for i, n := range r.Nodes {
		rows = append(rows, []string{n.Host, ranges(r.ranksOn(i)),
			n.LimitBytes.String(), n.UsedBytes.String(), n.HeadroomBytes.String(), n.Binding})
	}
	table(b, rows)
}

func (r *Report) writePlaces(b *strings.Builder) {
	rows := [][]string{{"node", "/dev/shm", "session directory", "stale segments", "helpers"}}
	if len(r.Links) > 0 {
		rows[0] = append(rows[0], "latency", "bandwidth")
	}
	networks := r.Network()
	for i, n := range r.Nodes {
		row := []string{n.Host, n.Shm.text(), n.Session.text() + " in " + n.Session.Path, n.Stale.text(), n.Helpers.text()}
		if len(r.Links) > 0 {
			row = append(row, networks[i].texts()...)
		}
		rows = append(rows, row)
	}
	table(b, rows)
}

func (r *Report) writeRanks(b *strings.Builder) {
	sizes := make([]int, len(r.Nodes))
	for _, k := range r.Ranks {
		sizes[k.Node]++
	}
	groups := groupBy(r.Ranks, func(k Rank) string {
		said := "-"
		if k.SaidRanks > 0 {
			said = fmt.Sprintf("%d (%s)", k.SaidRanks, k.SaidBy)
		}
		openFiles := "unknown"
		if k.OpenFiles >= 0 {
			openFiles = fmt.Sprint(k.OpenFiles)
		}
		return strings.Join([]string{r.Nodes[k.Node].Host, k.LimitBytes.String(), k.ShareBytes.String(),
			fmt.Sprint(sizes[k.Node]), said, k.LockedBytes.String(), openFiles, k.ThreadLevel, LibraryName(k.Library)}, "\t")
	})
	rows := [][]string{{"ranks", "node", "limit", "share", "local ranks", "as variables say", "locked memory", "open files", "thread level", "MPI library"}}
	for _, g := range groups {
		rows = append(rows, slices.Concat([]string{ranges(g.ranks)}, strings.Split(g.what, "\t")))
	}
	table(b, rows)
}

func (f FileSystem) text() string { return fmt.Sprintf("%v free of %v", f.FreeBytes, f.SizeBytes) }

func (s Segments) text() string {
	switch {
	case s.Count < 0:
		return "unknown"
	case s.Count == 0:
		return "0"
	}
	return fmt.Sprintf("%d (%v)", s.Count, s.HeldBytes)
}

func (h Helpers) text() string {
	switch {
	case h.Group == "":
		return "-"
	case h.Count == 0:
		return "0"
	}
	return fmt.Sprintf("%d (%v)", h.Count, h.AnonBytes)
}

// texts are the latency and the bandwidth, marked if they are outliers.
func (n NodeNetwork) texts() []string {
	if n.BytesPerSecond == 0 {
		return []string{"-", "-"}
	}
	mark := map[bool]string{true: " !"}
	return []string{seconds(n.LatencySeconds) + mark[n.Slow], rate(n.BytesPerSecond) + mark[n.Narrow]}
}
