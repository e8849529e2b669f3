package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mpiguard/mpiguard/chunk"
	"github.com/mpiguard/mpiguard/examples/csvstats/groupby"
	"github.com/mpiguard/mpiguard/mpiguard"
	"github.com/mpiguard/mpiguard/mpiguard/inproc"
)

// world runs work on ranks in this process. It returns what rank 0 printed and
// the one error that was to be told.
func world(t *testing.T, ranks int, o options) (stdout string, told error) {
	t.Helper()
	if o.layout == (groupby.Layout{}) {
		o.layout = groupby.Layout{Key: 1, Value: 2, Separator: ';'}
	}
	var (
		mu    sync.Mutex
		codes = map[int]int{}
		out   [16]bytes.Buffer
	)
	err := inproc.Run(ranks, func(c mpiguard.Messenger) error {
		err := work(t.Context(), c, o, &out[c.Rank()])
		mu.Lock()
		defer mu.Unlock()
		var agreed *agreedError
		if err != nil && !errors.As(err, &agreed) {
			return err
		}
		if err == nil {
			codes[0]++
			return nil
		}
		codes[agreed.code]++
		if agreed.err != nil {
			if told != nil {
				return fmt.Errorf("two ranks tell: %w and %w", told, agreed.err)
			}
			told = agreed.err
		}
		return nil
	})
	require.NoError(t, err)
	require.Len(t, codes, 1, "all ranks end alike: %v", codes)
	require.Equal(t, ranks, codes[exitCode(told)])
	for r := 1; r < ranks; r++ {
		require.Empty(t, out[r].String(), "rank %d prints", r)
	}
	return out[0].String(), told
}

func file(t *testing.T, contents string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "input.csv")
	require.NoError(t, os.WriteFile(name, []byte(contents), 0o600))
	return name
}

// decoded is the answer with its groups.
type decoded struct {
	answer
	List []struct {
		Key            string
		Count          int64
		Min, Mean, Max json.Number
	} `json:"groups"`
}

func solve(t *testing.T, ranks int, o options) decoded {
	t.Helper()
	o.jsonFile = filepath.Join(t.TempDir(), "answer.json")
	stdout, err := world(t, ranks, o)
	require.NoError(t, err)
	text, err := os.ReadFile(o.jsonFile)
	require.NoError(t, err)
	var d decoded
	require.NoError(t, json.Unmarshal(text, &d), "%s", text)
	assert.Contains(t, stdout, d.Digest)
	assert.Equal(t, 1, strings.Count(stdout, "before:\n"))
	assert.Equal(t, 1, strings.Count(stdout, "after:\n"))
	assert.Len(t, d.List, d.Groups)
	return d
}

var modes = []string{modeGuarded, modeNaive}

func TestAnswer(t *testing.T) {
	name := file(t, "b;-1.5\r\na;2\r\nb;0.25\r\n\r\n")
	for _, mode := range modes {
		for _, ranks := range []int{1, 2, 3, 8} {
			d := solve(t, ranks, options{mode: mode, file: name})
			assert.Equal(t, mode, d.Mode)
			assert.Equal(t, ranks, d.Ranks)
			assert.EqualValues(t, 23, d.InputBytes)
			assert.EqualValues(t, 4, d.Lines)
			assert.Equal(t, "a", d.List[0].Key)
			assert.Equal(t, "b", d.List[1].Key)
			assert.Equal(t, []json.Number{"-1.5", "-0.625", "0.25"}, []json.Number{d.List[1].Min, d.List[1].Mean, d.List[1].Max})
			assert.Positive(t, d.PeakBytes)
		}
	}
}

func TestEmptyFile(t *testing.T) {
	for _, mode := range modes {
		d := solve(t, 3, options{mode: mode, file: file(t, "")})
		assert.Zero(t, d.Lines)
		assert.Zero(t, d.Groups)
	}
}

// Both modes give one answer at any number of ranks, for files of any line ends
// and any length, also shorter than there are ranks.
func TestAnswersAreEqual(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	for range 12 {
		var contents bytes.Buffer
		require.NoError(t, groupby.Generate(&contents, random.Int64N(1<<uint(random.IntN(22))), random.Uint64()))
		text := contents.String()
		if random.IntN(2) == 0 {
			text = strings.ReplaceAll(text, "\n", "\r\n")
		}
		if random.IntN(2) == 0 {
			text = strings.TrimSuffix(text, "\n")
		}
		if random.IntN(2) == 0 {
			text = "\ufeff" + text
		}
		name := file(t, text)
		want := solve(t, 1, options{mode: modeNaive, file: name})
		for _, mode := range modes {
			for _, ranks := range []int{1, 2, 3, 4, 7} {
				got := solve(t, ranks, options{mode: mode, file: name})
				require.Equal(t, want.Digest, got.Digest, "%s, %d ranks", mode, ranks)
				require.Equal(t, want.Lines, got.Lines)
				require.Equal(t, want.List, got.List)
			}
		}
	}
}

