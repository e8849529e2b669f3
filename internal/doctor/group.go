package doctor

import (
	"fmt"
	"strings"
)

// group is ranks that have something in common.
type group struct {
	what  string
	ranks []int // in rising order
}

// groupBy groups ranks by what they have in common, the group of the lowest rank
// first.
func groupBy(ranks []Rank, what func(Rank) string) []group {
	var groups []group
	index := map[string]int{}
	for _, r := range ranks {
		w := what(r)
		i, ok := index[w]
		if !ok {
			i = len(groups)
			index[w] = i
			groups = append(groups, group{what: w})
		}
		groups[i].ranks = append(groups[i].ranks, r.Rank)
	}
	return groups
}

// describe says which ranks have what.
func describe(groups []group, name func(string) string) string {
	names := map[string]int{}
	for _, g := range groups {
		names[name(g.what)]++
	}
	var parts []string
	for _, g := range groups {
		text := name(g.what)
		if names[text] > 1 { // only the whole tells them apart
			text = fmt.Sprintf("%q", g.what)
		}
		parts = append(parts, fmt.Sprintf("%s on %s", text, ranksText(g.ranks)))
	}
	return strings.Join(parts, "; ")
}

// ranksText is a list of ranks for people: "rank 4", "ranks 0-3,5".
func ranksText(ranks []int) string {
	if len(ranks) == 1 {
		return fmt.Sprint("rank ", ranks[0])
	}
	return "ranks " + ranges(ranks)
}

// ranges is a list of rising numbers such as "0-3,5".
func ranges(numbers []int) string {
	var b strings.Builder
	for i := 0; i < len(numbers); {
		last := i
		for last+1 < len(numbers) && numbers[last+1] == numbers[last]+1 {
			last++
		}
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprint(&b, numbers[i])
		if last > i {
			fmt.Fprintf(&b, "-%d", numbers[last])
		}
		i = last + 1
	}
	return b.String()
}

// LibraryName is the name and the version of an MPI library, of the text by which
// it describes itself.
func LibraryName(text string) string {
	text, _, _ = strings.Cut(text, "\n") // MPICH goes on with how it was built
	text, _, _ = strings.Cut(text, ",")  // and Open MPI too
	text = strings.ReplaceAll(text, "Version:", "")
	return strings.Join(strings.Fields(text), " ")
}
