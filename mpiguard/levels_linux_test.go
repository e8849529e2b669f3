//go:build cgo

package mpiguard_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mpiguard/mpiguard/internal/lab"
	"github.com/mpiguard/mpiguard/internal/lab/hosts"
	"github.com/mpiguard/mpiguard/internal/lab/mpirun"
	"github.com/mpiguard/mpiguard/mpiguard"
	"github.com/mpiguard/mpiguard/mpiguard/mpicomm"
)

// Ranks that all hold the same are under pressure on the tight one of two hosts
// alone; all ranks see it there, and it is gone with what they held.
func TestLabLevelsOfTwoHosts(t *testing.T) {
	c := lab.Hosts(t,
		hosts.Host{Name: "wide", Slots: 2, Limits: lab.Limits{MaxBytes: 512 << 20}},
		hosts.Host{Name: "tight", Slots: 2, Limits: lab.Limits{MaxBytes: 160 << 20}})
	r := runRanks(t, "levels", c.Spread(mpirun.Config{Ranks: 4}))
	t.Logf("%s", r.Stdout)
	require.Zero(t, r.Exit, "%s%s", r.Stdout, r.Stderr)
	for _, name := range []string{"wide", "tight"} {
		kills, err := c.Group(name).Kills()
		require.NoError(t, err)
		assert.Zero(t, kills, name)
	}
}

func levels(c *mpicomm.Comm, _ bool) error {
	const holdBytes = 60 << 20
	ctx := context.Background()
	g, err := mpiguard.New(ctx, c, mpiguard.Config{})
	if err != nil {
		return err
	}
	defer g.Close()
	r, err := g.TryReserveOffHeap("held", holdBytes)
	if err != nil {
		return err
	}
	hold := touched(holdBytes)
	r.Commit(holdBytes)
	if err := c.Barrier(ctx); err != nil { // all hold it
		return err
	}
	time.Sleep(3 * time.Second / 2) // what was counted twice on the way is forgotten
	s, err := g.Survey(ctx)
	if err != nil {
		return err
	}
	p, err := g.Pulse(ctx)
	if err != nil {
		return err
	}
	if c.Rank() == 0 {
		fmt.Printf("%v%+v\n", s, p)
	}
	if len(s.Nodes) != 2 || s.Nodes[0].Level != mpiguard.Normal || s.Nodes[1].Level < mpiguard.High ||
		s.Nodes[0].HeadroomBytes < 300<<20 || s.Nodes[1].HeadroomBytes > 40<<20 {
		err = fmt.Errorf("nodes are shown as %+v", s.Nodes)
	}
	if p.Level != s.Nodes[1].Level || p.Rank != 2 {
		err = errors.Join(err, fmt.Errorf("the pulse is %+v", p))
	}
	if e := c.Barrier(ctx); e != nil { // all have looked
		return errors.Join(err, e)
	}
	unmap(hold)
	r.Release()
	return errors.Join(err, g.WaitBelow(ctx, mpiguard.High), c.Barrier(ctx))
}