// An error names the first bad line of the whole file, whichever rank has it.
func TestErrorNamesTheLineOfTheFile(t *testing.T) {
	random := rand.New(rand.NewPCG(2, 2))
	for range 20 {
		lines := make([]string, 1+random.IntN(3000))
		for i := range lines {
			lines[i] = fmt.Sprintf("key %d;%d.5\n", random.IntN(10), random.IntN(1000))
		}
		bad := random.IntN(len(lines))
		lines[bad] = "junk\n"
		for range 3 {
			later := bad + random.IntN(len(lines)-bad)
			lines[later] = "junk\n"
		}
		name := file(t, strings.Join(lines, ""))
		for _, mode := range modes {
			for _, ranks := range []int{1, 2, 4, 7} {
				_, err := world(t, ranks, options{mode: mode, file: name})
				require.EqualError(t, err, fmt.Sprintf("%s: line %d: no column 2 in a row of 1", name, bad+1), "%s, %d ranks", mode, ranks)
				require.Equal(t, exitFailed, exitCode(err))
			}
		}
	}
}

func TestBadInput(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	require.NoError(t, exec.CommandContext(t.Context(), "mkfifo", pipe).Run())
	missing := filepath.Join(t.TempDir(), "missing")
	dir := t.TempDir()
	two := file(t, "a;1\nb;2\n")
	nine := groupby.Layout{Key: 9, Value: 2, Separator: ';'}
	for name, test := range map[string]struct {
		options
		want string
	}{
		"missing":            {options{file: missing}, "rank 0: stat " + missing + ": no such file or directory"},
		"directory":          {options{file: dir}, "rank 0: " + dir + " is not a regular file"},
		"pipe":               {options{file: pipe}, "rank 0: " + pipe + " is not a regular file"},
		"key 9":              {options{file: two, layout: nine}, two + ": line 1: no column 9 in a row of 2"},
		"answer in no place": {options{file: two, jsonFile: missing + "/x"}, "open " + missing + "/x: no such file or directory"},
	} {
		for _, mode := range modes {
			t.Run(name+" "+mode, func(t *testing.T) {
				test.mode = mode
				_, err := world(t, 4, test.options)
				assert.EqualError(t, err, test.want)
			})
		}
	}
}

// An error on one rank, or a file that differs, stops all of them.
func TestOneRankFails(t *testing.T) {
	const ranks = 4
	for bad := range ranks {
		var told [ranks]error
		err := inproc.Run(ranks, func(c mpiguard.Messenger) error {
			var err error
			if c.Rank() >= bad {
				err = fmt.Errorf("rank %d failed", c.Rank())
			}
			told[c.Rank()] = agree(t.Context(), c, err, 0)
			return nil
		})
		require.NoError(t, err)
		for r, err := range told {
			var agreed *agreedError
			require.ErrorAs(t, err, &agreed)
			assert.Equal(t, exitFailed, agreed.code)
			if r == bad {
				assert.EqualError(t, agreed.err, fmt.Sprintf("rank %d failed", bad))
			} else {
				assert.NoError(t, agreed.err)
			}
		}
	}
}

func TestSizesDiffer(t *testing.T) {
	err := inproc.Run(3, func(c mpiguard.Messenger) error {
		j := &job{ctx: t.Context(), comm: c, options: options{file: "f"}}
		err := j.agreeSize(100 + int64(c.Rank()))
		if c.Rank() == 0 {
			assert.EqualError(t, err, "f has 100 bytes on one rank and 102 on another")
		}
		assert.Error(t, err)
		return nil
	})
	require.NoError(t, err)
}

// A rank that cannot reach the others says its own error too.
func TestNoAgreement(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	own := errors.New("disk on fire")
	err := inproc.Run(2, func(c mpiguard.Messenger) error {
		if c.Rank() == 1 {
			return nil
		}
		err := agree(ctx, c, own, 0)
		assert.ErrorIs(t, err, own)
		assert.ErrorIs(t, err, mpiguard.ErrBroken)
		return nil
	})
	require.NoError(t, err)
}

