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

// Buffers of whatever size is needed. What is idle is given back when the guard
// needs memory for others: guard.RegisterReclaim("buffers", buffers.Trim).
func ExampleClasses() {
	buffers, err := bufpool.NewClasses(nil, bufpool.ClassesConfig{IdleBytes: 16 << 20})
	if err != nil {
		fmt.Println(err)
		return
	}
	buf, err := buffers.Get(context.Background(), 1<<20)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(len(buf.Bytes()))
	buf.Release()
	fmt.Println(buffers.Stats().IdleBytes, buffers.Trim(1), buffers.Stats().IdleBytes)
	fmt.Println(buffers.Close())
	// Output:
	// 1048576
	// 1048576 1048576 0
	// <nil>
}
