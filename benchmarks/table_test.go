package benchmarks

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mpiguard/mpiguard/benchmarks/pairs"
)

// constant is a row whose contenders take the same time in every round: ours,
// the primitive, the rivals.
func constant(g Goal, ns ...float64) Measured {
	m := Measured{Name: "do it", Goal: g, Steps: 1}
	for i, n := range ns {
		m.Names = append(m.Names, []string{"ours", "bare", "old way", "older way"}[i])
		m.Result.Times = append(m.Result.Times, 1000)
		var s []pairs.Sample
		for range 15 {
			s = append(s, pairs.Sample{Nanoseconds: n})
		}
		m.Result.Samples = append(m.Result.Samples, s)
	}
	return m
}

func allocating(m Measured, n float64) Measured {
	for i := range m.Result.Samples[ours] {
		m.Result.Samples[ours][i].Allocs = n
	}
	return m
}

func moving(m Measured, bytes int64) Measured {
	m.Bytes = bytes
	return m
}

func TestVerdict(t *testing.T) {
	for name, c := range map[string]struct {
		m             Measured
		goal, reached string
	}{
		"time reached":        {constant(Goal{AtMost: 12, Reference: 5}, 10, 5), "≤ 12 ns, ≤ 0 allocs", "yes"},
		"time missed":         {constant(Goal{AtMost: 8e3, Reference: 2e3}, 10e3, 2e3), "≤ 8 µs, ≤ 0 allocs", "misses ≤ 8 µs by 25 %"},
		"slower machine":      {constant(Goal{AtMost: 8, Reference: 4}, 16, 8), "≤ 8 ns, ≤ 0 allocs", "misses ≤ 8 ns by 100 %, reaches the ratio ≤ 2.00"},
		"rate reached":        {moving(constant(Goal{AtLeast: 4.5}, 2, 1), 9), "≥ 4.5 GB/s, ≤ 0 allocs", "yes"},
		"rate missed":         {moving(constant(Goal{AtLeast: 4.5}, 3, 1), 9), "≥ 4.5 GB/s, ≤ 0 allocs", "misses ≥ 4.5 GB/s by 50 %"},
		"of the bound":        {constant(Goal{OfPrimitive: 0.95}, 100, 95), "≥ 0.95 × bare, ≤ 0 allocs", "yes"},
		"of the bound missed": {constant(Goal{OfPrimitive: 0.5}, 100, 40), "≥ 0.5 × bare, ≤ 0 allocs", "misses ≥ 0.5 × bare by 25 %"},
		"of a rival":          {constant(Goal{OfRival: 1.5}, 10, 5, 15, 1), "≥ 1.5 × old way, ≤ 0 allocs", "yes"},
		"of a rival missed":   {constant(Goal{OfRival: 1.5}, 10, 5, 10, 99), "≥ 1.5 × old way, ≤ 0 allocs", "misses ≥ 1.5 × old way by 50 %"},
		"on top":              {constant(Goal{MoreThanPrimitive: 500, Reference: 750}, 1250, 750), "≤ bare + 500 ns, ≤ 0 allocs", "yes"},
		"on top missed":       {constant(Goal{MoreThanPrimitive: 500, Reference: 750}, 1500, 750), "≤ bare + 500 ns, ≤ 0 allocs", "misses ≤ bare + 500 ns by 50 %"},
		"allocs":              {allocating(constant(Goal{Allocs: 2}, 1, 1), 2), "≤ 2 allocs", "yes"},
		"allocs missed":       {allocating(constant(Goal{}, 1, 1), 1), "≤ 0 allocs", "misses ≤ 0 allocs by 100 %"},
		"no goal":             {allocating(constant(Goal{Allocs: AnyAllocs}, 1, 1), 1), "", "yes"},
	} {
		goal, reached := c.m.verdict()
		assert.Equal(t, c.goal, goal, name)
		assert.Equal(t, c.reached, reached, name)
	}
	m := constant(Goal{AtMost: 8}, 10, 1)
	m.Reason = "it rains"
	_, reached := m.verdict()
	assert.Equal(t, "misses ≤ 8 ns by 25 %: it rains", reached)
}

