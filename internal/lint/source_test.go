package lint

import (
	"go/ast"
	"go/format"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFormatted(t *testing.T) {
	for _, file := range tracked(t) {
		if !strings.HasSuffix(file, ".go") {
			continue
		}
		text, err := os.ReadFile(filepath.Join(root, file))
		require.NoError(t, err)
		formatted, err := format.Source(text)
		require.NoError(t, err, file)
		if string(formatted) != string(text) {
			t.Errorf("%s: run gofmt", file)
		}
	}
}

// A library neither ends the program nor writes to its output.
func TestLibraryIsQuiet(t *testing.T) {
	forbidden := regexp.MustCompile(`^(fmt\.Print(|f|ln)|os\.Exit|syscall\.Exit|log\.(Fatal|Panic|Print)(|f|ln)|runtime\.Goexit|println?)$`)
	for _, s := range library(t) {
		ast.Inspect(s.File, func(n ast.Node) bool {
			name := ""
			switch n := n.(type) {
			case *ast.SelectorExpr:
				if x, ok := n.X.(*ast.Ident); ok {
					name = s.imported(x.Name) + "." + n.Sel.Name
				}
			case *ast.CallExpr:
				if f, ok := n.Fun.(*ast.Ident); ok {
					name = f.Name
				}
			}
			if forbidden.MatchString(name) {
				t.Errorf("%s: %s in a library", s.at(n), name)
			}
			return true
		})
	}
}

// imported is the path of the import that the file knows under a name.
func (s source) imported(name string) string {
	for _, i := range s.Imports {
		p, _ := strconv.Unquote(i.Path.Value)
		if i.Name != nil && i.Name.Name == name || i.Name == nil && path.Base(p) == name {
			return p
		}
	}
	return ""
}

// Every exported name is documented, in a sentence of its own or of its group.
func TestDocumented(t *testing.T) {
	packages := map[string]bool{}
	for _, s := range library(t) {
		dir := filepath.Dir(s.path)
		packages[dir] = packages[dir] || s.Doc != nil
		for name, doc := range s.exported() {
			if doc == nil {
				t.Errorf("%s: %s is not documented", s.at(name), name.Name)
			}
		}
	}
	for dir, documented := range packages {
		if !documented {
			t.Errorf("package %s is not documented", dir)
		}
	}
}

// exported are the exported names of a file, but for fields, with their comments.
func (s source) exported() map[*ast.Ident]*ast.CommentGroup {
	names := map[*ast.Ident]*ast.CommentGroup{}
	add := func(name *ast.Ident, docs ...*ast.CommentGroup) {
		if !name.IsExported() || name.Name == "Error" || name.Name == "Unwrap" { // of errors: nothing to add
			return
		}
		names[name] = nil
		for _, d := range docs {
			if d != nil {
				names[name] = d
			}
		}
	}
	for _, d := range s.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil || ast.IsExported(receiver(d)) {
				add(d.Name, d.Doc)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch spec := spec.(type) {
				case *ast.TypeSpec:
					add(spec.Name, spec.Doc, d.Doc)
					if i, ok := spec.Type.(*ast.InterfaceType); ok && spec.Name.IsExported() {
						for _, m := range i.Methods.List {
							for _, name := range m.Names {
								add(name, m.Doc, m.Comment)
							}
						}
					}
				case *ast.ValueSpec:
					for _, name := range spec.Names {
						add(name, spec.Doc, spec.Comment, d.Doc)
					}
				}
			}
		}
	}
	return names
}

// receiver is the name of the type that a method belongs to.
func receiver(f *ast.FuncDecl) string {
	name := ""
	ast.Inspect(f.Recv.List[0].Type, func(n ast.Node) bool {
		if i, ok := n.(*ast.Ident); ok && name == "" {
			name = i.Name
		}
		return name == ""
	})
	return name
}

// Bytes are int64 and say so: what is exported and ends in Bytes is of no other
// type, and an int64 that means a size ends in Bytes.
func TestUnits(t *testing.T) {
	size := regexp.MustCompile(`(?i)(limit|used|usage|size|memory|budget|headroom|peak|resident|reserved|untouched|promised|granted|held|heap|anon|rss|swap|capacity)$`)
	numeric := regexp.MustCompile(`^(u?int(8|16|32)?|uint64|uintptr|float(32|64))$`)
	for _, s := range library(t) {
		// check looks at names that have a type; of a function, its result.
		check := func(names []*ast.Ident, typ ast.Expr) {
			integer, isIdent := typ.(*ast.Ident)
			for _, n := range names {
				switch {
				case !isIdent || !n.IsExported():
				case strings.HasSuffix(n.Name, "Bytes") && numeric.MatchString(integer.Name):
					t.Errorf("%s: %s counts bytes and is %s, not int64", s.at(n), n.Name, integer.Name)
				case integer.Name == "int64" && size.MatchString(n.Name):
					t.Errorf("%s: %s is a size and does not end in Bytes", s.at(n), n.Name)
				}
			}
		}
		ast.Inspect(s.File, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.Field:
				check(n.Names, n.Type)
			case *ast.ValueSpec:
				check(n.Names, n.Type)
			case *ast.FuncDecl:
				if strings.HasPrefix(n.Name.Name, "Parse") {
					break // named for what it reads
				}
				if r := n.Type.Results; r != nil && len(r.List) > 0 && len(r.List[0].Names) == 0 {
					check([]*ast.Ident{n.Name}, r.List[0].Type)
				}
			}
			return true
		})
	}
}

// What is in the repository is true on any machine.
func TestNoPathOfOneMachine(t *testing.T) {
	place := regexp.MustCompile(`/wor[k]/|/roo[t]/|/tmp/[a-z]+[0-9]*/|\.\./share[d]`)
	for _, file := range tracked(t) {
		text, err := os.ReadFile(filepath.Join(root, file))
		require.NoError(t, err)
		if strings.HasSuffix(file, ".sum") || strings.Contains(string(text), "\x00") {
			continue
		}
		for i, line := range strings.Split(string(text), "\n") {
			if place.MatchString(line) {
				t.Errorf("%s:%d: names a place of one machine: %s", file, i+1, line)
			}
		}
	}
}
