package procfs

import (
	"bytes"
	"slices"
	"strconv"
)

// ParseList parses a list of CPUs or NUMA nodes such as "0-3,8", in which the
// kernel names numbers up to some thousand. Junk gives nil.
func ParseList(text []byte) []int {
	var list []int
	for _, part := range bytes.Split(trim(text), []byte(",")) {
		lo, hi, isRange := bytes.Cut(part, []byte("-"))
		first, err := strconv.Atoi(string(lo))
		if err != nil || first < 0 || first >= maxListed {
			return nil
		}
		last := first
		if isRange {
			if last, err = strconv.Atoi(string(hi)); err != nil || last < first || last >= maxListed {
				return nil
			}
		}
		for n := first; n <= last && len(list) < maxListed; n++ {
			list = append(list, n)
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// maxListed is above every number of CPUs and nodes that Linux can have.
const maxListed = 1 << 16
