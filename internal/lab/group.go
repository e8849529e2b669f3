package lab

import (
	"errors"
	"strings"
	"testing"

	"github.com/mpiguard/mpiguard/internal/lab/memgroup"
)

// Limits of a group that NewGroup makes.
type Limits = memgroup.Limits

// NewGroup makes a memory cgroup for the test, and removes it after with all
// that still runs inside. It needs root, or a hierarchy that was handed over.
func NewGroup(t testing.TB, l Limits) *memgroup.Group {
	t.Helper()
	name := strings.NewReplacer("/", "-", "*", "").Replace(t.Name())
	g, err := memgroup.New(name, l)
	if errors.Is(err, memgroup.ErrUnavailable) {
		Need(t, false, err.Error())
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.Remove(); err != nil {
			t.Error(err)
		}
	})
	return g
}
