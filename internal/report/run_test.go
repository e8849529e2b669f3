package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mpiguard/mpiguard/internal/blackbox"
	"github.com/mpiguard/mpiguard/internal/kernellog"
	"github.com/mpiguard/mpiguard/internal/level"
)

const mib = 1 << 20

var began = time.Date(2026, 12, 1, 12, 3, 1, 0, time.UTC)

// script is a run that is made up: the memory of each rank over time.
type script struct {
	ranks   int
	limit   int64
	lasts   time.Duration
	every   time.Duration
	inProc  bool
	anon    func(rank int, t time.Duration) int64
	holders func(rank int, t time.Duration) []blackbox.Holder
	// seen is the number of kills that a rank sees; nil is none.
	seen func(rank int, t time.Duration) int64
	// until is when the last sample of a rank was taken; nil is the end.
	until  func(rank int) time.Duration
	closed bool
	phases bool
	boot   string
}

func (s script) header(rank int) blackbox.Header {
	h := blackbox.Header{
		Library: "v0.1.0", Run: "5f3c9a12", Job: "4711", Host: "n2", BootID: s.boot, Program: "csvstats", Cgroup: "/job_4711",
		Rank: rank, Size: s.ranks, PID: 4000 + rank, Started: began, InProc: s.inProc, BaselineBytes: 8 * mib,
		KeepFree: 0.08, ElevatedAt: 0.7, HighAt: 0.85, CriticalAt: 0.95,
	}
	if s.inProc {
		h.PID = 4000
	}
	return h
}

// record plays the script into real records and reads them back.
func (s script) record(t testing.TB) []*blackbox.File {
	t.Helper()
	dir := t.TempDir()
	keptFree := max(s.limit*8/100, 8*mib)
	for rank := range s.ranks {
		w, err := blackbox.Create(dir, s.header(rank), 256<<10, func(err error) { t.Error(err) })
		require.NoError(t, err)
		w.Limits(began, []blackbox.Limit{{Source: "cgroup v2 memory.max", Path: "/job_4711", Scope: blackbox.ScopeCgroup, Kind: "hard", ID: 7, Ranks: s.ranks, KeptFreeBytes: keptFree}})
		until := s.lasts
		if s.until != nil {
			until = s.until(rank)
		}
		now := level.Normal
		var end func(time.Time, int64)
		for d := time.Duration(0); d <= until; d += s.every {
			at := began.Add(d)
			var used int64
			for r := range s.ranks {
				if s.until == nil || d <= s.until(r) {
					used += s.anon(r, d)
				}
			}
			anon := s.anon(rank, d)
			if s.inProc {
				anon = used
			}
			used += 6 * mib
			sample := blackbox.Sample{
				At: at, AnonBytes: anon, ShmemBytes: 4 * mib, FileBytes: 2 * mib, HighWaterBytes: anon + 6*mib,
				GoBytes: anon - 3*mib, NonGoBytes: 3 * mib, Binding: 0,
				HeadroomBytes: s.limit - keptFree - used,
				Limits:        [blackbox.MaxLimits]blackbox.LimitUse{{LimitBytes: s.limit, UsedBytes: used}},
			}
			var hs []blackbox.Holder
			if s.holders != nil {
				hs = s.holders(rank, d)
			}
			for _, h := range hs {
				sample.ReservedBytes += h.SizeBytes
			}
			if s.inProc {
				sample.ReservedBytes = s.anon(rank, d)
			}
			sample.UnaccountedBytes = anon - 8*mib - sample.ReservedBytes
			if s.seen != nil {
				sample.OOMKills = s.seen(rank, d)
			}
			pressure := float64(used) / float64(s.limit-keptFree)
			to := level.Normal
			for l, p := range map[level.Level]float64{level.Elevated: 0.7, level.High: 0.85, level.Critical: 0.95} {
				if pressure >= p {
					to = max(to, l)
				}
			}
			if to != now {
				w.Transition(blackbox.Transition{At: at, From: now, To: to, Reason: fmt.Sprintf("group /job_4711: %d MiB used", used/mib)})
				now = to
			}
			sample.Level = now
			if s.phases && d == 0 {
				end = w.Phase(at, "read", anon)
			}
			w.Sample(&sample)
			if s.phases && end != nil && d >= s.lasts/3 {
				end(at, anon)
				end = nil
				w.Phase(at, "assemble", anon)
			}
			if hs != nil && w.HoldersDue(at) {
				w.Holders(blackbox.Holders{At: at, Count: len(hs), SumBytes: sample.ReservedBytes, Top: hs})
			}
		}
		if s.closed {
			w.Close(began.Add(until), "")
		}
	}
	var files []*blackbox.File
	for f, err := range blackbox.Files(dir) {
		require.NoError(t, err)
		files = append(files, f)
	}
	for _, f := range files {
		f.Held = false // the Writers of this test live
		f.Header.Locked = true
	}
	return files
}

