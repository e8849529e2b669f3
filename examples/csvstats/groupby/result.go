package groupby

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
)

// Sorted returns the groups in the order of their keys' bytes. An error says that
// there is no memory for the list.
func (t *Table) Sorted(ctx context.Context) ([]*Group, error) {
	if err := t.account.Grow(ctx, int64(t.groups)*pointerBytes); err != nil {
		return nil, fmt.Errorf("no memory to sort %d groups: %w", t.groups, err)
	}
	groups := make([]*Group, t.groups)
	for i := range groups {
		groups[i] = t.At(i)
	}
	slices.SortFunc(groups, func(a, b *Group) int { return bytes.Compare(a.Key, b.Key) })
	return groups, nil
}

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
