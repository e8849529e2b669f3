package groupby

import (
	"errors"
	"math"
	"math/bits"
	"strconv"
)

// Number is a decimal number in millionths. Sums of whole millionths do not
// depend on the order in which they are added, so the answer is the same to the
// last digit for any number of ranks and any cut of the file.
type Number int64

// Decimals is how many digits a Number has after its point.
const Decimals = 6

// maxDigits keeps the digits of a number within 64 bits while they are read.
const maxDigits = 18

var powers = [Decimals + 1]uint64{1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6}

var (
	errNotNumber = errors.New("is not a number like -12.345678")
	errDecimals  = errors.New("has more than 6 decimals")
	errRange     = errors.New("is out of range: 18 digits and magnitudes up to 9223372036854.775807 are read")
)

// ParseNumber reads an optional sign, at least one digit and, if there is a
// point, one to six digits after it. Anything else is an error: spaces,
// exponents, NaN, more decimals than can be kept.
func ParseNumber(text []byte) (Number, error) {
	digits := text
	negative := false
	if len(digits) > 0 && (digits[0] == '-' || digits[0] == '+') {
		negative = digits[0] == '-'
		digits = digits[1:]
	}
	var magnitude uint64
	point := -1 // where the point is
	for i, c := range digits {
		if d := c - '0'; d <= 9 {
			magnitude = magnitude*10 + uint64(d)
			continue
		}
		if c != '.' || point >= 0 || i == 0 {
			return 0, errNotNumber
		}
		point = i
	}
	count, decimals := len(digits), 0
	if point >= 0 {
		count--
		decimals = count - point
	}
	switch {
	case count == 0 || point >= 0 && decimals == 0:
		return 0, errNotNumber
	case decimals > Decimals:
		return 0, errDecimals
	case count > maxDigits:
		return 0, errRange
	}
	high, millionths := bits.Mul64(magnitude, powers[Decimals-decimals])
	if high != 0 || millionths > math.MaxInt64 {
		return 0, errRange
	}
	if negative {
		return -Number(millionths), nil
	}
	return Number(millionths), nil
}

// AppendTo appends the shortest text that has at least one decimal.
func (n Number) AppendTo(text []byte) []byte {
	magnitude := uint64(n)
	if n < 0 {
		text = append(text, '-')
		magnitude = -magnitude
	}
	text = strconv.AppendUint(text, magnitude/powers[Decimals], 10)
	text = append(text, '.')
	rest := magnitude % powers[Decimals]
	for p := Decimals - 1; ; p-- {
		text = append(text, byte('0'+rest/powers[p]))
		rest %= powers[p]
		if rest == 0 {
			return text
		}
	}
}

func (n Number) String() string { return string(n.AppendTo(nil)) }

// MarshalJSON writes the number as a JSON number.
func (n Number) MarshalJSON() ([]byte, error) { return n.AppendTo(nil), nil }

// sum is a 128-bit sum of Numbers. 2^63 of them, of any size, fit.
type sum struct {
	high int64
	low  uint64
}

func (s *sum) add(n Number) {
	s.plus(sum{high: int64(n) >> 63, low: uint64(n)})
}

func (s *sum) plus(t sum) {
	var carry uint64
	s.low, carry = bits.Add64(s.low, t.low, 0)
	s.high += t.high + int64(carry)
}

// mean returns the sum of count numbers divided by count, halves rounded away
// from zero.
func (s sum) mean(count int64) Number {
	high, low := uint64(s.high), s.low
	if s.high < 0 {
		var borrow uint64
		low, borrow = bits.Sub64(0, low, 0)
		high, _ = bits.Sub64(0, high, borrow)
	}
	n := uint64(count)
	quotient, rest := bits.Div64(high, low, n)
	if rest >= n-rest {
		quotient++
	}
	if s.high < 0 {
		return -Number(quotient)
	}
	return Number(quotient)
}
