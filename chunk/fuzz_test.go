package chunk

import (
	"context"
	"strings"
	"testing"
)

// FuzzLines compares the lines and the blocks of all ranks with a plain split.
func FuzzLines(f *testing.F) {
	for _, s := range []string{"", "\n", "a", "a\r\nb", "\r\n\r\n", "long long long long line\nx\n", "\r\r\n\n"} {
		f.Add(s, uint8(3), uint8(4), false)
		f.Add(s, uint8(1), uint8(1), true)
	}
	f.Fuzz(func(t *testing.T, data string, ranks, buffer uint8, split bool) {
		size := int64(len(data))
		cfg := Config{Sizer: Pin(int64(buffer) + 1), MaxLineBytes: size, SplitLongLines: split}
		ra := strings.NewReader(data + "beyond the end")
		n := int(ranks)%16 + 1
		var lines []string
		var blocks strings.Builder
		for rank := range n {
			span := Partition(size, n, rank)
			got, err := collect(LinesAt(context.Background(), ra, size, span, cfg))
			if err != nil {
				t.Fatal(err)
			}
			lines = append(lines, got...)
			got, err = collect(LineBlocksAt(context.Background(), ra, size, span, cfg))
			if err != nil {
				t.Fatal(err)
			}
			for _, b := range got {
				blocks.WriteString(b)
			}
		}
		if blocks.String() != data {
			t.Fatalf("blocks make %q of %q", blocks.String(), data)
		}
		want := oracle(data)
		if !split {
			want = bare(want)
		}
		if len(lines) != len(want) {
			t.Fatalf("%d lines %q of %q", len(lines), lines, data)
		}
		for i := range want {
			if lines[i] != want[i] {
				t.Fatalf("line %d is %q, not %q", i, lines[i], want[i])
			}
		}
	})
}