// A file that is shorter than it was when it was opened is an error that says
// so, wherever the cut is: in a line or between two, in the part of any rank.
func TestFileShrinks(t *testing.T) {
	const line = "station;12.5\n"
	whole := strings.Repeat(line, 1000)
	for _, leftBytes := range []int{0, 1, len(line), 5 * len(line), len(whole) / 2, len(whole)/2 + 3, len(whole) - 1} {
		name := file(t, whole[:leftBytes])
		for _, ranks := range []int{1, 3} {
			failed := false
			for r := range ranks {
				in := &input{}
				require.NoError(t, in.open(name))
				in.sizeBytes = int64(len(whole))
				in.part = chunk.Partition(in.sizeBytes, ranks, r)
				naive := in.scanNaive(t.Context(), func(context.Context, []byte) error { return nil })
				g, err := mpiguard.New(t.Context(), nil, mpiguard.Config{})
				require.NoError(t, err)
				guarded := in.scanGuarded(t.Context(), g, func(context.Context, []byte) error { return nil })
				require.NoError(t, g.Close())
				require.NoError(t, in.Close())
				for _, err := range []error{naive, guarded} {
					if err != nil {
						require.EqualError(t, readable(err, 0), "the file became shorter while it was read")
					}
				}
				assert.Equal(t, naive == nil, guarded == nil, "rank %d of %d, %d bytes left: %v, %v", r, ranks, leftBytes, naive, guarded)
				failed = failed || guarded != nil
			}
			assert.True(t, failed, "%d ranks, %d bytes left", ranks, leftBytes)
		}
	}
}

// A line longer than a block of lines is an error where the blocks are, with its
// number in the file.
func TestLongLines(t *testing.T) {
	const fits, tooLong = 1<<20 - 64, 1<<20 + 64
	line := func(length int) string { return "b;2;" + strings.Repeat("x", length-4) + "\n" }
	name := file(t, "a;1\n"+line(fits)+"b;3\n")
	for _, mode := range modes {
		assert.EqualValues(t, 3, solve(t, 2, options{mode: mode, file: name}).Lines)
	}
	name = file(t, strings.Repeat("a;1\n", 1<<20)+line(tooLong)+"b;3\n")
	for _, ranks := range []int{1, 2, 3} {
		_, err := world(t, ranks, options{mode: modeGuarded, file: name})
		require.ErrorIs(t, err, chunk.ErrLineTooLong)
		assert.EqualError(t, err, name+": line 1048577: line too long: no end within 1048576 bytes")
	}
}

func TestWriteErrors(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip("no /dev/full here")
	}
	defer full.Close()
	name := file(t, "a;1\n")
	o := options{mode: modeNaive, file: name, layout: groupby.Layout{Key: 1, Value: 2, Separator: ';'}}
	err = work(t.Context(), inproc.World(1)[0], o, full)
	require.ErrorIs(t, err, syscall.ENOSPC)
	o.jsonFile = "/dev/full"
	err = work(t.Context(), inproc.World(1)[0], o, &bytes.Buffer{})
	require.ErrorIs(t, err, syscall.ENOSPC)
}

// In guarded mode a budget that is used up is a refusal that says so; a naive
// program does not ask.
func TestBudgetUsedUp(t *testing.T) {
	t.Setenv("MPIGUARD_LIMIT", "1MiB")
	name := file(t, "a;1\n")
	_, err := world(t, 4, options{mode: modeGuarded, file: name})
	require.ErrorIs(t, err, mpiguard.ErrRefused)
	assert.ErrorContains(t, err, "MPIGUARD_LIMIT")
	assert.NotContains(t, err.Error(), "\n")
	_, err = world(t, 4, options{mode: modeNaive, file: name})
	require.NoError(t, err)
}

func TestBadVariable(t *testing.T) {
	t.Setenv("MPIGUARD_LIMIT", "lots")
	for _, mode := range []string{modeGuarded, modeNaive, modeNone} {
		_, err := world(t, 4, options{mode: mode, file: file(t, "a;1\n")})
		require.ErrorContains(t, err, `MPIGUARD_LIMIT="lots"`)
	}
}

func TestModeNone(t *testing.T) {
	stdout, err := world(t, 2, options{mode: modeNone})
	require.NoError(t, err)
	assert.Empty(t, stdout)
}
