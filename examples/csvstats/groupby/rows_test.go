package groupby

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func read(t *testing.T, layout Layout, blocks ...string) (*Table, Rows, error) {
	rows := Rows{Layout: layout, Table: NewTable(nil), AtStart: true}
	for _, block := range blocks {
		if err := rows.Add(t.Context(), []byte(block)); err != nil {
			return rows.Table, rows, err
		}
	}
	return rows.Table, rows, nil
}

func text(t *testing.T, table *Table) string {
	t.Helper()
	var b []byte
	groups, err := table.Sorted(t.Context())
	require.NoError(t, err)
	for _, g := range groups {
		b = g.AppendTo(b)
	}
	return string(b)
}

func TestRows(t *testing.T) {
	for name, test := range map[string]struct {
		layout Layout
		input  string
		want   string
		lines  int64
	}{
		"default layout":       {Layout{1, 2, ';'}, "a;1.5\nb;-2\na;2.5\n", "2 1.5 2.0 2.5 a\n1 -2.0 -2.0 -2.0 b\n", 3},
		"no final newline":     {Layout{1, 2, ';'}, "a;1\na;2", "2 1.0 1.5 2.0 a\n", 2},
		"CRLF":                 {Layout{1, 2, ';'}, "a;1\r\na;2\r\n\r\na;3\r", "3 1.0 2.0 3.0 a\n", 4},
		"empty lines":          {Layout{1, 2, ';'}, "\n\na;1\n\n", "1 1.0 1.0 1.0 a\n", 4},
		"nothing":              {Layout{1, 2, ';'}, "", "", 0},
		"byte order mark":      {Layout{1, 2, ';'}, "\ufeffa;1\na;1\n", "2 1.0 1.0 1.0 a\n", 2},
		"mark in another line": {Layout{1, 2, ';'}, "a;1\n\ufeffa;1\n", "1 1.0 1.0 1.0 a\n1 1.0 1.0 1.0 \ufeffa\n", 2},
		"empty key":            {Layout{1, 2, ';'}, ";1\n;2\n", "2 1.0 1.5 2.0 \n", 2},
		"columns after":        {Layout{1, 2, ','}, "a,1,x\na,2,\n", "2 1.0 1.5 2.0 a\n", 2},
		"value before key":     {Layout{4, 2, '\t'}, "x\t1\ty\ta\nx\t2\ty\tb\n", "1 1.0 1.0 1.0 a\n1 2.0 2.0 2.0 b\n", 2},
		"key is the value":     {Layout{1, 1, ','}, "1,x\n2,x\n1,x\n", "2 1.0 1.0 1.0 1\n1 2.0 2.0 2.0 2\n", 3},
		"mean is rounded":      {Layout{1, 2, ';'}, "a;0.000001\na;0.000002\na;0\n", "3 0.0 0.000001 0.000002 a\n", 3},
	} {
		t.Run(name, func(t *testing.T) {
			table, rows, err := read(t, test.layout, test.input)
			require.NoError(t, err)
			assert.Equal(t, test.want, text(t, table))
			assert.Equal(t, test.lines, rows.Lines)
		})
	}
}

func TestRowErrors(t *testing.T) {
	long := strings.Repeat("9", 50)
	window := strings.Repeat("a;1\n", quoteWindowBytes/4)
	for name, test := range map[string]struct {
		layout Layout
		input  string
		want   string
	}{
		"column beyond the last": {Layout{9, 2, ';'}, "a;1\n", "line 1: no column 9 in a row of 2"},
		"short row":              {Layout{1, 3, ';'}, "a;1;2\n\na;1\n", "line 3: no column 3 in a row of 2"},
		"junk":                   {Layout{1, 2, ';'}, "a;1\r\na;x\r\n", `line 2: column 2: "x" is not a number like -12.345678`},
		"header":                 {Layout{1, 2, ';'}, "station;temperature\n", `line 1: column 2: "temperature" is not a number like -12.345678`},
		"empty value":            {Layout{1, 2, ';'}, "a;\n", `line 1: column 2: "" is not a number like -12.345678`},
		"too many decimals":      {Layout{1, 2, ';'}, "a;1.2345678\n", `line 1: column 2: "1.2345678" has more than 6 decimals`},
		"long value":             {Layout{1, 2, ';'}, "a;" + long + "\n", `line 1: column 2: "` + long[:40] + `"... is out of range: 18 digits and magnitudes up to 9223372036854.775807 are read`},
		"long key":               {Layout{1, 2, ';'}, "a;1\n" + strings.Repeat("k", MaxKeyBytes+1) + ";1\n", "line 2: a key of 1025 bytes: the longest is 1024"},
		"quoted key":             {Layout{1, 2, ';'}, "a;1\n\"b;c\";1\n", "line 2: a double quote: quoted columns are not supported"},
		"quote after":            {Layout{1, 2, ';'}, "a;1;\"x\ny\"\n", "line 1: a double quote: quoted columns are not supported"},
		"quote and junk before":  {Layout{1, 2, ';'}, "a;x\n\"a\";1\n", `line 1: column 2: "x" is not a number like -12.345678`},
		"quote in a later look":  {Layout{1, 2, ';'}, window + window + "\"a\";1\n", fmt.Sprintf("line %d: a double quote: quoted columns are not supported", quoteWindowBytes/2+1)},
		"mark and junk":          {Layout{1, 2, ';'}, "\ufeffa;x\n", `line 1: column 2: "x" is not a number like -12.345678`},
	} {
		t.Run(name, func(t *testing.T) {
			_, rows, err := read(t, test.layout, test.input)
			require.EqualError(t, err, test.want)
			var rowErr *RowError
			require.ErrorAs(t, err, &rowErr)
			assert.Equal(t, rowErr.Line-1, rows.Lines, "the rows before have been added")
		})
	}
}

