package lab

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// outcome stands in for a test and keeps how it would have ended.
type outcome struct {
	testing.TB
	skipped, failed bool
}

func (o *outcome) Helper()               {}
func (o *outcome) Skip(...any)           { o.skipped = true }
func (o *outcome) Fatalf(string, ...any) { o.failed = true }

func TestNeed(t *testing.T) {
	for _, c := range []struct {
		name, require   string
		ok              bool
		skipped, failed bool
	}{
		{"there", "", true, false, false},
		{"there and required", "require", true, false, false},
		{"missing", "", false, true, false},
		{"missing but required", "require", false, false, true},
		{"another value requires nothing", "yes", false, true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv("MPIGUARD_LAB", c.require)
			var o outcome
			Need(&o, c.ok, "not here")
			assert.Equal(t, c.skipped, o.skipped, "skipped")
			assert.Equal(t, c.failed, o.failed, "failed")
		})
	}
}
