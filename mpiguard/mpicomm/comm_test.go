//go:build cgo

package mpicomm_test

import (
	"testing"

	"github.com/mpiguard/mpiguard/mpiguard"
	"github.com/mpiguard/mpiguard/mpiguard/commtest"
	"github.com/mpiguard/mpiguard/mpiguard/mpicomm"
	mpi "github.com/sbromberger/gompi"
)

func allRanks() []int {
	ranks := make([]int, mpi.WorldSize())
	for i := range ranks {
		ranks[i] = i
	}
	return ranks
}

func TestRankConformance(t *testing.T) {
	rank(t)
	commtest.TestMessenger(t, func(f func(mpiguard.Messenger) error) error {
		c, err := mpicomm.Group(allRanks())
		if err != nil {
			return err
		}
		return f(c)
	})
}
