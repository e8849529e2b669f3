package chunk

import (
	"fmt"
	"reflect"
)

// layout says how a type stands in a file and in memory. In the file it is as in
// encoding/binary: its fields in order, without padding.
type layout struct {
	fileBytes   int64
	memoryBytes int64
	scalars     []scalar
	bools       bool
}

// scalar is a run of numbers of one size, at an offset in the file and in memory.
type scalar struct {
	file, memory int64
	bytes        int64
	count        int64
	isBool       bool
}

// layoutOf returns the layout of t, or an error that names the part of t which has
// no fixed size or holds a pointer.
func layoutOf(t reflect.Type) (layout, error) {
	l := layout{memoryBytes: int64(t.Size())}
	if err := l.add(t, 0, t.String()); err != nil {
		return layout{}, err
	}
	if l.fileBytes == 0 {
		return layout{}, fmt.Errorf("chunk: %s takes no bytes", t)
	}
	return l, nil
}

// add appends the scalars of t, which is at an offset in memory.
func (l *layout) add(t reflect.Type, at int64, name string) error {
	switch k := t.Kind(); k {
	case reflect.Bool, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64, reflect.Float32, reflect.Float64,
		reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		l.scalar(scalar{memory: at, bytes: int64(t.Size()), count: 1, isBool: k == reflect.Bool})
	case reflect.Complex64, reflect.Complex128:
		l.scalar(scalar{memory: at, bytes: int64(t.Size()) / 2, count: 2})
	case reflect.Array:
		elem := t.Elem()
		for i := range int64(t.Len()) {
			if err := l.add(elem, at+i*int64(elem.Size()), name+"[0]"); err != nil {
				return err
			}
		}
	case reflect.Struct:
		for i := range t.NumField() {
			f := t.Field(i)
			if err := l.add(f.Type, at+int64(f.Offset), name+"."+f.Name); err != nil {
				return err
			}
		}
	case reflect.Int, reflect.Uint, reflect.Uintptr:
		return fmt.Errorf("chunk: %s has no fixed size: it is of type %s", name, t)
	default:
		return fmt.Errorf("chunk: %s holds a pointer: it is of type %s", name, t)
	}
	return nil
}

// scalar appends s, as part of the run before it where it continues that.
func (l *layout) scalar(s scalar) {
	s.file = l.fileBytes
	l.fileBytes += s.bytes * s.count
	l.bools = l.bools || s.isBool
	if n := len(l.scalars); n > 0 {
		last := &l.scalars[n-1]
		if last.bytes == s.bytes && last.isBool == s.isBool && last.memory+last.bytes*last.count == s.memory {
			last.count += s.count
			return
		}
	}
	l.scalars = append(l.scalars, s)
}

// same reports whether the file and the memory hold the same bytes, given that the
// byte order is the same. A bool in a file may hold what no bool in memory may.
func (l *layout) same() bool { return l.fileBytes == l.memoryBytes && !l.bools }

// decode turns records as they stand in the file into values as they stand in
// memory, as many as values has room for.
func (l *layout) decode(values, records []byte, swap bool) {
	for ; len(values) > 0; values, records = values[l.memoryBytes:], records[l.fileBytes:] {
		for _, s := range l.scalars {
			from, to := records[s.file:s.file+s.bytes*s.count], values[s.memory:]
			switch {
			case s.isBool:
				for i, b := range from {
					to[i] = min(b, 1)
				}
			case swap:
				swapEach(to, from, s.bytes)
			default:
				copy(to, from)
			}
		}
	}
}

// swapEach copies numbers of size bytes, each into the opposite byte order.
func swapEach(to, from []byte, size int64) {
	for i := int64(0); i < int64(len(from)); i += size {
		from, to := from[i:i+size], to[i:i+size]
		for j := range from {
			to[j] = from[len(from)-1-j]
		}
	}
}

// pointerIn returns the name of a part of t that the garbage collector would have
// to look at, or "".
func pointerIn(t reflect.Type, name string) string {
	switch t.Kind() {
	case reflect.Array:
		if t.Len() == 0 {
			return ""
		}
		return pointerIn(t.Elem(), name+"[0]")
	case reflect.Struct:
		for i := range t.NumField() {
			f := t.Field(i)
			if p := pointerIn(f.Type, name+"."+f.Name); p != "" {
				return p
			}
		}
		return ""
	}
	if k := t.Kind(); k >= reflect.Bool && k <= reflect.Complex128 {
		return ""
	}
	return name
}
