package inproc_test

import (
	"fmt"
	"testing"

	"github.com/mpiguard/mpiguard/mpiguard"
	"github.com/mpiguard/mpiguard/mpiguard/commtest"
	"github.com/mpiguard/mpiguard/mpiguard/inproc"
)

func TestConformance(t *testing.T) {
	for _, n := range []int{1, 2, 4, 8} {
		t.Run(fmt.Sprintf("n=%d", n), func(t *testing.T) {
			commtest.TestMessenger(t, func(f func(mpiguard.Messenger) error) error { return inproc.Run(n, f) })
		})
	}
}
