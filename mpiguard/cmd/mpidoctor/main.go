// Command mpidoctor examines an MPI job before its work begins. It is started as
// the job will be:
//
//	mpirun -n 64 mpidoctor
//	srun -N 4 --ntasks-per-node=16 mpidoctor -strict && srun ... ./program
//
// Rank 0 prints what limits the memory of each node and why, the share of each
// rank, what the ranks have (MPI library, thread level, limits on locked memory
// and open files), what the nodes have (/dev/shm and what dead jobs have left in
// it, processes that share the limit with the ranks), how the nodes reach each
// other, and what is wrong with all that. A rank that does not answer is named,
// not waited for. Nothing is changed or removed.
//
// The exit code is 0, 1 where there are warnings and -strict was given, or 2
// where there are errors, or for a wrong command line.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/mpiguard/mpiguard/internal/doctor"
)

// options are the command line.
type options struct {
	Strict   bool          `name:"strict" help:"Exit with 1 where there are warnings."`
	JSON     bool          `name:"json" help:"Write JSON: ranks, nodes, links, network, silent, findings."`
	Deadline time.Duration `name:"deadline" default:"20s" placeholder:"DURATION" help:"When a rank that does not answer is named. The start of MPI may take three times that (default: ${default})."`
}

// The exit codes.
const (
	exitWarnings = 1
	exitErrors   = 2
)

func init() { runtime.LockOSThread() } // MPI is called from the thread that started it

func main() {
	o, code, ok := parse(os.Args[1:], os.Stdout, os.Stderr)
	if !ok {
		os.Exit(code)
	}
	os.Exit(o.start())
}

// parse reads the command line. Not ok: exit with the code.
func parse(args []string, stdout, stderr io.Writer) (o options, code int, ok bool) {
	exited := -1
	parser := kong.Must(&o,
		kong.Name("mpidoctor"),
		kong.Description("Examines an MPI job before its work begins: start it with mpirun or srun, as the job will be. Flags may have one dash or two. The exit code is 0, 1 with -strict where there are warnings, or 2 where there are errors."),
		kong.Writers(stdout, stderr),
		kong.Exit(func(code int) { exited = code }), // after -help
	)
	_, err := parser.Parse(twoDashes(args))
	if exited >= 0 {
		return o, exited, false
	}
	if err == nil && o.Deadline <= 0 {
		err = fmt.Errorf("-deadline is %v, want more than 0", o.Deadline)
	}
	if err != nil {
		if rank := launched(os.Environ()); rank == "" || rank == "0" { // one for all
			fmt.Fprintf(stderr, "mpidoctor: %v (see mpidoctor -help)\n", err)
		}
		return o, exitErrors, false
	}
	return o, 0, true
}

// twoDashes lets a flag have one dash, as the tools of Go do; none has a name of
// one letter.
func twoDashes(args []string) []string {
	out := make([]string, len(args))
	for i, a := range args {
		if len(a) > 2 && a[0] == '-' && a[1] != '-' {
			a = "-" + a
		}
		out[i] = a
	}
	return out
}

// launched is the rank by what launchers say before MPI runs, "" if none does.
func launched(environ []string) string {
	for _, key := range []string{"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"} {
		for _, kv := range environ {
			if v, ok := strings.CutPrefix(kv, key+"="); ok && v != "" {
				return v
			}
		}
	}
	return ""
}

// write prints the report and returns the exit code that it stands for.
func (o options) write(w io.Writer, r *doctor.Report) (code int) {
	var err error
	if o.JSON {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		err = e.Encode(r)
	} else {
		_, err = io.WriteString(w, r.Text())
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "mpidoctor: %v\n", err)
		return exitErrors
	}
	switch worst, found := doctor.Worst(r.Findings()); {
	case found && worst == doctor.Failure:
		return exitErrors
	case found && o.Strict:
		return exitWarnings
	}
	return 0
}
