package spill_test

import (
	"context"
	"fmt"
	"os"

	"github.com/mpiguard/mpiguard/chunk"
	"github.com/mpiguard/mpiguard/chunk/spill"
)

func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)

	spool, err := spill.New(ctx, spill.Config{MemoryBytes: 1 << 20, Dir: dir})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer spool.Close()
	for i := range 3 {
		fmt.Fprintf(spool, "line %d\n", i)
	}
	size := spool.SizeBytes()
	for line, err := range chunk.LinesAt(ctx, spool, size, chunk.Span{Length: size}, chunk.Config{}) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%s\n", line)
	}
	// Output:
	// line 0
	// line 1
	// line 2
}
