package mpiguard

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mpiguard/mpiguard/internal/blackbox"
)

func TestRecord(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "record")
	g, err := New(context.Background(), nil, Config{LimitBytes: 4 << 30, RecordDir: dir, InputBytes: 77})
	require.NoError(t, err)
	end := g.Phase("assemble")
	r, err := g.TryReserve("hash table", 5<<20)
	require.NoError(t, err)
	time.Sleep(50 * time.Millisecond)
	end()
	sums := g.proc.untouched()
	g.proc.mu.Lock()
	g.proc.observe(full)
	left, binding := g.proc.left(&sums)
	g.proc.record(full, left, binding)
	g.proc.mu.Unlock()
	r.Release()
	require.NoError(t, g.Close())

	files := 0
	for f, err := range blackbox.Files(dir) {
		require.NoError(t, err)
		files++
		assert.Equal(t, os.Getpid(), f.Header.PID)
		assert.EqualValues(t, 77, f.Header.InputBytes)
		assert.NotEmpty(t, f.Header.Run)
		require.NotNil(t, f.Close)
		assert.Empty(t, f.Close.Error)
		require.NotEmpty(t, f.Samples)
		s := f.Samples[len(f.Samples)-1]
		assert.EqualValues(t, 5<<20, s.ReservedBytes)
		assert.Positive(t, s.AnonBytes)
		limit, ok := f.Limit(&s, s.Binding)
		require.True(t, ok)
		assert.Equal(t, "Config.LimitBytes", limit.Source)
		assert.Equal(t, int64(4<<30), s.Limits[s.Binding].LimitBytes)
		require.Len(t, f.Phases, 1)
		assert.Equal(t, "assemble", f.Phases[0].Name)
	}
	assert.Equal(t, 1, files)
}

// A directory that cannot be used is told once, and the program runs on.
func TestRecordThatCannotBe(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	var log bytes.Buffer
	g, err := New(context.Background(), nil, Config{RecordDir: file, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	require.NoError(t, err)
	g.Phase("runs on")()
	require.NoError(t, g.Close())
	assert.Equal(t, 1, bytes.Count(log.Bytes(), []byte("memory is not recorded")))
	assert.Contains(t, log.String(), file)
}

func BenchmarkRecord(b *testing.B) {
	g, err := New(context.Background(), nil, Config{RecordDir: b.TempDir()})
	require.NoError(b, err)
	defer g.Close()
	b.ReportAllocs()
	g.proc.mu.Lock()
	defer g.proc.mu.Unlock()
	for b.Loop() {
		g.proc.record(fresh, 1<<30, 0)
	}
}
