package chunk

import (
	"runtime/metrics"
	"sync"

	"github.com/mpiguard/mpiguard/internal/procfs"
)

// meter reads the private memory of the process. There is one, opened when it is
// needed first, and kept open.
var meter struct {
	sync.Mutex
	self    *procfs.Self
	samples []metrics.Sample
}

// privateBytes returns the anonymous memory of the process, or that of the Go
// runtime on systems that do not say.
func privateBytes() int64 {
	m := &meter
	m.Lock()
	defer m.Unlock()
	if m.self == nil {
		m.self = procfs.OpenSelf("", 0)
		m.samples = []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	}
	if resident, shared, err := m.self.Statm(); err == nil {
		return resident - shared
	}
	metrics.Read(m.samples)
	return int64(m.samples[0].Value.Uint64() - m.samples[1].Value.Uint64())
}
