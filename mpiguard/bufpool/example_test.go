package bufpool_test

import (
	"context"
	"fmt"

	"github.com/mpiguard/mpiguard/mpiguard/bufpool"
)

func Example() {
	ctx := context.Background()
	// In a program the account is a *mpiguard.Reservation; nil charges nobody.
	pool, err := bufpool.New(ctx, nil, bufpool.Config{BufferBytes: 1 << 20, Buffers: 2})
	if err != nil {
		fmt.Println(err)
		return
	}
	buf, err := pool.Get(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	n := copy(buf.Bytes(), "some data")
	fmt.Printf("%s, %d free\n", buf.Bytes()[:n], pool.Stats().Idle)
	buf.Release()
	fmt.Println(pool.Close())
	// Output:
	// some data, 1 free
	// <nil>
}
