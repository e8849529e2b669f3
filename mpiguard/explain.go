package mpiguard

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Explain returns, for people, the constraints as a table, one sentence that
// says which of them binds and why, and what detection met. The text is no
// format to parse: see MarshalJSON.
func (b *Budget) Explain() string {
	var s strings.Builder
	b.writeTable(&s)
	fmt.Fprintf(&s, "\n%s\n", b.why())
	for _, note := range b.notes() {
		fmt.Fprintf(&s, "- %s\n", note)
	}
	return s.String()
}

// writeTable writes one line for each constraint.
func (b *Budget) writeTable(s *strings.Builder) {
	rows := [][6]string{{"constraint", "kind", "limit", "used", "headroom", ""}}
	binding := b.Binding()
	for i := range b.Constraints {
		c := &b.Constraints[i]
		row := [6]string{c.label(), c.Kind.String(), sizeText(c.LimitBytes), sizeText(c.UsedBytes), sizeText(c.HeadroomBytes(b.KeepFree)), ""}
		if c.LimitBytes == UnlimitedBytes {
			row[4] = ""
			if c.UsedBytes == UnknownBytes {
				row[3] = "" // not read, since it decides nothing
			}
		}
		if c == binding {
			row[5] = "binds"
		}
		rows = append(rows, row)
	}
	var width [6]int
	for _, row := range rows {
		for i, cell := range row {
			width[i] = max(width[i], utf8.RuneCountInString(cell))
		}
	}
	for _, r := range rows {
		line := fmt.Sprintf("%-*s  %-*s  %*s  %*s  %*s  %s",
			width[0], r[0], width[1], r[1], width[2], r[2], width[3], r[3], width[4], r[4], r[5])
		s.WriteString(strings.TrimRight(line, " ") + "\n")
	}
}

// why says in one sentence which constraint binds.
func (b *Budget) why() string {
	c := b.Binding()
	if c == nil {
		return "No limit can be read here, not even the memory of the node: the budget is unknown."
	}
	var s strings.Builder
	if c.Scope == ScopeNode && b.LimitBytes() == c.LimitBytes {
		s.WriteString("No smaller limit can be seen than the memory of the node: ")
	} else {
		fmt.Fprintf(&s, "%s binds: ", c.label())
	}
	if c.UsedBytes == UnknownBytes {
		fmt.Fprintf(&s, "the limit is %s, how much of it is used is unknown.", sizeText(c.LimitBytes))
		return s.String()
	}
	fmt.Fprintf(&s, "of %s, %s is used %s and %s is kept free, which leaves %s", sizeText(c.LimitBytes), sizeText(c.UsedBytes),
		c.usedBy(b), sizeText(c.KeptFreeBytes(b.KeepFree)), sizeText(c.HeadroomBytes(b.KeepFree)))
	if c.slackBytes(b.KeepFree) < 0 {
		fmt.Fprintf(&s, " (%s too much is used already)", sizeText(-c.slackBytes(b.KeepFree)))
	}
	switch c.Kind {
	case KindSoft:
		s.WriteString("; above it the kernel does not kill but throttles")
	case KindAdvisory:
		s.WriteString("; it was asked for, and nothing in the kernel enforces it")
	}
	return s.String() + "."
}

// usedBy says whose usage counts against c.
func (c *Constraint) usedBy(b *Budget) string {
	switch c.Scope {
	case ScopeCgroup:
		if b.Constraints[0].Path == c.Path {
			return "by all processes of this group"
		}
		return "by all groups below, this one and its siblings,"
	case ScopeJob:
		return "by this process"
	case ScopeNode:
		return "by all that runs here"
	}
	return "by this process"
}

// notes are the remarks on the budget and on its constraints.
func (b *Budget) notes() []string {
	notes := append([]string(nil), b.Notes...)
	for i, c := range b.Constraints {
		for _, n := range c.Notes {
			notes = append(notes, c.label()+": "+n)
		}
		if c.Throttled > 0 {
			notes = append(notes, fmt.Sprintf("%s: processes were throttled %d times at this limit, which slows them and kills none", c.label(), c.Throttled))
		}
		if c.Killed > 0 && (i == 0 || c.Path != b.Constraints[i-1].Path) {
			notes = append(notes, fmt.Sprintf("%s: %d processes were killed for memory since the group was made", c.Path, c.Killed))
		}
	}
	return notes
}
