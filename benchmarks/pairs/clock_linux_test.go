package pairs

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestCPUDoesNotCountWaiting(t *testing.T) {
	s := CPU("", func(int) { time.Sleep(50 * time.Millisecond) }).Run(1)
	assert.Less(t, s.Nanoseconds, float64(25*time.Millisecond))
}
