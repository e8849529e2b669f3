//go:build race || invariants

package invariants

// Enabled reports whether the program was built with -race or -tags invariants.
const Enabled = true