// A file cut into blocks at any line ends gives the answer of the whole file.
func TestBlocksDoNotMatter(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	for range 50 {
		data := generated(t, random.Int64N(300_000), random.Uint64())
		if random.IntN(2) == 0 {
			data = bytes.ReplaceAll(data, []byte("\n"), []byte("\r\n"))
		}
		if random.IntN(2) == 0 {
			data = bytes.TrimSuffix(data, []byte("\n"))
		}
		whole, wholeRows, err := read(t, Layout{1, 2, ';'}, string(data))
		require.NoError(t, err)

		var blocks []string
		for rest := data; len(rest) > 0; {
			cut := 1 + random.IntN(len(rest))
			if end := bytes.IndexByte(rest[cut-1:], '\n'); end >= 0 {
				cut += end
			} else {
				cut = len(rest)
			}
			blocks = append(blocks, string(rest[:cut]))
			rest = rest[cut:]
		}
		parts, partsRows, err := read(t, Layout{1, 2, ';'}, blocks...)
		require.NoError(t, err)
		require.Equal(t, text(t, whole), text(t, parts))
		require.Equal(t, wholeRows.Lines, partsRows.Lines)
	}
}

// reference reads a file the slow and obvious way.
func reference(layout Layout, input string) (counts map[string]int64, badLine int64) {
	counts = map[string]int64{}
	input = strings.TrimPrefix(input, "\ufeff")
	for i, line := range strings.Split(input, "\n") {
		if strings.Contains(line, `"`) {
			return counts, int64(i + 1)
		}
		line = strings.TrimSuffix(line, "\r")
		if line == "" {
			continue
		}
		columns := strings.Split(line, string(layout.Separator))
		if len(columns) < max(layout.Key, layout.Value) {
			return counts, int64(i + 1)
		}
		if _, err := ParseNumber([]byte(columns[layout.Value-1])); err != nil || len(columns[layout.Key-1]) > MaxKeyBytes {
			return counts, int64(i + 1)
		}
		counts[columns[layout.Key-1]]++
	}
	return counts, 0
}

func FuzzRows(f *testing.F) {
	f.Add("a;1\nb;2\n", uint8(1), uint8(2))
	f.Add("\ufeffa;1\r\n\r\nb;2", uint8(1), uint8(2))
	f.Add("x;y;3\n\"a\";1\n", uint8(2), uint8(3))
	f.Fuzz(func(t *testing.T, input string, key, value uint8) {
		layout := Layout{Key: 1 + int(key%4), Value: 1 + int(value%4), Separator: ';'}
		want, badLine := reference(layout, input)
		table, _, err := read(t, layout, input)
		if badLine != 0 {
			var rowErr *RowError
			require.ErrorAs(t, err, &rowErr)
			require.Equal(t, badLine, rowErr.Line)
		} else {
			require.NoError(t, err)
		}
		require.Equal(t, len(want), table.Len())
		for i := range table.Len() {
			require.Equal(t, want[string(table.At(i).Key)], table.At(i).Count)
		}
	})
}

func BenchmarkRows(b *testing.B) {
	var out bytes.Buffer
	require.NoError(b, Generate(&out, 1<<20, 1))
	rows := Rows{Layout: Layout{1, 2, ';'}, Table: NewTable(nil)}
	b.SetBytes(int64(out.Len()))
	for b.Loop() {
		if err := rows.Add(b.Context(), out.Bytes()); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(rows.Lines), "ns/line")
}
