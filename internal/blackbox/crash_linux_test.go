package blackbox

import (
	"bytes"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/mpiguard/mpiguard/internal/lab"
)

// The test binary is also the rank that is killed, or crashes.
const (
	roleEnv = "BLACKBOX_TEST_ROLE"
	dirEnv  = "BLACKBOX_TEST_DIR"
)

func TestMain(m *testing.M) {
	switch os.Getenv(roleEnv) {
	case "":
		os.Exit(m.Run())
	case "record":
		recordForever(os.Getenv(dirEnv))
	case "crash":
		crash(os.Getenv(dirEnv))
	case "leave":
		w, err := Create(os.Getenv(dirEnv), testHeader(), MinSizeBytes, nil)
		if err != nil {
			panic(err)
		}
		s := sampleOf(1)
		w.Sample(&s)
		os.Exit(3)
	}
}

func child(t *testing.T, role, dir string) *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), roleEnv+"="+role, dirEnv+"="+dir)
	return cmd
}

// progress is shared memory in which the child counts the samples that Sample
// has returned from.
func progress(dir string) (*atomic.Uint64, error) {
	f, err := os.OpenFile(filepath.Join(dir, "progress"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if err := f.Truncate(8); err != nil {
		return nil, err
	}
	mem, err := unix.Mmap(int(f.Fd()), 0, 8, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, err
	}
	return (*atomic.Uint64)(unsafe.Pointer(&mem[0])), nil
}

func recordForever(dir string) {
	done, err := progress(dir)
	if err != nil {
		panic(err)
	}
	w, err := Create(dir, testHeader(), MinSizeBytes, func(err error) { panic(err) })
	if err != nil {
		panic(err)
	}
	for n := 1; ; n++ {
		s := sampleOf(n)
		w.Sample(&s)
		done.Store(uint64(n))
		if n%64 == 0 {
			w.Transition(Transition{At: s.At, Reason: "r"})
			w.Holders(Holders{At: s.At, Top: []Holder{{"h", int64(n)}}})
		}
	}
}

// A rank that is killed at any moment leaves every sample that Sample has
// returned from, as far as the ring reaches, and none that is torn.
func TestKilledAtAnyMoment(t *testing.T) {
	kills := 50
	if os.Getenv("MPIGUARD_LONG") != "" {
		kills = 500
	}
	torn := 0
	for range kills {
		dir := t.TempDir()
		done, err := progress(dir)
		require.NoError(t, err)
		cmd := child(t, "record", dir)
		require.NoError(t, cmd.Start())
		for done.Load() == 0 {
			time.Sleep(50 * time.Microsecond)
		}
		time.Sleep(time.Duration(rand.IntN(3000)) * time.Microsecond)
		require.NoError(t, cmd.Process.Kill())
		_ = cmd.Wait()

		files, errs := readDir(dir)
		require.Empty(t, errs)
		require.Len(t, files, 1)
		f := files[0]
		require.False(t, f.Held)
		require.Nil(t, f.Close)
		require.LessOrEqual(t, f.Damage.Slots, slotsOf[kindTransition], "the one record that was being written")
		torn += f.Damage.Slots

		last := int(done.Load())
		var ring Writer
		ring.layOut(MinSizeBytes / slotBytes)
		have := map[int]bool{}
		for _, s := range f.Samples {
			n := int(s.At.Sub(start) / time.Millisecond)
			require.Equal(t, bare(sampleOf(n)), bare(s), "torn")
			have[n] = true
		}
		// The slot of the oldest may be the one that is being written over.
		for n := max(1, last-ring.recent.records+2); n <= last; n++ {
			require.True(t, have[n], "sample %d of %d is lost", n, last)
		}
	}
	t.Logf("%d kills, %d torn slots, all found", kills, torn)
}

// A process that ends without Close, but not by a signal, leaves its record too.
func TestLeftWithoutClose(t *testing.T) {
	dir := t.TempDir()
	_ = child(t, "leave", dir).Run()
	files, errs := readDir(dir)
	require.Empty(t, errs)
	require.Len(t, files, 1)
	assert.Nil(t, files[0].Close)
	assert.Empty(t, files[0].Crash)
	assert.False(t, files[0].Held)
	assert.Len(t, files[0].Samples, 1)
}

func crash(dir string) {
	w, err := Create(dir, testHeader(), MinSizeBytes, nil)
	if err != nil {
		panic(err)
	}
	out, err := w.CrashOutput()
	if err != nil {
		panic(err)
	}
	if err := debug.SetCrashOutput(out, debug.CrashOptions{}); err != nil {
		panic(err)
	}
	out.Close()
	s := sampleOf(1)
	w.Sample(&s)
	panic("boom")
}

func TestCrashTextIsAppended(t *testing.T) {
	dir := t.TempDir()
	_ = child(t, "crash", dir).Run()
	files, errs := readDir(dir)
	require.Empty(t, errs)
	require.Len(t, files, 1)
	assert.Contains(t, files[0].Crash, "panic: boom")
	assert.Contains(t, files[0].Crash, "crash_linux_test.go")
	assert.Equal(t, Damage{}, files[0].Damage)
	assert.Len(t, files[0].Samples, 1)
}

// failures counts what the Writer reports.
type failures []error

func (f *failures) add(err error) { *f = append(*f, err) }

// use calls all that writes, some times.
func use(w *Writer) {
	for n := range 400 {
		s := sampleOf(n)
		w.Sample(&s)
		w.Transition(Transition{At: s.At})
		w.Holders(Holders{At: s.At})
		w.Phase(s.At, "p", 1)(s.At, 1)
		w.Limits(s.At, []Limit{{ID: 1}})
	}
	w.Close(start, "")
}

func TestFileCutShortUnderTheMapping(t *testing.T) {
	for _, length := range []int64{0, 1, 4096, 40_000} {
		t.Run(strconv.FormatInt(length, 10), func(t *testing.T) {
			var failed failures
			w, err := Create(t.TempDir(), testHeader(), MinSizeBytes, failed.add)
			require.NoError(t, err)
			if w.store.mem == nil {
				t.Skip("this file system cannot be mapped with its space allocated")
			}
			s := sampleOf(1)
			w.Sample(&s)
			require.NoError(t, os.Truncate(w.path, length))
			use(w)
			require.Len(t, failed, 1, "reported once")
			assert.ErrorContains(t, failed[0], w.path)
			if length > 4096 {
				f := read(t, w)
				assert.Equal(t, int64(MinSizeBytes)-length, f.Damage.MissingBytes)
			}
		})
	}
}

// While the file is cut short by another goroutine at some moment, nothing but
// the recording ends.
func TestFileCutShortMeanwhile(t *testing.T) {
	for range 30 {
		var failed failures
		w, err := Create(t.TempDir(), testHeader(), MinSizeBytes, failed.add)
		require.NoError(t, err)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			time.Sleep(time.Duration(rand.IntN(300)) * time.Microsecond)
			_ = os.Truncate(w.path, 0)
		}()
		use(w)
		<-ended
		assert.LessOrEqual(t, len(failed), 1)
	}
}

// mount mounts a file system on a directory that goes with the test.
func mount(t *testing.T, fstype, options string) string {
	t.Helper()
	dir := t.TempDir()
	err := unix.Mount("none", dir, fstype, 0, options)
	lab.Need(t, err == nil, "mounting needs root")
	t.Cleanup(func() { assert.NoError(t, unix.Unmount(dir, 0)) })
	return dir
}

func TestFullDisk(t *testing.T) {
	dir := mount(t, "tmpfs", "size=256k,mode=700")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "fill"), make([]byte, 128<<10), 0o600))
	_, err := Create(dir, testHeader(), 256<<10, nil)
	require.ErrorIs(t, err, syscall.ENOSPC)
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Len(t, left, 1, "nothing is left behind")

	// What was allocated stays: a disk that fills up later does no harm.
	w, err := Create(dir, testHeader(), MinSizeBytes, func(err error) { t.Error(err) })
	require.NoError(t, err)
	_ = os.WriteFile(filepath.Join(dir, "fill2"), make([]byte, 256<<10), 0o600)
	use(w)
	assert.Equal(t, Damage{}, read(t, w).Damage)
}

