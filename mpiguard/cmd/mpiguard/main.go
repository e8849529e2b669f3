// Command mpiguard says what limits the memory of a process, and why. It needs
// no MPI, so that it runs on a login node.
//
//	mpiguard explain                  the budget of a process started here
//	mpiguard explain -pid 1234        of a running process
//	mpiguard explain -capture DIR     saves the files that decide, for a report
//	mpiguard explain -root DIR        the budget on a machine that was saved
//	mpiguard report DIR               the story of a run that was recorded
//	mpiguard recommend DIR...         how much memory to ask for, by recorded runs
//
// The exit code is 0, 1 when something failed, or 2 for a wrong command line.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/alecthomas/kong"
)

// cli are the subcommands, one file each.
type cli struct {
	Explain explain `cmd:"" help:"Show what limits the memory of a process, and why."`

	Report    reportCommand    `cmd:"" help:"Tell the story of a run of what its ranks recorded: who died, of what, who held how much."`
	Recommend recommendCommand `cmd:"" help:"Say how much memory to ask for, by recorded runs."`
}

// streams are where a subcommand writes to.
type streams struct{ out, err io.Writer }

func main() {
	os.Exit(run(os.Args[1:], streams{os.Stdout, os.Stderr}))
}

// run executes a command line and returns the exit code.
func run(args []string, s streams) int {
	exited := -1
	parser := kong.Must(&cli{},
		kong.Name("mpiguard"),
		kong.Description("Memory budgets of MPI programs. Flags may have one dash or two."),
		kong.Writers(s.out, s.err),
		kong.Exit(func(code int) { exited = code }), // after -help
	)
	ctx, err := parser.Parse(twoDashes(args))
	if exited >= 0 {
		return exited
	}
	if err != nil {
		fmt.Fprintf(s.err, "mpiguard: %v (see mpiguard -help)\n", err)
		return 2
	}
	err = ctx.Run(s)
	var usage usageError
	switch {
	case errors.As(err, &usage):
		fmt.Fprintf(s.err, "mpiguard: %v\n", err)
		return 2
	case err != nil:
		fmt.Fprintf(s.err, "mpiguard: %v\n", err)
		return 1
	}
	return 0
}

// usageError is a command line that can be parsed and makes no sense.
type usageError string

func (e usageError) Error() string { return string(e) }

// twoDashes lets a flag have one dash, as the tools of Go do; none has a name of
// one letter.
func twoDashes(args []string) []string {
	out := make([]string, len(args))
	for i, a := range args {
		if len(a) > 2 && a[0] == '-' && a[1] != '-' && strings.ToLower(a[1:2]) >= "a" && strings.ToLower(a[1:2]) <= "z" {
			a = "-" + a
		}
		out[i] = a
	}
	return out
}
