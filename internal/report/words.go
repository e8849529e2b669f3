package report

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
)

// size prints a number of bytes for people.
func size(n int64) string {
	switch {
	case n == blackboxUnknown:
		return "unknown"
	case n == blackboxUnlimited:
		return "unlimited"
	case n < 0:
		return "-" + humanize.IBytes(uint64(-n))
	}
	return humanize.IBytes(uint64(n))
}

// signed is size with a sign.
func signed(n int64) string {
	if n >= 0 {
		return "+" + humanize.IBytes(uint64(n))
	}
	return "-" + humanize.IBytes(uint64(-n))
}

// sizes prints several numbers of bytes in one unit: "61, 58, 40 MiB". The
// largest unit in which the largest number has a digit before the point.
func sizes(bytes []int64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB", "PiB"}
	u, unit := 0, 1.0
	for top := float64(slices.Max(bytes)); top/unit >= 1024 && u < len(units)-1; u++ {
		unit *= 1024
	}
	words := make([]string, len(bytes))
	for i, n := range bytes {
		v := float64(n) / unit
		words[i] = strconv.FormatFloat(v, 'f', decimals(v), 64)
	}
	return strings.Join(words, ", ") + " " + units[u]
}

func decimals(v float64) int {
	if v != 0 && v < 10 {
		return 1
	}
	return 0
}

func plural(n int, noun string) string {
	if n == 1 {
		return noun
	}
	return noun + "s"
}

// rankList prints "rank 3" or "ranks 0-2, 5".
func rankList(ranks []int) string {
	ranks = slices.Clone(ranks)
	slices.Sort(ranks)
	var parts []string
	for i := 0; i < len(ranks); {
		j := i
		for j+1 < len(ranks) && ranks[j+1] == ranks[j]+1 {
			j++
		}
		switch {
		case j == i:
			parts = append(parts, strconv.Itoa(ranks[i]))
		case j == i+1:
			parts = append(parts, strconv.Itoa(ranks[i]), strconv.Itoa(ranks[j]))
		default:
			parts = append(parts, fmt.Sprintf("%d-%d", ranks[i], ranks[j]))
		}
		i = j + 1
	}
	return plural(len(ranks), "rank") + " " + strings.Join(parts, ", ")
}

func numbers(ranks []*Rank) []int {
	out := make([]int, len(ranks))
	for i, r := range ranks {
		out[i] = r.Rank
	}
	return out
}

// clock prints the time of day to a tenth of a second.
func clock(t time.Time) string { return t.Format("15:04:05.0") }

// seconds prints a duration with the digits that matter.
func seconds(d time.Duration) string {
	switch {
	case d < 10*time.Second:
		return strconv.FormatFloat(d.Seconds(), 'f', 1, 64) + " s"
	case d < 2*time.Minute:
		return strconv.FormatFloat(d.Seconds(), 'f', 0, 64) + " s"
	}
	return d.Round(time.Second).String()
}
