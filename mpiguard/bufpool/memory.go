package bufpool

import (
	"github.com/mpiguard/mpiguard/internal/invariants"
	"github.com/mpiguard/mpiguard/internal/offheap"
)

// allocate returns resident memory that is charged already. On an error it is still
// charged.
func allocate(acct Account, bytes int64, huge bool) ([]byte, error) {
	mem, err := offheap.Map(bytes, huge)
	if err != nil {
		return nil, err
	}
	if err := offheap.Populate(mem); err != nil {
		_ = offheap.Unmap(mem)
		return nil, err
	}
	invariants.Poison(mem)
	offheap.Commit(acct, bytes)
	return mem, nil
}

// unmap gives memory of allocate back to the kernel and to the account. No lock is
// held where it is called, so that the account may do what it likes.
func unmap(acct Account, mem []byte) {
	_ = offheap.Unmap(mem) // fails for an address that is not ours alone
	bytes := int64(len(mem))
	offheap.Commit(acct, -bytes)
	acct.Shrink(bytes)
}
