package groupby

import (
	"bytes"
	"context"
	"errors"
	"fmt"
)

// Layout says where key and value stand in a row.
type Layout struct {
	Key, Value int  // columns, from 1
	Separator  byte // between columns
}

// Rows adds rows of a file, or of one rank's part of it, to a table.
//
// A row is a line that ends in "\n" or "\r\n" (the last one may lack it) with
// columns between separators. Empty lines are skipped, and so is a byte order
// mark at the start of the file. There is no quoting: a double quote anywhere is
// an error, since a separator or a line end inside quotes would be misread.
type Rows struct {
	Layout
	Table   *Table
	AtStart bool  // the next block starts the file
	Lines   int64 // read so far
}

// RowError is an error in one row.
type RowError struct {
	Line int64 // from 1, of what Rows has seen
	Err  error
}

func (e *RowError) Error() string { return fmt.Sprintf("line %d: %v", e.Line, e.Err) }

// Unwrap returns the error without its place.
func (e *RowError) Unwrap() error { return e.Err }

var errQuote = errors.New(`a double quote: quoted columns are not supported`)

var byteOrderMark = []byte("\ufeff")

// quoteWindowBytes is how far ahead Add looks for quotes: one quick look at
// many lines, short enough that they are still in the cache when they are read.
const quoteWindowBytes = 64 << 10

// Add adds the rows of a block of whole lines. An error is a *RowError, or that of
// the table for want of memory; the rows before have been added.
func (r *Rows) Add(ctx context.Context, block []byte) error {
	if r.AtStart {
		block = bytes.TrimPrefix(block, byteOrderMark)
		r.AtStart = false
	}
	for len(block) > 0 {
		lines := firstLines(block)
		block = block[len(lines):]
		if quote := bytes.IndexByte(lines, '"'); quote >= 0 {
			start := bytes.LastIndexByte(lines[:quote], '\n') + 1
			if err := r.addLines(ctx, lines[:start]); err != nil {
				return err
			}
			return r.fail(errQuote)
		}
		if err := r.addLines(ctx, lines); err != nil {
			return err
		}
	}
	return nil
}

// firstLines returns as many whole lines as fit into a window, at least one.
func firstLines(block []byte) []byte {
	if len(block) <= quoteWindowBytes {
		return block
	}
	if end := bytes.LastIndexByte(block[:quoteWindowBytes], '\n'); end >= 0 {
		return block[:end+1]
	}
	if end := bytes.IndexByte(block, '\n'); end >= 0 {
		return block[:end+1]
	}
	return block
}

func (r *Rows) addLines(ctx context.Context, lines []byte) error {
	for len(lines) > 0 {
		line := lines
		if end := bytes.IndexByte(lines, '\n'); end >= 0 {
			line = lines[:end]
			lines = lines[end+1:]
		} else {
			lines = nil
		}
		if n := len(line); n > 0 && line[n-1] == '\r' {
			line = line[:n-1]
		}
		if len(line) > 0 {
			key, number, err := r.parse(line)
			if err != nil {
				return r.fail(err)
			}
			group, err := r.Table.Group(ctx, key)
			if err != nil {
				return err
			}
			group.add(number)
		}
		r.Lines++
	}
	return nil
}

func (r *Rows) fail(err error) error { return &RowError{Line: r.Lines + 1, Err: err} }

func (l Layout) parse(line []byte) (key []byte, number Number, err error) {
	key, value, err := l.cut(line)
	if err != nil {
		return nil, 0, err
	}
	if len(key) > MaxKeyBytes {
		return nil, 0, fmt.Errorf("a key of %d bytes: the longest is %d", len(key), MaxKeyBytes)
	}
	if number, err = ParseNumber(value); err != nil {
		return nil, 0, fmt.Errorf("column %d: %s %w", l.Value, quote(value), err)
	}
	return key, number, nil
}

// cut finds the two columns of a row.
func (l Layout) cut(line []byte) (key, value []byte, err error) {
	last := max(l.Key, l.Value)
	for column := 1; ; column++ {
		end := bytes.IndexByte(line, l.Separator)
		field := line
		if end >= 0 {
			field = line[:end]
		}
		if column == l.Key {
			key = field
		}
		if column == l.Value {
			value = field
		}
		switch {
		case column == last:
			return key, value, nil
		case end < 0:
			return nil, nil, fmt.Errorf("no column %d in a row of %d", last, column)
		}
		line = line[end+1:]
	}
}

const quoteShown = 40 // bytes of a bad value that an error shows

func quote(value []byte) string {
	if len(value) > quoteShown {
		return fmt.Sprintf("%q...", value[:quoteShown])
	}
	return fmt.Sprintf("%q", value)
}
