package mpiguard

// WithEnviron replaces the environment that overrides the fields of c.
func (c Config) WithEnviron(environ ...string) Config {
	c.machine.Environ = environ
	return c
}