func (s script) run(t testing.TB, e Evidence) *Run {
	t.Helper()
	var c Collection
	for _, f := range s.record(t) {
		c.Add(f)
	}
	runs := c.Runs(e)
	require.Len(t, runs, 1)
	return runs[0]
}

// grow is the memory of the job of which the README tells: rank 3's hash table
// grows until the kernel kills it.
var grow = script{
	ranks: 4, limit: 200 * mib, lasts: 6400 * time.Millisecond, every: 20 * time.Millisecond, boot: "b", phases: true,
	anon: func(rank int, t time.Duration) int64 {
		base := int64(38+rank) * mib * min(int64(t), int64(time.Second)) / int64(time.Second)
		if grown := t - 4400*time.Millisecond; rank == 3 && grown > 0 {
			base += int64(grown) * 33 * mib / int64(2*time.Second)
		}
		return base + int64(float64(mib)*math.Sin(float64(rank)+t.Seconds()*5))
	},
	holders: func(rank int, t time.Duration) []blackbox.Holder {
		hs := []blackbox.Holder{{Name: "read buffers", SizeBytes: 8 * mib}}
		if rank == 3 {
			n := int64(4 * mib)
			if grown := t - 4400*time.Millisecond; grown > 0 {
				n += int64(grown) * 33 * mib / int64(2*time.Second)
			}
			hs = append([]blackbox.Holder{{Name: "hash table", SizeBytes: n}}, hs...)
		}
		return hs
	},
}

func here(e Evidence) Evidence {
	e.BootID, e.Now = "b", began.Add(time.Minute)
	return e
}

func killOf(pid int) kernellog.Kill {
	return kernellog.Kill{At: began.Add(6410 * time.Millisecond), PID: pid, Program: "csvstats", Cgroup: "/job_4711", LimitCgroup: "/job_4711"}
}

// logs is the log of the kernel on which the ranks ran.
func logs(kills ...kernellog.Kill) []Log {
	return []Log{{BootID: "b", Since: began.Add(-time.Hour), Kills: kills}}
}

func fatesOf(run *Run) (fates []Fate) {
	for _, n := range run.Nodes {
		for _, r := range n.Ranks {
			fates = append(fates, r.Fate)
		}
	}
	return fates
}

func TestStoryByTheKernelsLog(t *testing.T) {
	run := grow.run(t, here(Evidence{Logs: logs(killOf(4003))}))
	assert.Equal(t, []Fate{Ended, Ended, Ended, OOMKilled}, fatesOf(run))
	assert.Equal(t, []string{
		`rank 3 on n2 was OOM-killed at 12:03:07.4: group /job_4711 limit 200 MiB, ranks held 39, 40, 41, 74 MiB, MPI and native 12 MiB of it; ` +
			`"hash table" had grown 33 MiB in the last 2.0 s`,
		"ranks 0-2 on n2 ended without Close: os.Exit or a signal, such as the launcher's",
	}, run.Story)
	assert.Equal(t, "its process is gone, and the kernel's log has no kill of it", run.Nodes[0].Ranks[0].Because)
}

