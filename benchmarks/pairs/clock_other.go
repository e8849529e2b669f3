//go:build !linux

package pairs

import "time"

var begun = time.Now()

func threadTime() time.Duration { return time.Since(begun) }
