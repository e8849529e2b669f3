package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mpiguard/mpiguard/internal/doctor"
)

func TestParse(t *testing.T) {
	var out, errs bytes.Buffer
	for _, c := range []struct {
		args []string
		want options
	}{
		{nil, options{Deadline: 20 * time.Second}},
		{[]string{"-strict", "-json", "-deadline", "3s"}, options{true, true, 3 * time.Second}},
		{[]string{"--strict", "--deadline=1m"}, options{true, false, time.Minute}},
	} {
		o, _, ok := parse(c.args, &out, &errs)
		assert.True(t, ok, c.args)
		assert.Equal(t, c.want, o)
	}
	assert.Empty(t, out.String()+errs.String())

	_, code, ok := parse([]string{"-help"}, &out, &errs)
	assert.False(t, ok)
	assert.Zero(t, code)
	assert.Contains(t, out.String(), "--deadline=DURATION")
	assert.Regexp(t, `default:\s+20s`, out.String())

	for _, args := range [][]string{{"-x"}, {"-bad"}, {"more"}, {"-deadline", "soon"}, {"-deadline", "0s"}, {"-deadline", "-1s"}} {
		errs.Reset()
		_, code, ok := parse(args, &out, &errs)
		assert.False(t, ok, args)
		assert.Equal(t, exitErrors, code, args)
		assert.Equal(t, 1, bytes.Count(errs.Bytes(), []byte("\n")), args)
	}

	// One of the ranks says what is wrong.
	errs.Reset()
	t.Setenv("OMPI_COMM_WORLD_RANK", "1")
	_, code, ok = parse([]string{"-bad"}, &out, &errs)
	assert.False(t, ok)
	assert.Equal(t, exitErrors, code)
	assert.Empty(t, errs.String())
}

func TestLaunched(t *testing.T) {
	assert.Empty(t, launched([]string{"HOME=/", "PMI_RANK="}))
	assert.Equal(t, "3", launched([]string{"SLURM_PROCID=0", "PMIX_RANK=3"}), "under mpirun in a job of Slurm")
	assert.Equal(t, "2", launched([]string{"SLURM_PROCID=2"}))
}

func TestWrite(t *testing.T) {
	clean := &doctor.Report{}
	warned := &doctor.Report{Nodes: []doctor.Node{{Host: "n1", Memory: doctor.Memory{LimitBytes: doctor.UnlimitedBytes},
		Place: doctor.Place{Unresolved: []string{"n2"}, Shm: doctor.FileSystem{FreeBytes: -1}, Session: doctor.FileSystem{FreeBytes: -1}}}}}
	warned.Nodes[0].HeadroomBytes = doctor.UnlimitedBytes
	failed := &doctor.Report{Err: errors.New("it broke")}
	for _, c := range []struct {
		r              *doctor.Report
		normal, strict int
		text           string
	}{
		{clean, 0, 0, "nothing wrong was found\n"},
		{warned, 0, exitWarnings, "warning: n1: host names that do not resolve: n2\n"},
		{failed, exitErrors, exitErrors, "error: it broke\n"},
	} {
		var out bytes.Buffer
		assert.Equal(t, c.normal, options{}.write(&out, c.r))
		assert.Equal(t, c.text, out.String())
		assert.Equal(t, c.strict, options{Strict: true}.write(&out, c.r))
		out.Reset()
		assert.Equal(t, c.strict, options{Strict: true, JSON: true}.write(&out, c.r))
		var back map[string]any
		require.NoError(t, json.Unmarshal(out.Bytes(), &back))
		assert.Len(t, back["findings"], min(c.strict, 1))
	}
	assert.Equal(t, exitErrors, options{}.write(full{}, clean))
}

// full is a disk that is.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("full") }