// What does not agree in all that is known is no kill of the rank.
func TestKillsOfOthers(t *testing.T) {
	for name, change := range map[string]func(*kernellog.Kill){
		"PID":     func(k *kernellog.Kill) { k.PID = 77 },
		"program": func(k *kernellog.Kill) { k.Program = "mpirun" },
		"group":   func(k *kernellog.Kill) { k.Cgroup = "/elsewhere" },
		"time":    func(k *kernellog.Kill) { k.At = k.At.Add(time.Hour) },
	} {
		t.Run(name, func(t *testing.T) {
			k := killOf(4003)
			change(&k)
			run := grow.run(t, here(Evidence{Logs: logs(k)}))
			assert.Equal(t, []Fate{Ended, Ended, Ended, Ended}, fatesOf(run))
			if name == "PID" {
				assert.Contains(t, run.Story[0], "the kernel killed process 77 (csvstats), which is no rank, on n2 at 12:03:07.4")
			}
		})
	}
}

func TestStoryByTheCount(t *testing.T) {
	sees := func(ranks ...int) func(int, time.Duration) int64 {
		return func(rank int, d time.Duration) int64 {
			for _, r := range ranks {
				if r == rank && d >= 6390*time.Millisecond {
					return 1
				}
			}
			return 0
		}
	}
	for _, c := range []struct {
		name     string
		seen     func(int, time.Duration) int64
		fates    []Fate
		suspects []int
		story    string
	}{
		{"nobody saw a kill", sees(), []Fate{Ended, Ended, Ended, Ended}, nil, "ranks 0-3 on n2 ended without Close: os.Exit or a signal (last sample at 12:03:07.4: "},
		{"three saw one", sees(0, 1, 2), []Fate{Ended, Ended, Ended, OOMKilled}, nil, "rank 3 on n2 was OOM-killed at 12:03:07.4: "},
		{"one saw one", sees(1), []Fate{Ended, Ended, Ended, Ended}, []int{0, 2, 3}, "the kernel killed 1 process for memory on n2, among ranks 0, 2, 3 (which, only the kernel's log could tell): group /job_4711 limit 200 MiB"},
		{"all saw one", sees(0, 1, 2, 3), []Fate{Ended, Ended, Ended, Ended}, nil, "the kernel killed 1 process for memory on n2 that was no rank of this run"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := grow
			s.seen = c.seen
			run := s.run(t, here(Evidence{}))
			assert.Equal(t, c.fates, fatesOf(run))
			assert.Equal(t, c.suspects, run.Nodes[0].Suspects)
			assert.Contains(t, run.Story[0], c.story)
			for _, r := range run.Nodes[0].Ranks { // nobody is told of twice
				if len(c.suspects) > 0 {
					assert.NotContains(t, strings.Join(run.Story[1:], "\n"), fmt.Sprint("ranks ", r.Rank, " "))
				}
			}
		})
	}
}

// The PIDs of a container are no evidence, and a log that begins after the end
// says nothing.
func TestLogsThatDoNotCount(t *testing.T) {
	files := grow.record(t)
	var c Collection
	for _, f := range files {
		f.Header.OwnPIDs = true
		c.Add(f)
	}
	run := c.Runs(here(Evidence{Logs: logs(killOf(4003))}))[0]
	assert.Equal(t, []Fate{Ended, Ended, Ended, Ended}, fatesOf(run))
	assert.Empty(t, run.Nodes[0].Others)

	late := logs()
	late[0].Since = began.Add(time.Hour)
	run = grow.run(t, here(Evidence{Logs: late}))
	assert.Equal(t, "its process is gone", run.Nodes[0].Ranks[0].Because)
}

// The kernel keeps 15 bytes of a program's name.
func TestKillOfALongName(t *testing.T) {
	f := grow.record(t)[3]
	f.Header.Program = "a-name-beyond-15-bytes"
	k := killOf(4003)
	k.Program = "a-name-beyond-1"
	var c Collection
	c.Add(f)
	assert.Equal(t, []Fate{OOMKilled}, fatesOf(c.Runs(here(Evidence{Logs: logs(k)}))[0]))
}

