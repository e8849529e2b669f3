package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/mpiguard/mpiguard/examples/csvstats/groupby"
	"github.com/mpiguard/mpiguard/internal/size"
)

// The modes.
const (
	modeGuarded = "guarded" // in chunks, within the budget
	modeNaive   = "naive"   // each rank reads its part whole
	modeNone    = "none"    // start and stop: what MPI and a guard take
)

type options struct {
	layout        groupby.Layout
	mode          string
	jsonFile      string // empty for none
	generateBytes int64  // 0: do not generate
	seed          uint64
	file          string
}

// usageError is an error of whoever typed the command.
type usageError struct{ error }

func usagef(format string, args ...any) error {
	return usageError{fmt.Errorf(format+" (csvstats -h explains)", args...)}
}

// parseOptions reads the arguments. The error is flag.ErrHelp or a usageError.
func parseOptions(args []string) (options, error) {
	var o options
	flags, sep, generate := flagSet(&o)
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return o, err
	} else if err != nil {
		return o, usagef("%w", err)
	}
	o.file = flags.Arg(0)
	var err error
	if o.layout.Separator, err = separator(*sep); err != nil {
		return o, err
	}
	if *generate != "" {
		if o.generateBytes, err = size.Parse(*generate); err != nil {
			return o, usagef("-generate %w", err)
		}
		if o.generateBytes == 0 {
			return o, usagef("-generate 0: nothing to write")
		}
	}
	switch {
	case o.layout.Key < 1 || o.layout.Value < 1:
		return o, usagef("-key %d -value %d: columns count from 1", o.layout.Key, o.layout.Value)
	case !slices.Contains([]string{modeGuarded, modeNaive, modeNone}, o.mode):
		return o, usagef("-mode %q: want guarded, naive or none", o.mode)
	case flags.NArg() > 1:
		return o, usagef("one file at a time, and flags before it: %q", flags.Args())
	case o.file == "" && o.mode != modeNone:
		return o, usagef("no file given")
	}
	return o, nil
}

func flagSet(o *options) (flags *flag.FlagSet, sep, generate *string) {
	flags = flag.NewFlagSet("csvstats", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // one rank tells, not all
	flags.IntVar(&o.layout.Key, "key", 1, "group by column `N`, from 1")
	flags.IntVar(&o.layout.Value, "value", 2, "of column `N`")
	sep = flags.String("sep", ";", `columns are separated by character `+"`C`"+`; \t is a tab`)
	flags.StringVar(&o.mode, "mode", modeGuarded, "`MODE` guarded: in chunks, within the budget; naive: each rank reads its part whole; none: start and stop, no file")
	flags.StringVar(&o.jsonFile, "json", "", "write the answer to `FILE` too")
	generate = flags.String("generate", "", "write an input of `SIZE` (such as 1GiB) to FILE and exit")
	flags.Uint64Var(&o.seed, "seed", 1, "`N` of -generate: equal seeds give equal files")
	return flags, sep, generate
}

func usage() string {
	var o options
	flags, _, _ := flagSet(&o)
	var text strings.Builder
	text.WriteString("usage: csvstats [flags] FILE\n")
	flags.SetOutput(&text)
	flags.PrintDefaults()
	return text.String()
}

func separator(text string) (byte, error) {
	if text == `\t` {
		return '\t', nil
	}
	if len(text) != 1 || text[0] >= utf8.RuneSelf || strings.Contains("\r\n\"", text) {
		return 0, usagef("-sep %q: want one ASCII character that is neither a quote nor a line end", text)
	}
	return text[0], nil
}
