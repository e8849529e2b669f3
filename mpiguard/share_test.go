package mpiguard

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestShareOf(t *testing.T) {
	const mib = int64(1) << 20
	row := func(process uint64, anon int64, entries ...scopeEntry) scopeRow {
		r := scopeRow{process: process, anonBytes: anon}
		copy(r.constraints[:], entries)
		return r
	}
	group := func(used int64) scopeEntry { return scopeEntry{7, 200 * mib, used} }
	job := scopeEntry{9, 100 * mib, UnknownBytes}
	for name, c := range map[string]struct {
		rows []scopeRow
		me   int
		id   uint64
		want share
	}{
		"two of three ranks share, the figures a moment apart": {
			[]scopeRow{row(1, 10*mib, group(60*mib)), row(2, 10*mib, group(62*mib)), row(3, 10*mib)}, 1, 7,
			share{ranks: 2, here: 1, spareBytes: (200 - 16 - 62 + 20) * mib}},
		"not under it": {
			[]scopeRow{row(1, 10*mib, group(60*mib)), row(2, 10*mib)}, 1, 8, share{}},
		"private memory of a process counts once": {
			[]scopeRow{row(1, 10*mib, group(60*mib)), row(1, 10*mib, group(60*mib)), row(2, 30*mib, group(60*mib))}, 0, 7,
			share{ranks: 3, here: 2, spareBytes: (200 - 16 - 60 + 40) * mib}},
		"of the job only its ranks are known": {
			[]scopeRow{row(1, 10*mib, job), row(2, 30*mib, job)}, 0, 9,
			share{ranks: 2, here: 1, spareBytes: (100 - 16) * mib}},
		"more used than may be": {
			[]scopeRow{row(1, 10*mib, group(199*mib))}, 0, 7, share{ranks: 1, here: 1, spareBytes: 0}},
	} {
		t.Run(name, func(t *testing.T) {
			if c.want.ranks == 0 {
				assert.Equal(t, 0, shareOf(c.rows, c.me, c.id, 16*mib).ranks)
				return
			}
			assert.Equal(t, c.want, shareOf(c.rows, c.me, c.id, 16*mib))
		})
	}
	assert.Equal(t, 40*mib, share{ranks: 3, here: 2, spareBytes: 60 * mib}.bytes())
}