// A log of which nobody knows the kernel proves what it has, not what it lacks.
func TestLogOfAnotherMachine(t *testing.T) {
	k := killOf(4003)
	k.At = time.Time{}
	run := grow.run(t, here(Evidence{Logs: []Log{{Kills: []kernellog.Kill{k}}}}))
	assert.Equal(t, []Fate{Ended, Ended, Ended, OOMKilled}, fatesOf(run))
	assert.Equal(t, "its process is gone", run.Nodes[0].Ranks[0].Because)
	k.Cgroup = ""
	run = grow.run(t, here(Evidence{Logs: []Log{{Kills: []kernellog.Kill{k}}}}))
	assert.Equal(t, []Fate{Ended, Ended, Ended, Ended}, fatesOf(run), "a PID and a name are too little")
	run = grow.run(t, here(Evidence{Logs: []Log{{BootID: "other", Kills: []kernellog.Kill{killOf(4003)}}}}))
	assert.Equal(t, []Fate{Ended, Ended, Ended, Ended}, fatesOf(run), "of another kernel")
}

func TestFates(t *testing.T) {
	one := grow
	one.ranks = 1
	for _, c := range []struct {
		name   string
		change func(*blackbox.File)
		e      Evidence
		want   Fate
		says   string
	}{
		{"closed", func(f *blackbox.File) { f.Close = &blackbox.Close{At: began} }, here(Evidence{}), Closed, "closed"},
		{"closed with an error", func(f *blackbox.File) { f.Close = &blackbox.Close{At: began, Error: "not released"} }, here(Evidence{}), Closed, ""},
		{"crashed", func(f *blackbox.File) { f.Crash = "panic: boom\n\ngoroutine 1" }, here(Evidence{}), Crashed, "crashed at 12:03:07.4: panic: boom"},
		{"holds its record", func(f *blackbox.File) { f.Held = true }, here(Evidence{}), Running, "running"},
		{"gone", func(*blackbox.File) {}, here(Evidence{}), Ended, "ended without Close"},
		{"no lock, read at once elsewhere", func(f *blackbox.File) { f.Header.Locked = false }, Evidence{Now: began.Add(8 * time.Second)}, Running, ""},
		{"elsewhere, silent", func(*blackbox.File) {}, Evidence{Now: began.Add(30 * time.Second)}, Unknown, "is unknown: no sign of life for 24s"},
		{"elsewhere, long silent", func(*blackbox.File) {}, Evidence{Now: began.Add(time.Hour)}, Ended, ""},
		{"no lock, same kernel, silent", func(f *blackbox.File) { f.Header.Locked = false }, here(Evidence{}), Ended, ""},
		{"nothing in it", func(f *blackbox.File) { f.Samples = nil; f.Header.Locked = false }, here(Evidence{}), Unknown, "no sample can be read"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := one.record(t)[0]
			c.change(f)
			var col Collection
			col.Add(f)
			run := col.Runs(c.e)[0]
			assert.Equal(t, c.want, run.Nodes[0].Ranks[0].Fate)
			assert.Contains(t, run.Story[0], c.says)
			assert.NoError(t, run.Text(new(bytes.Buffer)))
			assert.NoError(t, HTML(new(bytes.Buffer), []*Run{run}))
			assert.NoError(t, run.SVG(new(bytes.Buffer)))
		})
	}
}

func TestRunsShareADirectory(t *testing.T) {
	var c Collection
	for i, id := range []string{"b-later", "a-earlier"} {
		for _, f := range grow.record(t)[:3-i] {
			f.Header.Run = id
			f.Header.Started = began.Add(time.Duration(-i) * time.Hour)
			c.Add(f)
		}
	}
	runs := c.Runs(here(Evidence{}))
	require.Len(t, runs, 2)
	assert.Equal(t, "a-earlier", runs[0].ID)
	assert.Equal(t, []int{2, 3}, runs[0].Missing)
	assert.Contains(t, runs[0].Story, "no record of ranks 2, 3")
}

func TestText(t *testing.T) {
	run := grow.run(t, here(Evidence{Logs: logs(killOf(4003))}))
	var b bytes.Buffer
	require.NoError(t, run.Text(&b))
	text := b.String()
	for _, want := range []string{
		"run 5f3c9a12, job 4711, csvstats: 4 ranks on 1 node, 2026-12-01 12:03:01 to 12:03:07 (6.4 s)",
		"n2: 4 ranks, 199 MiB of 200 MiB used at most, under cgroup v2 memory.max /job_4711",
		`rank 3: "hash table"`, `rank 0: "read"`, `rank 0: "assemble"`, "not ended", "-500ms",
	} {
		assert.Contains(t, text, want)
	}
	t.Log("\n" + text)
}

