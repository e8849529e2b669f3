package groupby

import (
	"encoding/json"
	"math"
	"math/big"
	"math/rand/v2"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestParseNumber(t *testing.T) {
	for text, want := range map[string]Number{
		"0":                   0,
		"-0":                  0,
		"+0.0":                0,
		"12.3":                12_300_000,
		"-12.3":               -12_300_000,
		"+7":                  7_000_000,
		"007.50":              7_500_000,
		"0.000001":            1,
		"-0.000001":           -1,
		"99.999999":           99_999_999,
		"9223372036854.7758":  9_223_372_036_854_775_800,
		"-9223372036854.7758": -9_223_372_036_854_775_800,
		"000000000000000001":  1_000_000,
		"922337203685.477580": 922_337_203_685_477_580,
	} {
		got, err := ParseNumber([]byte(text))
		require.NoError(t, err, text)
		assert.Equal(t, want, got, text)
	}
}

func TestParseNumberRefuses(t *testing.T) {
	for text, want := range map[string]error{
		"": errNotNumber, "-": errNotNumber, "+": errNotNumber, ".": errNotNumber, "-.": errNotNumber,
		".5": errNotNumber, "5.": errNotNumber, "-.5": errNotNumber, "1.2.3": errNotNumber, "1..2": errNotNumber,
		"--1": errNotNumber, "1-": errNotNumber, " 1": errNotNumber, "1 ": errNotNumber, "1,5": errNotNumber,
		"1e5": errNotNumber, "NaN": errNotNumber, "inf": errNotNumber, "0x10": errNotNumber, "1_000": errNotNumber,
		"٣": errNotNumber, "1\x00": errNotNumber,
		"1.1234567": errDecimals, "0.0000000": errDecimals,
		"9223372036855": errRange, "-9223372036855": errRange, "999999999999999999": errRange,
		"1000000000000000000": errRange, "9223372036854.000000": errRange, "9999999999999999999999999999999999999999": errRange,
	} {
		got, err := ParseNumber([]byte(text))
		assert.Equal(t, want, err, "%q", text)
		assert.Zero(t, got, "%q", text)
	}
}

func TestNumberString(t *testing.T) {
	for n, want := range map[Number]string{
		0: "0.0", 1: "0.000001", -1: "-0.000001", 12_300_000: "12.3", -12_300_000: "-12.3", 1_000_000: "1.0",
		1_020_000: "1.02", math.MaxInt64: "9223372036854.775807", -math.MaxInt64: "-9223372036854.775807",
		math.MinInt64: "-9223372036854.775808",
	} {
		assert.Equal(t, want, n.String())
		encoded, err := json.Marshal(n)
		require.NoError(t, err)
		assert.Equal(t, want, string(encoded))
	}
}

var numberGrammar = regexp.MustCompile(`^[-+]?[0-9]+(\.[0-9]{1,6})?$`)

func FuzzParseNumber(f *testing.F) {
	for _, seed := range []string{"", "-", "12.3", "-99.9", "+0.000001", "9223372036854.775807", "1.1234567", "1e5"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		got, err := ParseNumber(text)
		if !numberGrammar.Match(text) {
			require.Error(t, err)
			return
		}
		exact, ok := new(big.Rat).SetString(string(text))
		require.True(t, ok)
		exact.Mul(exact, big.NewRat(1e6, 1))
		require.True(t, exact.IsInt())
		if err != nil {
			require.Equal(t, errRange, err)
			digits := len(regexp.MustCompile(`[0-9]`).FindAll(text, -1))
			require.True(t, digits > maxDigits || !exact.Num().IsInt64(), "%s refused", text)
			return
		}
		require.Equal(t, exact.Num().String(), big.NewInt(int64(got)).String())
		again, err := ParseNumber(got.AppendTo(nil))
		if err == nil { // the text of a 19-digit number is one digit too long
			require.Equal(t, got, again)
		}
	})
}

// The mean is compared with exact arithmetic, with numbers up to the largest.
func TestSumMean(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		var s sum
		exact := new(big.Int)
		count := 1 + random.Int64N(50)
		shift := random.IntN(63)
		for range count {
			n := Number(random.Int64() >> shift)
			if random.IntN(2) == 0 {
				n = -n
			}
			s.add(n)
			exact.Add(exact, big.NewInt(int64(n)))
		}
		// Half away from zero: (2|sum| + count) / (2 count), with the sign of sum.
		want := new(big.Int).Abs(exact)
		want.Mul(want, big.NewInt(2)).Add(want, big.NewInt(count)).Quo(want, big.NewInt(2*count))
		if exact.Sign() < 0 {
			want.Neg(want)
		}
		require.Equal(t, want.Int64(), int64(s.mean(count)), "%v / %d", exact, count)
	}
}

func TestSumDoesNotOverflow(t *testing.T) {
	for _, n := range []Number{math.MaxInt64, -math.MaxInt64, math.MinInt64 + 1} {
		var s sum
		s.add(n)
		for range 40 { // doubles: 2^40 numbers
			s.plus(s)
		}
		assert.Equal(t, n, s.mean(1<<40))
	}
}
