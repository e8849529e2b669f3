//go:build !linux

package cgroup

// ParseMounts returns nil: the parser of mountinfo files exists on Linux alone.
// A saved machine is then looked at in the standard places.
func ParseMounts([]byte) []Mount { return nil }
