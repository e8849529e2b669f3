package groupby

import (
	"bufio"
	"io"
	"math/rand/v2"
	"strconv"
)

// Names of stations are made of two halves: 20 × 20 of them.
var (
	firstHalves = [...]string{
		"Ald", "Bern", "Cor", "Dun", "Elm", "Fal", "Grün", "Hav", "Isk", "Jor",
		"Kar", "Lund", "Mar", "Nor", "Øst", "Pol", "Rav", "Sund", "Tor", "Val",
	}
	secondHalves = [...]string{
		"a", "berg", "by", "dal", "eck", "fjord", "haven", "holm", "ia", "kirk",
		"land", "mouth", "nes", "ona", "port", "stad", "ton", "vik", "wald", " Bay",
	}
)

const stations = len(firstHalves) * len(secondHalves)

func station(i int) string {
	return firstHalves[i/len(secondHalves)] + secondHalves[i%len(secondHalves)]
}

// Generate writes rows of station;temperature, the layout of the One Billion
// Row Challenge: as many as fit into sizeBytes. Equal sizes and seeds give equal
// bytes.
func Generate(w io.Writer, sizeBytes int64, seed uint64) error {
	random := rand.New(rand.NewPCG(seed, uint64(stations)))
	var starts [stations]string // "name;"
	var means [stations]int     // in tenths of a degree
	for i := range starts {
		starts[i] = station(i) + ";"
		means[i] = random.IntN(501) - 150
	}
	out := bufio.NewWriterSize(w, 1<<20)
	var row []byte
	for leftBytes := sizeBytes; ; leftBytes -= int64(len(row)) {
		bits := random.Uint64()
		i := int(bits % uint64(stations))
		bits /= uint64(stations)
		// The sum of three even spreads is bell-shaped enough, within ±30 degrees.
		tenths := means[i] - 300
		for range 3 {
			tenths += int(bits % 201)
			bits /= 201
		}
		row = appendTenths(append(row[:0], starts[i]...), tenths)
		row = append(row, '\n')
		if int64(len(row)) > leftBytes {
			return out.Flush()
		}
		if _, err := out.Write(row); err != nil {
			return err
		}
	}
}

func appendTenths(text []byte, tenths int) []byte {
	if tenths < 0 {
		text = append(text, '-')
		tenths = -tenths
	}
	text = strconv.AppendInt(text, int64(tenths/10), 10)
	return append(text, '.', byte('0'+tenths%10))
}
