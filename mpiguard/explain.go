package mpiguard

import (
	"fmt"
	"strings"

	"github.com/dustin/go-humanize"
)

// Explain returns the constraints as a table, for people, and one sentence that
// says which of them binds.
func (b *Budget) Explain() string {
	var s strings.Builder
	for i := range b.Constraints {
		c := &b.Constraints[i]
		fmt.Fprintf(&s, "%-24s %-30s %10s %10s %10s\n", c.Source, c.Path, amount(c.LimitBytes), amount(c.UsedBytes), amount(c.HeadroomBytes(b.KeepFree)))
	}
	if c := b.Binding(); c != nil {
		fmt.Fprintf(&s, "%s binds.\n", c.Source)
	}
	return s.String()
}

func amount(bytes int64) string {
	switch bytes {
	case UnknownBytes:
		return "unknown"
	case UnlimitedBytes:
		return "unlimited"
	}
	return humanize.IBytes(uint64(bytes))
}
