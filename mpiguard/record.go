package mpiguard

import (
	"cmp"
	"fmt"
	"log/slog"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/mpiguard/mpiguard/internal/blackbox"
)

// Phase marks the start of a stretch of the program, such as "assemble"; end marks
// its end. The record of Config.RecordDir, and the report made of it, show the
// high-water mark and the growth of each. Phases may overlap.
func (g *Guard) Phase(name string) (end func()) {
	done := g.recorder.Phase(time.Now(), name, g.proc.anon())
	return func() { done(time.Now(), g.proc.anon()) }
}

// startRecord begins the record of this rank. Without one the program runs on.
func (g *Guard) startRecord() {
	if g.cfg.RecordDir == "" {
		return
	}
	log := g.cfg.Logger.With("rank", g.rank, "dir", g.cfg.RecordDir)
	failed := func(err error) { log.Warn("memory is not recorded", "error", err) }
	w, err := blackbox.Create(g.cfg.RecordDir, g.recordHeader(), 0, failed)
	if err != nil {
		failed(err)
		return
	}
	if g.cfg.RecordCrash {
		g.recordCrash(w, log)
	}
	p := g.proc
	p.mu.Lock()
	defer p.mu.Unlock()
	g.recorder = w
	g.recordLimits(time.Now())
}

// recordCrash lets the Go runtime write what it says of a crash into the record.
func (g *Guard) recordCrash(w *blackbox.Writer, log *slog.Logger) {
	f, err := w.CrashOutput()
	if err == nil {
		err = debug.SetCrashOutput(f, debug.CrashOptions{})
		_ = f.Close() // the runtime has a duplicate
	}
	if err != nil {
		log.Warn("crashes are not recorded", "error", err)
	}
}

func (g *Guard) recordHeader() blackbox.Header {
	m := g.cfg.machine
	me, zero := g.peers[g.rank], g.peers[0]
	host := hostOf(g.proc.monitor.fsys)
	_, shared := g.comm.(SharedProcess)
	namespace, _ := os.Readlink("/proc/self/ns/pid")
	const first = "pid:[4026531836]" // the kernel gives its first PID namespace this inode (include/linux/proc_ns.h)
	program, _ := os.ReadFile("/proc/self/comm")
	h := blackbox.Header{
		Library: libraryVersion(), Run: fmt.Sprintf("%016x", constraintID(fmt.Sprint(zero.process), fmt.Sprint(zero.started))),
		Job: jobName(m.environ()), Host: me.host, BootID: host.bootID, Program: strings.TrimSpace(string(program)),
		Rank: g.rank, Size: len(g.peers), PID: int(me.pid), OwnPIDs: namespace != "" && namespace != first,
		Started: time.Unix(0, me.started), InProc: shared, InputBytes: g.cfg.InputBytes,
		BaselineBytes: g.proc.meter.heap.baselineBytes + g.proc.meter.offHeap.baselineBytes,
		KeepFree:      g.cfg.KeepFree, ElevatedAt: g.cfg.ElevatedAt, HighAt: g.cfg.HighAt, CriticalAt: g.cfg.CriticalAt,
	}
	for _, c := range g.Budget().Constraints {
		if c.Scope == ScopeCgroup {
			h.Cgroup = c.Path
			break
		}
	}
	return h
}

// libraryVersion is the version of this module in the program.
func libraryVersion() string {
	info, _ := debug.ReadBuildInfo()
	if info == nil {
		return ""
	}
	const module = "github.com/mpiguard/mpiguard"
	for _, d := range append(info.Deps, &info.Main) {
		if d.Path == module {
			return d.Version
		}
	}
	return ""
}

// jobName is what the scheduler calls the job.
func jobName(environ []string) string {
	for _, name := range []string{"SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "JOB_ID"} {
		if v, ok := lookup(environ, name); ok {
			return v
		}
	}
	return ""
}

// recordLimits says which limits the samples to come refer to: those that bind.
// The caller holds p.mu.
func (g *Guard) recordLimits(now time.Time) {
	if g.recorder == nil {
		return
	}
	p := g.proc
	b := p.budget.Load()
	var limits []blackbox.Limit
	p.recorded = p.recorded[:0]
	for i, c := range b.Constraints {
		if _, binds := p.view(b, i); !binds || len(limits) == blackbox.MaxLimits {
			continue
		}
		p.recorded = append(p.recorded, i)
		limits = append(limits, blackbox.Limit{
			Source: c.Source, Path: c.Path, Scope: blackbox.Scope(c.Scope), Kind: c.Kind.String(),
			ID: c.id, Ranks: c.Ranks, KeptFreeBytes: c.KeptFreeBytes(b.KeepFree),
		})
	}
	g.recorder.Limits(now, limits)
}

// record writes the last sample into the records of the guards. The caller holds
// p.mu.
func (p *process) record(d depth, leftBytes int64, binding int) {
	u := p.meter.last
	b := p.budget.Load()
	for _, g := range p.guards {
		if g.recorder == nil {
			continue
		}
		s := blackbox.Sample{
			At: u.At, AnonBytes: u.AnonBytes, ShmemBytes: u.ShmemBytes, FileBytes: u.FileBytes, HighWaterBytes: u.PeakBytes,
			GoBytes: u.GoBytes, NonGoBytes: u.NonGoBytes, ReservedBytes: g.reservedBytes(),
			UntouchedBytes: u.UntouchedBytes, UnaccountedBytes: u.UnaccountedBytes, HeadroomBytes: leftBytes,
			OOMKills: p.kills(), Level: p.ladder.level, Binding: -1,
		}
		for k, i := range p.recorded {
			limit, used := b.Constraints[i].LimitBytes, p.used[i]
			if d < fresh && far(used, limit) { // an upper bound, page cache included
				used = UnknownBytes
			}
			s.Limits[k] = blackbox.LimitUse{LimitBytes: limit, UsedBytes: used}
			if i == binding {
				s.Binding = k
			}
		}
		g.recorder.Sample(&s)
		if g.recorder.HoldersDue(u.At) {
			g.recorder.Holders(g.holders(u.At))
		}
	}
}

// holders are the largest reservations of this rank.
func (g *Guard) holders(now time.Time) blackbox.Holders {
	h := blackbox.Holders{At: now}
	for owner, n := range g.proc.pool.All() {
		if r := owner.(*Reservation); r.guard == g && n > 0 {
			h.Count++
			h.SumBytes += n
			h.Top = append(h.Top, blackbox.Holder{Name: r.name, SizeBytes: n})
		}
	}
	slices.SortStableFunc(h.Top, func(a, b blackbox.Holder) int { return cmp.Compare(b.SizeBytes, a.SizeBytes) })
	h.Top = h.Top[:min(len(h.Top), blackbox.MaxHolders)]
	return h
}
