package mpiguard

import (
	"fmt"
	"os"
	"strings"

	"github.com/mpiguard/mpiguard/internal/procfs"
	"github.com/mpiguard/mpiguard/internal/size"
)

const limitVariable = "MPIGUARD_LIMIT"

// addJob adds the limits of the job on this node that are asked for, in the
// configuration or by the scheduler. What counts against them, the memory of the
// ranks of the job here, is for the guard to say.
func (m *monitor) addJob(machine Machine, nodeLimitBytes int64) {
	if nodeLimitBytes <= 0 {
		return
	}
	m.job = append(m.job, Constraint{
		Source: limitVariable, Path: limitVariable, Scope: ScopeJob, Kind: KindAdvisory,
		LimitBytes: nodeLimitBytes, id: m.id("job", limitVariable, m.host.name),
	})
}

// limit is the limit that MPIGUARD_LIMIT asks for in an environment, 0 for none.
func limitOf(environ []string) (int64, error) {
	for _, kv := range environ {
		if v, ok := strings.CutPrefix(kv, limitVariable+"="); ok && v != "" {
			n, err := size.Parse(v)
			if err != nil {
				return 0, fmt.Errorf("%s: %w", limitVariable, err)
			}
			return n, nil
		}
	}
	return 0, nil
}

var _ = os.Environ
var _ = procfs.Dir