func TestJSON(t *testing.T) {
	run := grow.run(t, here(Evidence{}))
	b, err := json.Marshal(run)
	require.NoError(t, err)
	var back map[string]any
	require.NoError(t, json.Unmarshal(b, &back))
	assert.Equal(t, "5f3c9a12", back["run"])
	ranks := back["nodes"].([]any)[0].(map[string]any)["ranks"].([]any)
	assert.Equal(t, "ended without Close", ranks[0].(map[string]any)["fate"])
}

// crowd is 64 ranks in one process, which all close.
var crowd = script{
	ranks: 64, limit: 2 << 30, lasts: 90 * time.Second, every: 100 * time.Millisecond, boot: "b", inProc: true, closed: true, phases: true,
	anon: func(rank int, t time.Duration) int64 {
		return int64(12+8*math.Sin(float64(rank)/9+t.Seconds()/7)+0.1*t.Seconds()) * mib
	},
}

func TestPages(t *testing.T) {
	keep := os.Getenv("MPIGUARD_PICTURES") // where to leave the pages for a look at them
	for name, c := range map[string]struct {
		s script
		e Evidence
	}{
		"killed":  {grow, here(Evidence{Logs: logs(killOf(4003))})},
		"crowded": {crowd, here(Evidence{})},
	} {
		t.Run(name, func(t *testing.T) {
			run := c.s.run(t, c.e)
			var page, svg bytes.Buffer
			require.NoError(t, HTML(&page, []*Run{run}))
			require.NoError(t, run.SVG(&svg))
			t.Logf("page %d KiB, picture %d KiB", page.Len()>>10, svg.Len()>>10)
			assert.Less(t, page.Len(), 1<<20)
			for _, outside := range []string{"http://", "https://", "src=", "@import", "url("} {
				assert.NotContains(t, page.String(), outside, "the page needs no network")
			}
			assert.NotContains(t, page.String()+svg.String(), "NaN")
			assert.NotContains(t, page.String(), "ZgotmplZ")
			if keep != "" {
				require.NoError(t, os.WriteFile(filepath.Join(keep, name+".html"), page.Bytes(), 0o600))
				require.NoError(t, os.WriteFile(filepath.Join(keep, name+".svg"), svg.Bytes(), 0o600))
			}
		})
	}
}

// What comes from a record is text, never markup.
func TestMarkupIsEscaped(t *testing.T) {
	f := grow.record(t)[0]
	const evil = `</text><script>alert(1)</script>`
	f.Header.Host, f.Header.Program, f.Header.Run = evil, evil, evil
	f.Phases[0].Name, f.Holders[len(f.Holders)-1].Top[0].Name = evil, evil
	f.Transitions = append(f.Transitions, blackbox.Transition{At: began.Add(time.Second), Reason: evil})
	f.LimitSets[0].Limits[0].Path = evil
	var c Collection
	c.Add(f)
	runs := c.Runs(here(Evidence{}))
	var b bytes.Buffer
	require.NoError(t, HTML(&b, runs))
	require.NoError(t, runs[0].SVG(&b))
	assert.NotContains(t, b.String(), "<script>")
}

func TestWords(t *testing.T) {
	assert.Equal(t, "61, 58, 0, 9.5 MiB", sizes([]int64{61 * mib, 58 * mib, 0, 9.5 * mib}))
	assert.Equal(t, "12 B", sizes([]int64{12}))
	assert.Equal(t, "rank 3", rankList([]int{3}))
	assert.Equal(t, "ranks 0-2, 5, 7, 8", rankList([]int{8, 2, 1, 0, 5, 7}))
	assert.Equal(t, "unknown", size(-1))
	assert.Equal(t, "unlimited", size(math.MaxInt64))
	assert.Equal(t, "-1.0 MiB", size(-mib))
	assert.Equal(t, "aaa bbb\n  ccc", wrap("aaa bbb  ccc", 8))
}
