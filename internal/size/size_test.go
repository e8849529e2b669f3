package size

import (
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestParse(t *testing.T) {
	for in, want := range map[string]int64{
		"1G":                  1_000_000_000,
		"1Gi":                 1 << 30,
		"1GiB":                1 << 30,
		"1gb":                 1_000_000_000,
		"1.5g":                1_500_000_000,
		"512M":                512_000_000,
		"1024":                1024,
		"2T":                  2_000_000_000_000,
		" 1 GiB ":             1 << 30,
		"0":                   0,
		"0.5KiB":              512,
		"7b":                  7,
		"10.":                 10,
		"1152921504606846976": MaxBytes,
		"1024Pi":              MaxBytes,
	} {
		got, err := Parse(in)
		require.NoError(t, err, in)
		assert.Equal(t, want, got, in)
	}
}

func TestParseRejects(t *testing.T) {
	for _, in := range []string{
		"", " ", "-1", "+1", "1e9", "abc", "lots", "1X", "1Gibi", "G", ".", "1..5G", "1 2", "0x10", "1_000", "1,5G", "NaN", "inf",
		"1152921504606846977", "1025Pi", "1024.5Pi", "99999999999999999999", "9223372036854775807", strings.Repeat("9", 1<<20),
	} {
		got, err := Parse(in)
		assert.Error(t, err, in)
		assert.Zero(t, got, in)
		if err != nil {
			assert.Less(t, len(err.Error()), 120, "the error stays short")
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"1G", "1.5GiB", " 1 GiB ", "-1", "1e9", "99999999999999999999", "1024Pi", "0.0000001P"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		n, err := Parse(s)
		if err != nil {
			return
		}
		if n < 0 || n > MaxBytes {
			t.Fatalf("Parse(%q) = %d is out of bounds", s, n)
		}
		// What was parsed, written as bytes, parses to itself.
		if again, err := Parse(strconv.FormatInt(n, 10)); err != nil || again != n {
			t.Fatalf("%d parses to %d, %v", n, again, err)
		}
	})
}
