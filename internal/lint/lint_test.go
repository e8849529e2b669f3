// Package lint holds the rules of ARCHITECTURE.md and CONTRIBUTING.md that a
// compiler does not check, as tests.
package lint

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const module = "github.com/mpiguard/mpiguard"

// root is the folder of the module.
const root = "../.."

// tracked are the paths of all files of the repository, from its root.
func tracked(t *testing.T) []string {
	cmd := exec.Command("git", "ls-files", "-z")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		t.Skip("no git work tree: ", err)
	}
	files := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
	return slices.DeleteFunc(files, func(f string) bool {
		_, err := os.Stat(filepath.Join(root, f))
		return err != nil // deleted, and not committed yet
	})
}

// source is one Go file that programs link: no test, no command.
type source struct {
	path string // from the root
	*ast.File
	*token.FileSet
}

// at says where a node is, for a message.
func (s source) at(n ast.Node) string {
	p := s.Position(n.Pos())
	p.Filename = s.path
	return p.String()
}

// library are the sources of the packages that programs import, and of those
// that these consist of.
func library(t *testing.T) []source {
	var all []source
	for _, path := range tracked(t) {
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || !isLibrary(filepath.Dir(path)) {
			continue
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, filepath.Join(root, path), nil, parser.ParseComments|parser.SkipObjectResolution)
		require.NoError(t, err)
		all = append(all, source{path, file, set})
	}
	require.NotEmpty(t, all)
	return all
}

func isLibrary(dir string) bool {
	for _, tool := range []string{"mpiguard/cmd", "internal/lab", "internal/lint", "internal/demo"} {
		if below(dir, tool) {
			return false
		}
	}
	return below(dir, "mpiguard") || below(dir, "chunk") || below(dir, "internal")
}

// below reports whether dir is top or a folder in it.
func below(dir, top string) bool { return dir == top || strings.HasPrefix(dir, top+"/") }
