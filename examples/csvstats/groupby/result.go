package groupby

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"
)

// Sorted returns the groups in the order of their keys' bytes. It takes 8 bytes
// a group, SortedBytes, that the table does not account for.
func (t *Table) Sorted() []*Group {
	groups := make([]*Group, t.Len())
	for i := range groups {
		groups[i] = t.At(i)
	}
	slices.SortFunc(groups, func(a, b *Group) int { return bytes.Compare(a.Key, b.Key) })
	return groups
}

// SortedBytes is the memory that Sorted takes.
func (t *Table) SortedBytes() int64 { return int64(t.Len()) * pointerBytes }

// AppendTo appends one line: count, min, mean, max and key, which comes last
// since it may hold any byte but a line end.
func (g *Group) AppendTo(text []byte) []byte {
	text = strconv.AppendInt(text, g.Count, 10)
	for _, n := range [...]Number{g.Min, g.Mean(), g.Max} {
		text = n.AppendTo(append(text, ' '))
	}
	text = append(append(text, ' '), g.Key...)
	return append(text, '\n')
}

// Digest names an answer: equal answers have equal digests, and two that differ
// in one digit do not.
func Digest(groups []*Group) string {
	hash := sha256.New()
	var line []byte
	for _, g := range groups {
		line = g.AppendTo(line[:0])
		hash.Write(line)
	}
	return hex.EncodeToString(hash.Sum(nil)[:16])
}
