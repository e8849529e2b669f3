package lint

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// arrows say what a package may import of this module. The longest pattern that
// matches counts; "/..." means the folder and all in it. Packages that match no
// pattern are commands and may import anything.
var arrows = map[string][]string{
	"":                   {},
	"mpiguard":           {"internal/..."},
	"mpiguard/mpicomm":   {"mpiguard"},
	"mpiguard/inproc":    {"mpiguard", "internal/..."},
	"mpiguard/commtest":  {"mpiguard"},
	"mpiguard/bufpool":   {"internal/..."},
	"mpiguard/promguard": {"mpiguard"},
	"chunk":              {"mpiguard/bufpool", "internal/..."},
	"chunk/compressed":   {"chunk", "internal/..."},
	"chunk/stream":       {"chunk", "chunk/spill", "mpiguard", "mpiguard/bufpool", "internal/..."},
	"chunk/spill":        {"chunk", "mpiguard/bufpool", "internal/..."},
	"internal/...":       {"internal/..."},
	"internal/demo":      {"internal/..."},
	"internal/lab/...":   {"internal/lab/..."},
}

// tools are of no use in a program: no package of the library imports them.
var tools = []string{"internal/lab/...", "internal/lint/...", "internal/demo/...", "mpiguard/cmd/..."}

// foreign are the modules that a package of the library may import besides those
// that all may.
var (
	foreign = map[string][]string{
		"mpiguard/mpicomm":   {"github.com/sbromberger/gompi"},
		"mpiguard/commtest":  {"github.com/stretchr/testify"},
		"mpiguard/promguard": {"github.com/prometheus/client_golang"},
		"chunk/compressed":   {"github.com/klauspost/compress"},
		"chunk/spill":        {"github.com/klauspost/compress"},
		"internal/blackbox":  {"github.com/klauspost/compress"},
	}
	foreignToAll = []string{
		"golang.org/x/sys", "github.com/moby/sys/mountinfo", "github.com/dustin/go-humanize", "github.com/pbnjay/memory",
	}
)

// systems are those for which a package may have files of its own.
var systems = []string{"linux", "darwin", "windows"}

func goList(t *testing.T, system, format string, args ...string) []string {
	cmd := exec.Command("go", append([]string{"list", "-e", "-f", format}, args...)...)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "GOOS="+system)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	require.NoError(t, err)
	return strings.Split(strings.TrimSpace(string(out)), "\n")
}

func TestArrows(t *testing.T) {
	for _, system := range systems {
		for _, line := range goList(t, system, `{{.ImportPath}}{{range .Imports}} {{.}}{{end}}`, "./...") {
			words := strings.Fields(line)
			from := inModule(words[0])
			rule, allowed := ruleOf(from)
			for _, path := range words[1:] {
				switch to := inModule(path); {
				case to == path && strings.Contains(path, "."):
					if isLibrary(from) {
						assert.True(t, startsWithAny(path, slices.Concat(foreign[from], foreignToAll)),
							"%s may not import %s", from, path)
					}
				case to == path || rule == "": // the standard library, or a command
				default:
					assert.True(t, matchesAny(to, allowed) || below(to, from+"/internal"), "%s may not import %s: only %q", from, to, allowed)
					assert.False(t, isLibrary(from) && matchesAny(to, tools), "%s may not import the tool %s", from, to)
				}
			}
		}
	}
}

// A program that imports mpiguard and chunk links little else.
func TestLinkedModules(t *testing.T) {
	for _, system := range systems {
		modules := goList(t, system, `{{with .Module}}{{.Path}}{{end}}`, "-deps", "./mpiguard", "./chunk")
		slices.Sort(modules)
		assert.Subset(t, append(foreignToAll, "", module), slices.Compact(modules), system)
	}
}

func inModule(path string) string {
	if path == module {
		return ""
	}
	return strings.TrimPrefix(path, module+"/")
}

// ruleOf is the longest pattern that matches, with what it allows.
func ruleOf(pkg string) (rule string, allowed []string) {
	for pattern, a := range arrows {
		if matchesAny(pkg, []string{pattern}) && len(pattern) > len(rule) {
			rule, allowed = pattern, a
		}
	}
	return rule, allowed
}

func matchesAny(pkg string, patterns []string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		top, deep := strings.CutSuffix(p, "/...")
		return pkg == p || deep && below(pkg, top)
	})
}

func startsWithAny(path string, modules []string) bool {
	return slices.ContainsFunc(modules, func(m string) bool { return below(path, m) })
}

func TestRuleOf(t *testing.T) {
	for pkg, want := range map[string]string{
		"mpiguard":              "mpiguard",
		"mpiguard/bufpool":      "mpiguard/bufpool",
		"mpiguard/cmd/mpiguard": "",
		"internal/lab":          "internal/lab/...",
		"internal/lab/vm":       "internal/lab/...",
		"internal/lease":        "internal/...",
		"internal/demo":         "internal/demo",
		"examples/quickstart":   "",
	} {
		rule, _ := ruleOf(pkg)
		assert.Equal(t, want, rule, pkg)
	}
}
