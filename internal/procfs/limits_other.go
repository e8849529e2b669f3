//go:build !linux

package procfs

// OwnLimits returns that no limit is known.
func OwnLimits() Limits { return Limits{UnknownBytes, UnknownBytes} }
