package lint

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// mutant is a source file with one thing turned off.
type mutant struct{ old, new string }

// mutants are those of files whose rules are easily lost without notice, and the
// tests that must notice.
var mutants = []struct {
	rule, file string
	pkg, tests string // the tests that must notice, of a package from the root
	of         []mutant
}{
	{"hysteresis", "mpiguard/ladder.go", "mpiguard", "^TestLadder", []mutant{
		{"case pressure >= l.at[k]-releaseMargin:", "case pressure >= l.at[k]:"},
		{"case pressure >= l.at[k]-releaseMargin:", "case false:"},
		{"l.below[k] = time.Time{}", ""},
		{"case l.below[k].IsZero():", "default:"},
		{"l.below[k] = now", ""},
		{"if pressure >= l.at[k] {", "if true {"},
		{"l.level = max(l.level, k)", ""},
		{"l.level = max(l.level, k)", "l.level = k"},
		{"!l.below[l.level].IsZero() && ", ""},
		{" && now.Sub(l.below[l.level]) >= l.releaseAfter", ""},
		{"l.level--", "break"},
		{"return l.level != old", "return old == old+1"},
	}},
	{"vote", "mpiguard/collective.go", "mpiguard", "^(TestFaultsInProcess|TestLowestRankIsNamed|TestExhausted)$/^(ctx_cancelled_before|deadline_passed|closed,_and_comes|concurrent)", []mutant{
		{"return voteClosed", "return voteYes"},
		{"return voteDeadline", "return voteYes"},
		{"return voteCanceled", "return voteYes"},
		{"return context.Canceled", "return nil"},
		{"return context.DeadlineExceeded", "return nil"},
		{"return ErrClosed", "return nil"},
		{"if !g.inCollective.CompareAndSwap(false, true) {", "if false {"},
		{"defer g.inCollective.Store(false)", ""},
		{"asked = context.WithoutCancel(ctx)", ""},
		{"if v == voteYes {", "if true {"},
		{"agreed.Err = context.Cause(g.proc.exhaustion.over)", ""},
		{"enc.buf[0] = byte(mine)", ""},
		{"v != voteYes && g.worst < 0", "v != voteYes"},
		{"g.worst, g.vote = i, v", "g.worst = i"},
		{"g.worst, g.vote = i, v", "g.vote = v"},
	}},
	{"vote in New", "mpiguard/join.go", "mpiguard", "^(TestJunkVariableOfOneRank|TestSecondCommunicator|TestMismatchInProcess)$", []mutant{
		{"mine = voteFailed", ""},
		{"why.text = local.Error()", ""},
		{"agreed = errors.New(texts.rows[all.worst].text)", "_ = texts; agreed = errors.New(why.text)"},
		{"agreed = local // ", "_ = local // "},
		{`agreed = &CollectiveError{"new", all.worst, agreed}`, "agreed = nil"},
		{"if agreed != nil {", "if false {"},
		{"if err := p.steer.mismatch(g.peers[0].steer); err != nil {", "if err := p.steer.mismatch(g.peers[0].steer); err != err {"},
	}},
	{"vote of a pulse", "mpiguard/pulse.go", "mpiguard", "^(TestFaultsInProcess|TestLowestRankIsNamed|TestExhausted)$/^(ctx_cancelled_before|deadline_passed|closed,_and_comes|concurrent)", []mutant{
		{"ranked(byte(v), rank),", "ranked(0, rank),"},
		{"mine = voteExhausted", ""},
		{"{ranked(byte(mine), g.rank)}", "{ranked(0, g.rank)}"},
		{"return voter, v, nil", "_ = v; return voter, voteYes, nil"},
		{"return rank, vote(v), nil", "_ = v; return rank, voteYes, nil"},
		{"uint64(math.MaxUint32-uint32(rank)) }", "uint64(uint32(rank)) }"},
	}},
	{"byte ranges of lines", "chunk/linespan.go", "chunk", "^TestLine(SpanIsStable|SpanReadsLittle|SpanOfLongLines|SpanRefusesSpansOutside|sAtRanks)$", []mutant{
		{"if err := span.valid(size); err != nil {", "if err := span.valid(size); err != err {"},
		{"start, err := lineStart(ctx, ra, size, span.Offset)", "start, err := span.Offset, error(nil)"},
		{"if span.End() > start {", "if true {"},
		{"if end, err = lineStart(ctx, ra, size, span.End()); err != nil {", "if end = span.End(); err != nil {"},
		{"if at == 0 || at == size {", "if at == size {"},
		{"Span{Offset: at - 1, Length: size - at + 1}", "Span{Offset: at, Length: size - at}"},
		{"before := src.offset", "before := at - 1"},
		{"return before + int64(i) + 1, nil", "return before + int64(i), nil"},
		{"return size, nil", "return at, nil"},
	}},
	{"ancestors", "internal/cgroup/hierarchy.go", "mpiguard", "^(TestMachines|TestLimitTwoLevelsUp)$", []mutant{
		{"below = path.Dir(below)", `below = "/"`},
		{`if below == "/" {`, "if true {"},
		{"groups = append(groups, g)", "groups = []*Group{g}"},
		{"path.Join(p.mount.Point, below)", "path.Join(p.mount.Point, p.below)"},
		{"path.Join(p.mount.Root, below)", "path.Join(p.mount.Root, p.below)"},
		{"h.Refresh(buf)\n\th.describe", "h.describe"},
		{"h.HiddenBytes = s.hierarchicalLimit", ""},
		{"h.describe(fsys, buf)\n\th.refreshHidden(buf)", "h.describe(fsys, buf)"},
	}},
	{"place of a group", "internal/cgroup/locate.go", "mpiguard", "^TestMachines$", []mutant{
		{"return probe(fsys)", "return place{}, false"},
		{"score += 2", ""},
		{"score += 4", ""},
	}},
}

