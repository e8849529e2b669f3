package doctor

import (
	"encoding/json"
	"math"
	"strconv"

	"github.com/dustin/go-humanize"
)

// Bytes is a number of bytes, UnknownBytes or UnlimitedBytes. In JSON these are
// null and the string "unlimited".
type Bytes int64

// What stands for no number.
const (
	UnknownBytes   Bytes = -1
	UnlimitedBytes Bytes = math.MaxInt64
)

// limited reports whether b is a number.
func (b Bytes) limited() bool { return b >= 0 && b != UnlimitedBytes }

// String prints the number for people.
func (b Bytes) String() string {
	switch {
	case b == UnknownBytes:
		return "unknown"
	case b == UnlimitedBytes:
		return "unlimited"
	case b < 0:
		return "-" + humanize.IBytes(uint64(-b))
	}
	return humanize.IBytes(uint64(b))
}

// MarshalJSON writes a number, null or "unlimited".
func (b Bytes) MarshalJSON() ([]byte, error) {
	switch b {
	case UnknownBytes:
		return []byte("null"), nil
	case UnlimitedBytes:
		return []byte(`"unlimited"`), nil
	}
	return strconv.AppendInt(nil, int64(b), 10), nil
}

// UnmarshalJSON reads what MarshalJSON writes.
func (b *Bytes) UnmarshalJSON(text []byte) error {
	switch string(text) {
	case "null":
		*b = UnknownBytes
		return nil
	case `"unlimited"`:
		*b = UnlimitedBytes
		return nil
	}
	return json.Unmarshal(text, (*int64)(b))
}
