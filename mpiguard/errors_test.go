package mpiguard

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/mpiguard/mpiguard/internal/ledger"
)

// The texts are what people read in a log at night: they are pinned.
func TestErrorTexts(t *testing.T) {
	const where = "cgroup v2 memory.max /job: 228 MiB used of 256 MiB, 20 MiB kept free"
	for want, err := range map[string]error{
		`mpiguard: rank 2: "hash table" holds 10 MiB and asked for 512 MiB: more than could ever be granted under ` + where: &RefusedError{
			Rank: 2, Name: "hash table", HeldBytes: 10 << 20, WantBytes: 512 << 20,
			Err: &shortage{headroomBytes: 8 << 20, binding: where, never: true}},
		`mpiguard: rank 2: "halo" holds 0 B and asked for 40 MiB: 8.0 MiB left under ` + where +
			`; largest reservations: "mesh" 40 MiB, "hash table" 10 MiB`: &RefusedError{
			Rank: 2, Name: "halo", WantBytes: 40 << 20, Err: &shortage{headroomBytes: 8 << 20, binding: where},
			Holders: []Holder{{"mesh", 40 << 20}, {"hash table", 10 << 20}}},
		`mpiguard: rank 0: "halo" holds 0 B and asked for 4.0 KiB: 0 B left under ` + where + `; on the node rank 1 holds 9 MiB (0 B reserved)`: &RefusedError{
			Name: "halo", WantBytes: 4096, Err: &shortage{binding: where}, Node: "rank 1 holds 9 MiB (0 B reserved)"},
		`mpiguard: rank 0: "halo" holds 0 B and asked for 40 MiB: context deadline exceeded while it waited: 0 B left under ` + where: &RefusedError{
			Name: "halo", WantBytes: 40 << 20,
			Err: fmt.Errorf("%w while it waited: %w", context.DeadlineExceeded, &shortage{headroomBytes: -5, binding: where})},
		`mpiguard: rank 0: "halo" holds 0 B and asked for 4.0 KiB: others waited before under ` + where: &RefusedError{
			Name: "halo", WantBytes: 4096, Err: &shortage{reason: ledger.Behind, binding: where}},
		`mpiguard: survey: rank 3: context canceled`:                    &CollectiveError{"survey", 3, context.Canceled},
		`mpiguard: pulse: communicator is broken`:                       &CollectiveError{"pulse", -1, ErrBroken},
		`mpiguard: new: rank 1: MPIGUARD_LIMIT="lots": is not a number`: &CollectiveError{"new", 1, errors.New(`MPIGUARD_LIMIT="lots": is not a number`)},
	} {
		assert.EqualError(t, err, want)
	}
	never := &RefusedError{Err: &shortage{never: true}}
	assert.ErrorIs(t, never, ErrNever)
	assert.ErrorIs(t, never, ErrRefused)
	now := &RefusedError{Err: &shortage{}}
	assert.ErrorIs(t, now, ErrRefused)
	assert.NotErrorIs(t, now, ErrNever)
}