// A file system without fallocate is written with a system call for each record.
func TestWithoutFallocate(t *testing.T) {
	dir := mount(t, "ramfs", "mode=700")
	w, err := Create(dir, testHeader(), MinSizeBytes, func(err error) { t.Error(err) })
	require.NoError(t, err)
	assert.Nil(t, w.store.mem)
	use(w)
	f := read(t, w)
	assert.Equal(t, Damage{}, f.Damage)
	assert.NotNil(t, f.Close)
}

func TestWriteFails(t *testing.T) {
	var failed failures
	w, err := Create(t.TempDir(), testHeader(), MinSizeBytes, failed.add)
	require.NoError(t, err)
	require.NoError(t, w.store.unmap())
	require.NoError(t, w.store.file.Close())
	use(w)
	require.Len(t, failed, 1, "reported once")
	assert.ErrorIs(t, failed[0], os.ErrClosed)
}

func TestReadOnlyFolder(t *testing.T) {
	dir := mount(t, "tmpfs", "mode=700")
	require.NoError(t, unix.Mount("none", dir, "tmpfs", unix.MS_REMOUNT|unix.MS_RDONLY, ""))
	_, err := Create(dir, testHeader(), 0, nil)
	assert.ErrorIs(t, err, syscall.EROFS)
}

func TestFolderOfAnotherUser(t *testing.T) {
	dir := t.TempDir()
	lab.Need(t, os.Chown(dir, 12345, 12345) == nil, "giving a directory away needs root")
	_, err := Create(dir, testHeader(), 0, nil)
	assert.ErrorContains(t, err, "belongs to another user")
}

// A reader of a file that is being written sees whole samples.
func TestReadWhileWritten(t *testing.T) {
	dir := t.TempDir()
	cmd := child(t, "record", dir)
	require.NoError(t, cmd.Start())
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	for range 200 {
		files, _ := readDir(dir)
		for _, f := range files {
			for _, s := range f.Samples {
				require.Equal(t, bare(sampleOf(int(s.At.Sub(start)/time.Millisecond))), bare(s))
			}
		}
	}
}

// The checksum is the primitive that bounds a record.
func BenchmarkChecksum(b *testing.B) {
	buf := bytes.Repeat([]byte{7}, slotBytes)
	for b.Loop() {
		seal(buf, kindSample, 1)
	}
}
