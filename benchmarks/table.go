package benchmarks

import (
	"fmt"
	"io"
	"strings"

	"github.com/mpiguard/mpiguard/benchmarks/pairs"
)

// WriteTable writes the rows as one table in Markdown: the median of each
// contender with its 95 % interval, and what is reached of the goal.
func WriteTable(w io.Writer, rows []Measured) error {
	var b strings.Builder
	b.WriteString("| operation | ours | instead | bounded by | ours ÷ bound | goal | reached |\n|---|---|---|---|---|---|---|\n")
	for _, m := range rows {
		own := m.cell(ours, "")
		if m.Goal.Allocs >= 0 {
			own += fmt.Sprintf(", %d allocs", m.allocs(ours))
		}
		var rivals []string
		for i := firstRival; i < len(m.Names); i++ {
			rivals = append(rivals, fmt.Sprintf("%s: × %.2g", m.cell(i, m.Names[i]), m.Result.Ratio(i, ours).Median))
		}
		goal, reached := m.verdict()
		ratio := m.Result.Ratio(ours, primitive)
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s | %s |\n", m.Name, own, strings.Join(rivals, "; "),
			m.cell(primitive, m.Names[primitive]), interval(ratio, 2, ""), goal, reached)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// cell is the time of a contender, or its rate.
func (m Measured) cell(i int, name string) string {
	e := m.Result.Nanoseconds(i)
	text := ""
	if m.Bytes > 0 {
		rate := func(ns float64) float64 { return float64(m.Bytes) / ns }
		text = interval(pairs.Estimate{Median: rate(e.Median), Low: rate(e.High), High: rate(e.Low)}, 2, " GB/s")
	} else {
		per, unit := scale(e.Median)
		digits := 2
		if e.Median/per >= 10 {
			digits = 1
		}
		text = interval(pairs.Estimate{Median: e.Median / per, Low: e.Low / per, High: e.High / per}, digits, " "+unit)
	}
	return strings.TrimSpace(name + " " + text)
}

// verdict is the goal, and whether it is reached or by how much it is missed. A
// machine that is slower than the one where a goal in nanoseconds was set may
// miss it and reach the ratio.
func (m Measured) verdict() (goal, reached string) {
	var texts, missed []string
	for _, c := range m.checks() {
		texts = append(texts, c.text)
		if c.of > 1 {
			missed = append(missed, fmt.Sprintf("misses %s by %.0f %%", c.text, 100*(c.of-1)))
		}
	}
	goal = strings.Join(texts, ", ")
	if len(missed) == 0 {
		return goal, "yes"
	}
	if r := m.Goal.ratio(); r > 0 && m.Result.Ratio(ours, primitive).Median <= r {
		missed = append(missed, fmt.Sprintf("reaches the ratio ≤ %.2f", r))
	}
	reached = strings.Join(missed, ", ")
	if m.Reason != "" {
		reached += ": " + m.Reason
	}
	return goal, reached
}

func interval(e pairs.Estimate, digits int, unit string) string {
	return fmt.Sprintf("%.*f%s (%.*f–%.*f)", digits, e.Median, unit, digits, e.Low, digits, e.High)
}

// duration is a number of nanoseconds in the unit that suits it.
func duration(ns float64) string {
	per, unit := scale(ns)
	return fmt.Sprintf("%.3g %s", ns/per, unit)
}

func scale(ns float64) (per float64, unit string) {
	switch {
	case ns >= 1e9:
		return 1e9, "s"
	case ns >= 1e6:
		return 1e6, "ms"
	case ns >= 1e3:
		return 1e3, "µs"
	}
	return 1, "ns"
}

// WriteRounds writes every batch as a result of package testing does, for
// benchstat -col /by.
func WriteRounds(w io.Writer, rows []Measured) error {
	var b strings.Builder
	for _, m := range rows {
		for round := range m.Result.Samples[ours] {
			for i := range m.Names {
				s := m.Result.Samples[i][round]
				fmt.Fprintf(&b, "Benchmark%s\t%d\t%.4g ns/op\t%.0f allocs/op\n", benchName(m.Name, i), m.Result.Times[i],
					s.Nanoseconds, s.Allocs)
			}
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// benchName is the name of contender i of a row as a benchmark: by what it is to
// ours, since a column for each library would compare nothing.
func benchName(row string, i int) string {
	by := "ours"
	switch {
	case i == primitive:
		by = "bound"
	case i >= firstRival:
		by = fmt.Sprintf("instead%d", i-firstRival+1)
	}
	words := strings.Map(func(r rune) rune {
		if r == ' ' || r == '/' || r == '-' {
			return '_'
		}
		return r
	}, row)
	return strings.ToUpper(words[:1]) + words[1:] + "/by=" + by
}
