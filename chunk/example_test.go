package chunk_test

import (
	"bytes"
	"context"
	"fmt"
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
