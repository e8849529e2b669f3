package blackbox

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Bounds of what is read of one file.
const (
	maxFileBytes  = 64 << 20
	maxCrashBytes = 64 << 10
)

// ErrVersion is the error for a file in a format that this version cannot read.
var ErrVersion = errors.New("blackbox: unknown version of the format")

// ErrNotRecord is the error for a file in which there is not one good record.
var ErrNotRecord = errors.New("blackbox: no record in the file")

// File is what could be read of a file. What is lost is missing.
type File struct {
	Header      Header
	HeaderLost  bool // Header is what the name of the file says
	LimitSets   []LimitSet
	Samples     []Sample // by time
	Transitions []Transition
	Phases      []Phase // by start; one that ended stands once
	Holders     []Holders
	Close       *Close // nil: the guard was not closed
	Crash       string // what the runtime wrote when the process crashed, the start of it
	Held        bool   // the writer holds its lock: it lives
	Damage      Damage
}

// Damage is what is wrong with a file. One torn record is what a kill leaves.
type Damage struct {
	Slots        int   // written, and not part of a good record
	MissingBytes int64 // of the fixed size
	Undecided    bool  // the fixed size is not known, as the header is lost
}

// Limit is limit i of the set that a sample refers to; false if that is lost.
func (f *File) Limit(s *Sample, i int) (Limit, bool) {
	for _, set := range f.LimitSets {
		if set.Number == s.LimitSet && i >= 0 && i < len(set.Limits) {
			return set.Limits[i], true
		}
	}
	return Limit{}, false
}

// Files are the records in a directory, read one after the other. An error is
// about one file, or the directory, and does not end the sequence.
func Files(dir string) iter.Seq2[*File, error] {
	return func(yield func(*File, error) bool) {
		names, err := os.ReadDir(dir)
		if err != nil {
			yield(nil, err)
			return
		}
		for _, e := range names {
			if strings.HasSuffix(e.Name(), fileSuffix) && !yield(ReadFile(filepath.Join(dir, e.Name()))) {
				return
			}
		}
	}
}

// ReadFile reads a file, whether its writer lives or not.
func ReadFile(path string) (*File, error) {
	in, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	if info, err := in.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, cmp.Or(err, fmt.Errorf("%s: not a regular file", path))
	}
	f, err := Read(in)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if f.HeaderLost {
		f.Header, _ = headerOfName(filepath.Base(path))
	}
	f.Held = locked(in)
	return f, nil
}

var unwritten [slotBytes]byte

// Read reads a record. It needs memory in proportion to what it returns, which
// is at most some 64 MiB.
func Read(r io.Reader) (*File, error) {
	f := &File{HeaderLost: true}
	in := bufio.NewReaderSize(io.LimitReader(r, maxFileBytes+maxCrashBytes), 4*maxRecordBytes)
	seen := map[uint64]bool{} // numbers of the samples: one may stand in several slots
	var phases []numbered[Phase]
	var off int64
	records := 0
	for f.HeaderLost || off < f.Header.FileBytes {
		buf, err := in.Peek(maxRecordBytes)
		if len(buf) == 0 {
			if err != io.EOF {
				return nil, err
			}
			break
		}
		k, number, payload, ok := unseal(buf)
		if !ok {
			n := min(len(buf), slotBytes)
			if !bytes.Equal(buf[:n], unwritten[:n]) {
				f.Damage.Slots++
			}
			off += int64(n)
			_, _ = in.Discard(n)
			continue
		}
		records++
		c := &coder{buf: payload, decode: true}
		switch k {
		case kindHeader:
			if string(payload[:len(magic)]) != magic {
				break
			}
			if v := binary.LittleEndian.Uint16(payload[len(magic):]); v != version {
				return nil, fmt.Errorf("%w: %d", ErrVersion, v)
			}
			c.off = len(magic) + 2
			f.Header.code(c)
			f.HeaderLost = false
		case kindLimits:
			f.LimitSets = append(f.LimitSets, decoded[LimitSet](c))
		case kindClose:
			m := decoded[Close](c)
			f.Close = &m
		case kindSample:
			if !seen[number] {
				seen[number] = true
				s := decoded[Sample](c)
				s.Number = number
				f.Samples = append(f.Samples, s)
			}
		case kindTransition:
			f.Transitions = append(f.Transitions, decoded[Transition](c))
		case kindPhase:
			phases = append(phases, numbered[Phase]{number, decoded[Phase](c)})
		case kindHolders:
			f.Holders = append(f.Holders, decoded[Holders](c))
		}
		n := slotsOf[k] * slotBytes
		off += int64(n)
		_, _ = in.Discard(n)
	}
	if records == 0 {
		return nil, ErrNotRecord
	}
	f.Damage.Undecided = f.HeaderLost
	if !f.HeaderLost {
		f.Damage.MissingBytes = f.Header.FileBytes - off
		crash, err := io.ReadAll(io.LimitReader(in, maxCrashBytes))
		if err != nil {
			return nil, err
		}
		f.Crash = cleanLines(string(crash))
	}
	f.Phases = lastOfEach(phases)
	slices.SortFunc(f.LimitSets, func(a, b LimitSet) int { return cmp.Compare(a.Number, b.Number) })
	slices.SortFunc(f.Samples, func(a, b Sample) int { return cmp.Compare(a.Number, b.Number) })
	slices.SortStableFunc(f.Transitions, func(a, b Transition) int { return a.At.Compare(b.At) })
	slices.SortStableFunc(f.Holders, func(a, b Holders) int { return a.At.Compare(b.At) })
	return f, nil
}

// coded is a *T that a coder reads.
type coded[T any] interface {
	*T
	code(*coder)
}

func decoded[T any, P coded[T]](c *coder) T {
	var v T
	P(&v).code(c)
	return v
}

type numbered[T any] struct {
	number uint64
	value  T
}

// lastOfEach keeps the last record of each phase: the one that says how it ended.
func lastOfEach(records []numbered[Phase]) []Phase {
	slices.SortFunc(records, func(a, b numbered[Phase]) int { return cmp.Compare(a.number, b.number) })
	type key struct {
		name  string
		start int64
	}
	at := map[key]int{}
	var phases []Phase
	for _, r := range records {
		k := key{r.value.Name, r.value.Start.UnixNano()}
		i, ok := at[k]
		if !ok {
			i = len(phases)
			at[k] = i
			phases = append(phases, r.value)
		}
		phases[i] = r.value
	}
	slices.SortStableFunc(phases, func(a, b Phase) int { return a.Start.Compare(b.Start) })
	return phases
}
