package groupby

import (
	"context"
	"encoding/binary"

	"github.com/mpiguard/mpiguard/mpiguard"
)

// A row of the exchange is a header, the length of the records that follow with
// a bit for "more rows follow", and the records. A record is a group: its
// numbers, the length of its key, the key.
const (
	headerBytes       = 4
	moreFollows       = 1 << 31
	numbersBytes      = 5 * 8
	recordHeaderBytes = numbersBytes + 2
	leastRowBytes     = headerBytes + recordHeaderBytes + MaxKeyBytes // one group of any key
	roundBytes        = 256 << 10                                     // rows of all ranks together
)

func mergeRowBytes(ranks int) int { return max(roundBytes/ranks, leastRowBytes) }

// MergeBytes is the memory that Merge takes beside the table.
func MergeBytes(ranks int) int64 { return int64(ranks+1) * int64(mergeRowBytes(ranks)) }

// Merge adds the groups of all other ranks to the table of rank 0; the other
// tables are left unchanged. Groups travel in rounds of one Allgather of one row
// of fixed length a rank, so that memory does not depend on how many there are.
// An error of the communicator is seen by all ranks. If rank 0 has no memory for
// a group it takes no more of them, stays in the rounds to the end and returns
// that error alone. Collective.
func Merge(ctx context.Context, comm mpiguard.Comm, t *Table) error {
	rowBytes := mergeRowBytes(comm.Size())
	row := make([]byte, rowBytes)
	rows := make([]byte, comm.Size()*rowBytes)
	sent, groups := 0, t.Len() // what this rank sends: the table of rank 0 grows meanwhile
	if comm.Rank() == 0 {
		groups = 0
	}
	var refused error
	for more := true; more; {
		sent = t.pack(row, sent, groups)
		if err := comm.Allgather(ctx, rows, row); err != nil {
			return err
		}
		more = false
		for r := range comm.Size() {
			records, follows := unpack(rows[r*rowBytes : (r+1)*rowBytes])
			more = more || follows
			if comm.Rank() == 0 && refused == nil {
				refused = t.mergeRecords(ctx, records)
			}
		}
	}
	return refused
}

// pack fills row with groups from number next on and below end, and returns the
// number of the first that did not fit.
func (t *Table) pack(row []byte, next, end int) int {
	records := row[headerBytes:headerBytes]
	for ; next < end; next++ {
		g := t.At(next)
		if len(records)+recordHeaderBytes+len(g.Key) > cap(records) {
			break
		}
		records = g.appendRecord(records)
	}
	header := uint32(len(records))
	if next < end {
		header |= moreFollows
	}
	binary.LittleEndian.PutUint32(row, header)
	return next
}

func unpack(row []byte) (records []byte, follows bool) {
	header := binary.LittleEndian.Uint32(row)
	return row[headerBytes : headerBytes+header&^moreFollows], header&moreFollows != 0
}

func (g *Group) appendRecord(b []byte) []byte {
	b = binary.LittleEndian.AppendUint64(b, uint64(g.Count))
	b = binary.LittleEndian.AppendUint64(b, uint64(g.Min))
	b = binary.LittleEndian.AppendUint64(b, uint64(g.Max))
	b = binary.LittleEndian.AppendUint64(b, uint64(g.sum.high))
	b = binary.LittleEndian.AppendUint64(b, g.sum.low)
	b = binary.LittleEndian.AppendUint16(b, uint16(len(g.Key)))
	return append(b, g.Key...)
}

func (t *Table) mergeRecords(ctx context.Context, records []byte) error {
	for len(records) > 0 {
		word := func(i int) uint64 { return binary.LittleEndian.Uint64(records[8*i:]) }
		stats := Stats{
			Count: int64(word(0)), Min: Number(word(1)), Max: Number(word(2)),
			sum: sum{high: int64(word(3)), low: word(4)},
		}
		end := recordHeaderBytes + int(binary.LittleEndian.Uint16(records[numbersBytes:]))
		group, err := t.Group(ctx, records[recordHeaderBytes:end])
		if err != nil {
			return err
		}
		group.merge(&stats)
		records = records[end:]
	}
	return nil
}
