package blackbox

import (
	"encoding/binary"
	"hash/crc32"
	"math"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/mpiguard/mpiguard/internal/level"
)

const (
	version    = 1
	magic      = "MPGBOX"
	slotBytes  = 256
	frameBytes = 16 // checksum, kind, number
)

type kind byte

const (
	kindHeader kind = iota + 1
	kindLimits
	kindClose
	kindSample
	kindTransition
	kindPhase
	kindHolders
)

// slotsOf is how many slots a record of each kind fills.
var slotsOf = [...]int{
	kindHeader: 16, kindLimits: 16, kindClose: 2, kindSample: 1, kindTransition: 2, kindPhase: 2, kindHolders: 2,
}

const maxRecordBytes = 16 * slotBytes

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// seal makes a record of buf, which holds the payload, and fits the kind.
func seal(buf []byte, k kind, number uint64) {
	binary.LittleEndian.PutUint32(buf[4:], uint32(k))
	binary.LittleEndian.PutUint64(buf[8:], number)
	binary.LittleEndian.PutUint32(buf, crc32.Checksum(buf[4:], castagnoli))
}

// unseal finds the record at the start of buf. It reports false if there is no
// whole record with a good checksum.
func unseal(buf []byte) (k kind, number uint64, payload []byte, ok bool) {
	if len(buf) < slotBytes {
		return 0, 0, nil, false
	}
	k = kind(buf[4])
	if k < kindHeader || int(k) >= len(slotsOf) || len(buf) < slotsOf[k]*slotBytes {
		return 0, 0, nil, false
	}
	buf = buf[:slotsOf[k]*slotBytes]
	if binary.LittleEndian.Uint32(buf) != crc32.Checksum(buf[4:], castagnoli) {
		return 0, 0, nil, false
	}
	return k, binary.LittleEndian.Uint64(buf[8:]), buf[frameBytes:], true
}

// coder writes the fields of a payload to buf, or with decode set reads them, in
// one order that is written down once. It reads zeros past the end; it never
// writes there, which TestRecordsFit makes sure of.
type coder struct {
	buf    []byte
	off    int
	decode bool
}

func (c *coder) int64(p *int64) {
	if c.decode {
		if c.off+8 <= len(c.buf) {
			*p = int64(binary.LittleEndian.Uint64(c.buf[c.off:]))
		}
	} else {
		binary.LittleEndian.PutUint64(c.buf[c.off:], uint64(*p))
	}
	c.off += 8
}

func (c *coder) uint64(p *uint64) {
	n := int64(*p)
	c.int64(&n)
	*p = uint64(n)
}

func (c *coder) int(p *int) {
	n := int64(*p)
	c.int64(&n)
	*p = int(n)
}

func (c *coder) bool(p *bool) {
	var n int64
	if *p {
		n = 1
	}
	c.int64(&n)
	*p = n != 0
}

func (c *coder) float64(p *float64) {
	n := int64(math.Float64bits(*p))
	c.int64(&n)
	*p = math.Float64frombits(uint64(n))
}

func (c *coder) time(p *time.Time) {
	var n int64
	if !p.IsZero() {
		n = p.UnixNano()
	}
	c.int64(&n)
	if c.decode && n != 0 {
		*p = time.Unix(0, n)
	}
}

func (c *coder) level(p *level.Level) {
	n := int64(*p)
	c.int64(&n)
	*p = level.Level(n)
}

// text codes a string of at most most bytes; a longer one is cut.
func (c *coder) text(p *string, most int) {
	if c.decode {
		if c.off+2 > len(c.buf) {
			return
		}
		n := int(binary.LittleEndian.Uint16(c.buf[c.off:]))
		rest := c.buf[c.off+2:]
		n = min(n, most, len(rest))
		*p = clean(string(rest[:n]))
		c.off += 2 + n
		return
	}
	s := cut(*p, most)
	binary.LittleEndian.PutUint16(c.buf[c.off:], uint16(len(s)))
	copy(c.buf[c.off+2:], s)
	c.off += 2 + len(s)
}

// cut shortens s to at most most bytes, at the start of a character.
func cut(s string, most int) string {
	if len(s) <= most {
		return s
	}
	for most > 0 && !utf8.RuneStart(s[most]) {
		most--
	}
	return s[:most]
}

