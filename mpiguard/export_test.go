package mpiguard

import (
	"os"
	"testing"
	"time"
)

// WithEnviron replaces the environment that overrides the fields of c.
func (c Config) WithEnviron(environ ...string) Config {
	c.machine.Environ = environ
	return c
}

// WithRoot has the limits read of a machine that was saved below root.
func (c Config) WithRoot(root string) Config {
	c.machine = Machine{Root: root}
	return c
}

const (
	waitLong  = 5 * time.Second
	waitShort = time.Millisecond
)

// unsetenv removes a variable for the rest of the test, after t.Setenv that
// restores it.
func unsetenv(t *testing.T, name string) {
	if err := os.Unsetenv(name); err != nil {
		t.Fatal(err)
	}
}

// WithoutLedger makes the processes of a node use static shares.
func (c Config) WithoutLedger() Config {
	c.noLedger = true
	return c
}
