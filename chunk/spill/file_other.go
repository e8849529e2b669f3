//go:build !linux

package spill

// openFile opens a file in dir whose name is taken away. Whether the file system
// keeps its files in memory is not known.
func openFile(dir string) (f file, inMemory bool, err error) {
	f, err = createTemp(dir)
	return f, false, err
}
