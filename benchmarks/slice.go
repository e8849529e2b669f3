package benchmarks

import (
	"slices"

	"github.com/mpiguard/mpiguard/benchmarks/pairs"
	"github.com/mpiguard/mpiguard/chunk"
)

const (
	sliceElements = 64 << 10 // 512 KiB: they stay in the second-level cache
	chunkElements = 1 << 10
)

func (b *Bench) openSlice(string) error {
	s := make([]float64, sliceElements)
	for i := range s {
		s[i] = float64(i)
	}
	cfg := chunk.Config{Sizer: chunk.Pin(8 * chunkElements)}
	b.add(Row{
		Name: "chunks of 1024 of a slice, summed", Bytes: 8 * sliceElements, Steps: sliceElements / chunkElements,
		Goal: Goal{OfPrimitive: 0.97},
		Ours: pairs.CPU("Slice", func(n int) {
			for range n {
				for c := range chunk.Slice(s, cfg) {
					total += sum(c)
				}
			}
		}),
		Primitive: pairs.CPU("plain loop", func(n int) {
			for range n {
				for i := 0; i < len(s); i += chunkElements {
					total += sum(s[i : i+chunkElements])
				}
			}
		}),
		Rivals: []pairs.Contender{pairs.CPU("slices.Chunk", func(n int) {
			for range n {
				for c := range slices.Chunk(s, chunkElements) {
					total += sum(c)
				}
			}
		})},
	})
	return nil
}

var total float64

// sum has four accumulators: one would wait for each addition.
func sum(s []float64) float64 {
	var a, b, c, d float64
	for ; len(s) >= 4; s = s[4:] {
		a, b, c, d = a+s[0], b+s[1], c+s[2], d+s[3]
	}
	for _, x := range s {
		a += x
	}
	return a + b + c + d
}
