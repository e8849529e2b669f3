package main

import (
	"flag"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mpiguard/mpiguard/examples/csvstats/groupby"
)

func TestParseOptions(t *testing.T) {
	defaults := options{layout: groupby.Layout{Key: 1, Value: 2, Separator: ';'}, mode: modeGuarded, seed: 1, file: "f"}
	with := func(change func(*options)) options {
		o := defaults
		change(&o)
		return o
	}
	for args, want := range map[string]options{
		"f":                          defaults,
		"-key 3 -value 1 -sep , f":   with(func(o *options) { o.layout = groupby.Layout{Key: 3, Value: 1, Separator: ','} }),
		`-sep \t f`:                  with(func(o *options) { o.layout.Separator = '\t' }),
		"-mode naive -json out f":    with(func(o *options) { o.mode, o.jsonFile = modeNaive, "out" }),
		"-mode none":                 with(func(o *options) { o.mode, o.file = modeNone, "" }),
		"-generate 1GiB -seed 7 f":   with(func(o *options) { o.generateBytes, o.seed = 1<<30, 7 }),
		"--generate=1.5k --seed=0 f": with(func(o *options) { o.generateBytes, o.seed = 1500, 0 }),
	} {
		got, err := parseOptions(strings.Fields(args))
		require.NoError(t, err, args)
		assert.Equal(t, want, got, args)
	}
}

func TestParseOptionsRefuses(t *testing.T) {
	for args, want := range map[string]string{
		"":                 "no file given",
		"-mode none -key":  "flag needs an argument: -key",
		"-color f":         "flag provided but not defined: -color",
		"-key x f":         `invalid value "x" for flag -key: parse error`,
		"-key 0 f":         "-key 0 -value 2: columns count from 1",
		"-value -1 f":      "-key 1 -value -1: columns count from 1",
		"-sep ;; f":        `-sep ";;": want one ASCII character that is neither a quote nor a line end`,
		"-sep é f":         `-sep "é": want one ASCII character that is neither a quote nor a line end`,
		`-sep " f`:         `-sep "\"": want one ASCII character that is neither a quote nor a line end`,
		"-mode fast f":     `-mode "fast": want guarded, naive or none`,
		"a b":              `one file at a time, and flags before it: ["a" "b"]`,
		"f -mode naive":    `one file at a time, and flags before it: ["f" "-mode" "naive"]`,
		"-generate lots f": `-generate "lots": not a size such as 1500000000, 512M or 1.5GiB`,
		"-generate 0 f":    "-generate 0: nothing to write",
		"-generate 1GiB":   "no file given",
	} {
		_, err := parseOptions(strings.Fields(args))
		require.Error(t, err, args)
		assert.Equal(t, want+" (csvstats -h explains)", err.Error(), args)
		assert.Equal(t, exitUsage, exitCode(err))
	}
}

func TestHelp(t *testing.T) {
	_, err := parseOptions([]string{"-h"})
	require.ErrorIs(t, err, flag.ErrHelp)
	for _, name := range []string{"-key N", "-value N", "-sep C", "-mode MODE", "-json FILE", "-generate SIZE", "-seed N"} {
		assert.Contains(t, usage(), "  "+name+"\n")
	}
}
