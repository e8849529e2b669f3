package mpiguard

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bound(context.Background(), time.Minute)
		defer b.release()
		assert.NoError(t, b.Err())
		time.Sleep(time.Minute)
		assert.Equal(t, context.DeadlineExceeded, b.Err())
		<-b.Done()

		selected := bound(context.Background(), time.Minute)
		defer selected.release()
		start := time.Now()
		<-selected.Done()
		assert.Equal(t, time.Minute, time.Since(start))
		assert.Equal(t, context.DeadlineExceeded, selected.Err())

		why := errors.New("why")
		parent, cancel := context.WithCancelCause(context.Background())
		child := bound(parent, time.Minute)
		defer child.release()
		cancel(why)
		<-child.Done()
		assert.Equal(t, context.Canceled, child.Err())
		assert.Equal(t, why, context.Cause(child))

		early, stop := context.WithTimeout(context.Background(), time.Second)
		defer stop()
		own := bound(early, time.Minute)
		defer own.release()
		start = time.Now()
		<-own.Done()
		assert.Equal(t, time.Second, time.Since(start))
	})
}
