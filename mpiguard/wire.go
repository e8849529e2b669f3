package mpiguard

import (
	"encoding/binary"
	"math"
)

// rowLayout is the version of the rows that ranks exchange. It is compared in
// New, so that programs built against different versions do not misread each
// other.
const rowLayout = 1

// coder writes the fields of a row to buf, or with decode set reads them, in
// one order that is written down once. Numbers are little-endian.
type coder struct {
	buf    []byte
	off    int
	decode bool
}

func (c *coder) uint64(p *uint64) {
	b := c.buf[c.off : c.off+8]
	c.off += 8
	if c.decode {
		*p = binary.LittleEndian.Uint64(b)
	} else {
		binary.LittleEndian.PutUint64(b, *p)
	}
}

func (c *coder) int64(p *int64) {
	u := uint64(*p)
	c.uint64(&u)
	*p = int64(u)
}

func (c *coder) byte(p *byte) {
	if c.decode {
		*p = c.buf[c.off]
	} else {
		c.buf[c.off] = *p
	}
	c.off++
}

// text codes a string in a field of n bytes, its length included. Of one that
// is too long the end is kept, which tells cgroup paths and host names apart.
func (c *coder) text(p *string, n int) {
	b := c.buf[c.off : c.off+n]
	c.off += n
	if c.decode {
		*p = string(b[1 : 1+min(int(b[0]), n-1)])
		return
	}
	s := *p
	if cut := len(s) - min(n-1, math.MaxUint8); cut > 0 {
		const mark = "…"
		s = mark + s[cut+len(mark):]
	}
	b[0] = byte(len(s))
	copy(b[1:], s)
}