func TestMissed(t *testing.T) {
	for name, c := range map[string]struct {
		m    Measured
		want string
	}{
		"a quarter above":         {constant(Goal{AtMost: 8, Reference: 4}, 20, 8), ""},
		"more than a quarter":     {constant(Goal{AtMost: 8, Reference: 4}, 24, 8), "3.00 × bare (3.00 to 3.00), allowed 2.50"},
		"on top":                  {constant(Goal{MoreThanPrimitive: 500, Reference: 500}, 2500, 1000), ""},
		"more on top":             {constant(Goal{MoreThanPrimitive: 500, Reference: 500}, 3000, 1000), "3.00 × bare (3.00 to 3.00), allowed 2.50"},
		"of the bound":            {constant(Goal{OfPrimitive: 0.5}, 10, 4), ""},
		"of the bound and rivals": {constant(Goal{OfPrimitive: 0.5, OfRival: 1}, 10, 3, 5), "3.33 × bare (3.33 to 3.33), allowed 2.50; 2.00 × old way (2.00 to 2.00), allowed 1.25"},
		"an allocation":           {allocating(constant(Goal{}, 1, 1), 1), "1 allocations, allowed 0"},
		"allocations of steps":    {allocating(Measured{Steps: 64, Names: []string{"", ""}, Result: constant(Goal{}, 1, 1).Result}, 63), ""},
	} {
		assert.Equal(t, c.want, c.m.Missed(), name)
	}
	unsure := constant(Goal{OfPrimitive: 1}, 10, 5)
	for i := range 4 {
		unsure.Result.Samples[ours][i].Nanoseconds = 6
	}
	assert.Empty(t, unsure.Missed(), "the interval reaches down to what is allowed")
}

func TestWriteTable(t *testing.T) {
	slow := constant(Goal{AtMost: 8}, 10, 4, 20, 1234)
	fast := moving(constant(Goal{OfPrimitive: 0.95, Allocs: AnyAllocs}, 1e6, 1e6), 12e6)
	var b strings.Builder
	require.NoError(t, WriteTable(&b, []Measured{slow, fast}))
	assert.Equal(t, `| operation | ours | instead | bounded by | ours ÷ bound | goal | reached |
|---|---|---|---|---|---|---|
| do it | 10.0 ns (10.0–10.0), 0 allocs | old way 20.0 ns (20.0–20.0): × 2; older way 1.23 µs (1.23–1.23): × 1.2e+02 | bare 4.00 ns (4.00–4.00) | 2.50 (2.50–2.50) | ≤ 8 ns, ≤ 0 allocs | misses ≤ 8 ns by 25 % |
| do it | 12.00 GB/s (12.00–12.00) |  | bare 12.00 GB/s (12.00–12.00) | 1.00 (1.00–1.00) | ≥ 0.95 × bare | yes |
`, b.String())
}

func TestWriteRounds(t *testing.T) {
	m := constant(Goal{}, 10, 4)
	for i := range m.Result.Samples {
		m.Result.Samples[i] = m.Result.Samples[i][:2]
	}
	var b strings.Builder
	require.NoError(t, WriteRounds(&b, []Measured{m}))
	assert.Equal(t, strings.Repeat("BenchmarkDo_it/by=ours\t1000\t10 ns/op\t0 allocs/op\nBenchmarkDo_it/by=bound\t1000\t4 ns/op\t0 allocs/op\n", 2), b.String())
}

// Rows go from a job to the table as JSON.
func TestMeasuredAsJSON(t *testing.T) {
	m := moving(constant(Goal{AtMost: 8, OfRival: 1.15, Reference: 4.4}, 10, 4, 1), 7)
	m.Reason = "why"
	text, err := json.Marshal(m)
	require.NoError(t, err)
	var back Measured
	require.NoError(t, json.Unmarshal(text, &back))
	assert.Equal(t, m, back)
}
