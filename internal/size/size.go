// Package size parses amounts of memory as people write them.
package size

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// MaxBytes is the largest size that Parse accepts: a power of two that no
// machine reaches and that leaves room to add sizes in an int64.
const MaxBytes = 1 << 60

var units = map[string]int64{
	"": 1, "b": 1,
	"k": 1e3, "kb": 1e3, "ki": 1 << 10, "kib": 1 << 10,
	"m": 1e6, "mb": 1e6, "mi": 1 << 20, "mib": 1 << 20,
	"g": 1e9, "gb": 1e9, "gi": 1 << 30, "gib": 1 << 30,
	"t": 1e12, "tb": 1e12, "ti": 1 << 40, "tib": 1 << 40,
	"p": 1e15, "pb": 1e15, "pi": 1 << 50, "pib": 1 << 50,
}

// Parse returns the bytes that s stands for: a decimal number, which may have a
// fraction, and a unit, in either case, with or without spaces around them.
//
// K, M, G, T and P, alone or with a B, are decimal (1G = 1,000,000,000 bytes);
// Ki, Mi, Gi, Ti and Pi, alone or with a B, are binary (1Gi = 1,073,741,824), as
// in Kubernetes and IEC 80000-13. The bare letters are binary elsewhere (ulimit,
// Slurm, java -Xmx): read as decimal they give the smaller limit, which is the
// safe mistake. A number without a unit is bytes. Fractions of a byte are cut off.
//
// Signs, exponents ("1e9"), other units and sizes above MaxBytes are errors.
func Parse(s string) (int64, error) {
	text := strings.TrimSpace(s)
	if len(text) > 40 {
		return 0, fmt.Errorf("%.40q...: not a size", text)
	}
	end := 0
	for end < len(text) && (text[end] >= '0' && text[end] <= '9' || text[end] == '.') {
		end++
	}
	number, unit := text[:end], strings.ToLower(strings.TrimSpace(text[end:]))
	unitBytes, ok := units[unit]
	if !ok || number == "" {
		return 0, fmt.Errorf("%q: not a size such as 1500000000, 512M or 1.5GiB", s)
	}
	whole, err := strconv.ParseInt(number, 10, 64)
	switch {
	case errors.Is(err, strconv.ErrRange), err == nil && whole > MaxBytes/unitBytes:
		return 0, tooLarge(s)
	case err == nil:
		return whole * unitBytes, nil
	}
	f, err := strconv.ParseFloat(number, 64)
	if err != nil {
		return 0, fmt.Errorf("%q: not a size such as 1500000000, 512M or 1.5GiB", s)
	}
	if f *= float64(unitBytes); f > MaxBytes {
		return 0, tooLarge(s)
	}
	return int64(math.Floor(f)), nil
}

func tooLarge(s string) error {
	return fmt.Errorf("%q: larger than any machine", s)
}
