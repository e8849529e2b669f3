// Package blackbox is the flight recorder of a rank: a file of fixed size that
// holds what the rank last measured, however it ended. FORMAT.md describes it.
package blackbox

import (
	"time"

	"github.com/mpiguard/mpiguard/internal/level"
)

// Header says whose record a file is.
type Header struct {
	Library   string // version of the library that wrote the file
	Run       string // equal for all ranks of one run, and for no other run
	Job       string // the scheduler's name for the job, if there is one
	Host      string
	BootID    string // of the kernel
	Program   string // the name of the process as the kernel has it, at most 15 bytes
	Cgroup    string // the memory cgroup of the process within its hierarchy
	Rank      int
	Size      int // ranks of the communicator
	PID       int
	OwnPIDs   bool // PID is one of a PID namespace: the kernel's log has another
	Started   time.Time
	InProc    bool // the ranks are goroutines of one process
	FileBytes int64
	Locked    bool // the writer holds a lock on the file as long as it lives

	InputBytes    int64 // the size of what the run works on, 0 if nobody said
	BaselineBytes int64 // private memory when the guard was made

	KeepFree                       float64
	ElevatedAt, HighAt, CriticalAt float64
}

// Scope is the set of processes that a limit counts.
type Scope uint8

// The scopes.
const (
	ScopeProcess Scope = iota
	ScopeCgroup
	ScopeJob
	ScopeNode
)

// MaxLimits is how many limits a sample can hold.
const MaxLimits = 5

// Limit describes one limit of a LimitSet.
type Limit struct {
	Source, Path  string
	Scope         Scope
	Kind          string // hard, soft or advisory
	ID            uint64 // equal wherever the same limit is meant
	Ranks         int    // of the run, under the limit
	KeptFreeBytes int64
}

// LimitSet are the limits that the samples from At on refer to by index.
type LimitSet struct {
	At     time.Time
	Number int // 1, 2, 3 …; see Sample.LimitSet
	Limits []Limit
}

// LimitUse is how one limit stands in a sample.
type LimitUse struct {
	LimitBytes    int64 `json:"limit_bytes"`
	UsedBytes     int64 `json:"used_bytes"`
	PeakUsedBytes int64 `json:"peak_used_bytes"` // of all samples so far; filled in by the Writer
}

// Sample is what a rank measured at a moment.
type Sample struct {
	At               time.Time           `json:"at"`
	AnonBytes        int64               `json:"anon_bytes"`
	ShmemBytes       int64               `json:"shmem_bytes"`
	FileBytes        int64               `json:"file_bytes"`
	HighWaterBytes   int64               `json:"high_water_bytes"` // of the resident set: VmHWM
	GoBytes          int64               `json:"go_bytes"`
	NonGoBytes       int64               `json:"non_go_bytes"`
	ReservedBytes    int64               `json:"reserved_bytes"`
	UntouchedBytes   int64               `json:"untouched_bytes"`
	UnaccountedBytes int64               `json:"unaccounted_bytes"`
	HeadroomBytes    int64               `json:"headroom_bytes"`
	ChunkBytes       int64               `json:"chunk_bytes"` // 0 where nothing is read in chunks
	OOMKills         int64               `json:"oom_kills"`   // by the kernel in the groups of the process since the guard was made
	Level            level.Level         `json:"level"`
	Binding          int                 `json:"binding"` // index of the limit that leaves the least, -1 for none
	Limits           [MaxLimits]LimitUse `json:"limits"`

	// What follows is filled in by the Writer.
	Number        uint64 `json:"number"`
	LimitSet      int    `json:"limit_set"`       // number of the LimitSet that Limits and Binding refer to, 0 for none
	PeakAnonBytes int64  `json:"peak_anon_bytes"` // of all samples so far
}

// Transition is a change of the level.
type Transition struct {
	At     time.Time   `json:"at"`
	From   level.Level `json:"from"`
	To     level.Level `json:"to"`
	Reason string      `json:"reason"`
}

// Phase is a stretch of the program.
type Phase struct {
	Name           string    `json:"name"`
	Start          time.Time `json:"start"`
	End            time.Time `json:"end,omitzero"` // End is zero while it lasts
	StartAnonBytes int64     `json:"start_anon_bytes"`
	EndAnonBytes   int64     `json:"end_anon_bytes"`
	PeakAnonBytes  int64     `json:"peak_anon_bytes"`
}

// MaxHolders is how many reservations a Holders record names.
const MaxHolders = 8

// Holder is a reservation.
type Holder struct {
	Name      string
	SizeBytes int64
}

// Holders are the largest reservations of a rank at a moment.
type Holders struct {
	At       time.Time
	Count    int // of all reservations
	SumBytes int64
	Top      []Holder // the largest first
}

// Close is the mark of a guard that was closed.
type Close struct {
	At    time.Time
	Error string // what Close returned, empty for nil
}
