package chunk_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"strings"

	"github.com/mpiguard/mpiguard/chunk"
)

func ExampleLines() {
	input := strings.NewReader("Hamburg;12.0\r\nBulawayo;8.9\nPalembang;38.8")
	for line, err := range chunk.Lines(context.Background(), input, chunk.Config{}) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%q\n", line)
	}
	// Output:
	// "Hamburg;12.0"
	// "Bulawayo;8.9"
	// "Palembang;38.8"
}

// Three ranks share a file. A line belongs to the rank in whose span it starts.
func ExampleLinesAt() {
	file := strings.NewReader("a long first line\nb\nc\nd\n")
	const ranks = 3
	for rank := range ranks {
		span := chunk.Partition(file.Size(), ranks, rank)
		for line, err := range chunk.LinesAt(context.Background(), file, file.Size(), span, chunk.Config{}) {
			if err != nil {
				fmt.Println(err)
				return
			}
			fmt.Printf("rank %d: %s\n", rank, line)
		}
	}
	// Output:
	// rank 0: a long first line
	// rank 2: b
	// rank 2: c
	// rank 2: d
}

// A parser that finds the ends of lines itself takes whole blocks.
func ExampleLineBlocksAt() {
	file := strings.NewReader("a;1\nb;2\na;3\n")
	span := chunk.Partition(file.Size(), 1, 0)
	rows := 0
	for block, err := range chunk.LineBlocksAt(context.Background(), file, file.Size(), span, chunk.Config{}) {
		if err != nil {
			fmt.Println(err)
			return
		}
		rows += bytes.Count(block, []byte("\n"))
	}
	fmt.Println(rows, "rows")
	// Output: 3 rows
}

func ExampleReadAt() {
	file := strings.NewReader("0123456789")
	span := chunk.Partition(file.Size(), 2, 1)
	cfg := chunk.Config{Sizer: chunk.Pin(2)}
	for part, err := range chunk.ReadAt(context.Background(), file, span, cfg) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%s\n", part)
	}
	// Output:
	// 56
	// 78
	// 9
}

func ExampleSlice() {
	temperatures := []float64{12, 8.9, 38.8, 15.2, 12.6}
	cfg := chunk.Config{Sizer: chunk.Pin(2 * 8)} // two of them at a time
	for part := range chunk.Slice(temperatures, cfg) {
		fmt.Println(part)
	}
	// Output:
	// [12 8.9]
	// [38.8 15.2]
	// [12.6]
}

type reading struct {
	Station uint32
	Celsius float32
}

// Four ranks share a file of binary records.
func ExampleRecords() {
	raw, err := binary.Append(nil, binary.LittleEndian, []reading{{1, 12}, {2, 8.9}, {1, 38.8}, {3, 15.2}, {2, 12.6}})
	if err != nil {
		fmt.Println(err)
		return
	}
	file := bytes.NewReader(raw)
	records := file.Size() / int64(binary.Size(reading{}))
	span := chunk.Partition(records, 4, 0)
	for batch, err := range chunk.Records[reading](context.Background(), file, span, chunk.Config{}) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(batch)
	}
	// Output: [{1 12} {2 8.9}]
}

// The program fills batches with what it computes.
func ExampleLoad() {
	n := 0
	squares := func(batch []int64) (int, error) {
		for i := range batch {
			if n == 5 {
				return i, io.EOF
			}
			batch[i] = int64(n * n)
			n++
		}
		return len(batch), nil
	}
	cfg := chunk.Config{Sizer: chunk.Pin(3 * 8)} // three at a time
	for batch, err := range chunk.Load(context.Background(), squares, cfg) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(batch)
	}
	// Output:
	// [0 1 4]
	// [9 16]
}

// alone is the only rank, so that it decides for all. A *mpiguard.Guard asks the
// others.
type alone struct{}

func (alone) AnyMore(_ context.Context, more bool) (bool, error) { return more, nil }

// Ranks with different numbers of chunks take the same number of steps, so that each
// step may end with a collective.
func ExampleLockstep() {
	ctx := context.Background()
	lines := chunk.Lines(ctx, strings.NewReader("a\nb\n"), chunk.Config{})
	for turn, err := range chunk.Lockstep(ctx, alone{}, lines) {
		if err != nil {
			fmt.Println(err)
			return
		}
		if turn.OK {
			fmt.Printf("%s\n", turn.Value)
		}
		// Here comes the collective, also on ranks that have no more lines.
	}
	// Output:
	// a
	// b
}

func ExampleReadWhole() {
	file := strings.NewReader("all of it")
	whole, err := chunk.ReadWhole(context.Background(), file, chunk.Span{Length: file.Size()}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer whole.Release()
	fmt.Printf("%s\n", whole.Bytes())
	// Output: all of it
}