// clean makes s fit to be printed, in one line: what a file holds may come from
// anybody.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return utf8.RuneError
		}
		return r
	}, s)
}

// cleanLines is clean for a text of several lines.
func cleanLines(s string) string {
	lines := strings.Split(strings.ReplaceAll(s, "\t", "    "), "\n")
	for i := range lines {
		lines[i] = clean(lines[i])
	}
	return strings.Join(lines, "\n")
}

func (h *Header) code(c *coder) {
	for _, f := range []struct {
		p    *string
		most int
	}{
		{&h.Library, 64}, {&h.Run, 64}, {&h.Job, 64}, {&h.Host, 128}, {&h.BootID, 64}, {&h.Program, 64},
		{&h.Cgroup, 1024},
	} {
		c.text(f.p, f.most)
	}
	c.int(&h.Rank)
	c.int(&h.Size)
	c.int(&h.PID)
	c.bool(&h.OwnPIDs)
	c.time(&h.Started)
	c.bool(&h.InProc)
	c.int64(&h.FileBytes)
	c.bool(&h.Locked)
	c.int64(&h.InputBytes)
	c.int64(&h.BaselineBytes)
	c.float64(&h.KeepFree)
	c.float64(&h.ElevatedAt)
	c.float64(&h.HighAt)
	c.float64(&h.CriticalAt)
}

func (s *LimitSet) code(c *coder) {
	c.time(&s.At)
	c.int(&s.Number)
	n := len(s.Limits)
	c.int(&n)
	if c.decode {
		s.Limits = make([]Limit, min(max(n, 0), MaxLimits))
	}
	for i := range s.Limits {
		l := &s.Limits[i]
		c.text(&l.Source, 64)
		c.text(&l.Path, 600)
		scope := int(l.Scope)
		c.int(&scope)
		l.Scope = Scope(scope)
		c.text(&l.Kind, 16)
		c.uint64(&l.ID)
		c.int(&l.Ranks)
		c.int64(&l.KeptFreeBytes)
	}
}

func (s *Sample) code(c *coder) {
	// Written out: this is the one that is coded with every sample.
	c.time(&s.At)
	c.int64(&s.AnonBytes)
	c.int64(&s.ShmemBytes)
	c.int64(&s.FileBytes)
	c.int64(&s.HighWaterBytes)
	c.int64(&s.GoBytes)
	c.int64(&s.NonGoBytes)
	c.int64(&s.ReservedBytes)
	c.int64(&s.UntouchedBytes)
	c.int64(&s.UnaccountedBytes)
	c.int64(&s.HeadroomBytes)
	c.int64(&s.ChunkBytes)
	c.int64(&s.OOMKills)
	c.int64(&s.PeakAnonBytes)
	for i := range s.Limits {
		l := &s.Limits[i]
		c.int64(&l.LimitBytes)
		c.int64(&l.UsedBytes)
		c.int64(&l.PeakUsedBytes)
	}
	packed := uint64(s.Level) | uint64(uint8(s.Binding))<<8 | uint64(uint16(s.LimitSet))<<16
	c.uint64(&packed)
	s.Level, s.Binding, s.LimitSet = level.Level(packed), int(int8(packed>>8)), int(uint16(packed>>16))
}

func (t *Transition) code(c *coder) {
	c.time(&t.At)
	c.level(&t.From)
	c.level(&t.To)
	c.text(&t.Reason, 460)
}

func (p *Phase) code(c *coder) {
	c.text(&p.Name, 128)
	c.time(&p.Start)
	c.time(&p.End)
	c.int64(&p.StartAnonBytes)
	c.int64(&p.EndAnonBytes)
	c.int64(&p.PeakAnonBytes)
}

func (h *Holders) code(c *coder) {
	c.time(&h.At)
	c.int(&h.Count)
	c.int64(&h.SumBytes)
	n := len(h.Top)
	c.int(&n)
	if c.decode {
		h.Top = make([]Holder, min(max(n, 0), MaxHolders))
	}
	for i := range h.Top {
		c.int64(&h.Top[i].SizeBytes)
		c.text(&h.Top[i].Name, 46)
	}
}

func (m *Close) code(c *coder) {
	c.time(&m.At)
	c.text(&m.Error, 460)
}