// TestLabMutants turns off one thing at a time, in what the compiler is given and
// not in the tree, and runs the tests that must then fail.
func TestLabMutants(t *testing.T) {
	where, err := filepath.Abs(root)
	require.NoError(t, err)
	for _, m := range mutants {
		t.Run(m.rule, func(t *testing.T) {
			file := filepath.Join(where, m.file)
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			out, err := testOverlaid(t, file, string(text), m.pkg, m.tests)
			require.NoError(t, err, "as it is:\n%s", out)
			require.NotContains(t, out, "no tests to run")
			for _, change := range m.of {
				require.Equal(t, 1, strings.Count(string(text), change.old), "%s: %s", m.file, change.old)
				t.Run(change.old, func(t *testing.T) {
					t.Parallel()
					out, err := testOverlaid(t, file, strings.Replace(string(text), change.old, change.new, 1), m.pkg, m.tests)
					require.NotContains(t, out, "[build failed]")
					if assert.Error(t, err, "no test fails with %q for %q", change.new, change.old) {
						assert.Regexp(t, `(?m)^\s*--- FAIL|^panic: `, out)
					}
				})
			}
		})
	}
}

// testOverlaid runs tests of a package with another text in place of a file. It does
// without cgo, as the linker of Go alone is faster.
func testOverlaid(t *testing.T, file, text, pkg, tests string) (string, error) {
	dir := t.TempDir()
	mutated, overlay := filepath.Join(dir, filepath.Base(file)), filepath.Join(dir, "overlay.json")
	require.NoError(t, os.WriteFile(mutated, []byte(text), 0o600))
	replace, err := json.Marshal(map[string]map[string]string{"Replace": {file: mutated}})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(overlay, replace, 0o600))
	cmd := exec.CommandContext(t.Context(), "go", "test", "-overlay", overlay, "-vet=off", "-ldflags=-w", "-count=1", "-failfast", "-timeout=30s", "-run", tests, "./"+pkg)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := cmd.CombinedOutput()
	return string(out), err
}
