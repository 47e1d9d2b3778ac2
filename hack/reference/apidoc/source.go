package apidoc

import (
	"fmt"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"io/fs"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Package is the source of a Go package of API types.
type Package struct {
	doc *doc.Package
	// imports are the paths of imported packages by the names that the source has for them.
	imports map[string]string
	// constants are the names of all string constants with their values.
	constants map[string]string
}

// Read reads the package in a directory, without its tests. External are values of constants of other packages that its constants
// are made of, by the names that the source has for them, such as "clusterv1.ClusterNameLabel".
func Read(dir, importPath string, external map[string]string) (*Package, error) {
	set := token.NewFileSet()
	//nolint:staticcheck // ParseDir knows no build tags, and API packages have none
	parsed, err := parser.ParseDir(set, dir, func(f fs.FileInfo) bool {
		return !strings.HasSuffix(f.Name(), "_test.go") && !strings.HasPrefix(f.Name(), "zz_generated")
	}, parser.ParseComments)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", dir, err)
	}
	if len(parsed) != 1 {
		return nil, fmt.Errorf("reading %s: %d packages, want one", dir, len(parsed))
	}
	p := &Package{imports: map[string]string{}, constants: map[string]string{}}
	for _, pkg := range parsed {
		for _, file := range pkg.Files {
			for _, i := range file.Imports {
				path, err := strconv.Unquote(i.Path.Value)
				if err != nil {
					return nil, fmt.Errorf("reading %s: %w", dir, err)
				}
				if i.Name != nil {
					p.imports[i.Name.Name] = path
				}
			}
		}
		p.doc = doc.New(pkg, importPath, doc.PreserveAST)
	}
	for _, block := range p.blocks() {
		for _, spec := range block.Decl.Specs {
			c, ok := spec.(*ast.ValueSpec)
			if !ok || len(c.Names) != 1 || len(c.Values) != 1 {
				continue
			}
			switch value := c.Values[0].(type) {
			case *ast.BasicLit:
				if value.Kind != token.STRING {
					continue
				}
				text, err := strconv.Unquote(value.Value)
				if err != nil {
					return nil, fmt.Errorf("reading constant %s of %s: %w", c.Names[0].Name, dir, err)
				}
				p.constants[c.Names[0].Name] = text
			case *ast.SelectorExpr:
				name := types(value)
				text, known := external[name]
				if !known {
					return nil, fmt.Errorf("reading constant %s of %s: the value of %s is not known", c.Names[0].Name, dir, name)
				}
				p.constants[c.Names[0].Name] = text
			}
		}
	}
	return p, nil
}

// blocks are the declarations of constants, those of a type's values among them, in the order of the source.
func (p *Package) blocks() []*doc.Value {
	blocks := append([]*doc.Value(nil), p.doc.Consts...)
	for _, t := range p.doc.Types {
		blocks = append(blocks, t.Consts...)
	}
	for i := 1; i < len(blocks); i++ { // few, and nearly sorted
		for j := i; j > 0 && blocks[j].Decl.Pos() < blocks[j-1].Decl.Pos(); j-- {
			blocks[j], blocks[j-1] = blocks[j-1], blocks[j]
		}
	}
	return blocks
}

// constant is a string constant with its comment.
type constant struct{ name, value, comment string }

// constantsOf returns the string constants of a block.
func (p *Package) constantsOf(block *doc.Value) []constant {
	var constants []constant
	for _, spec := range block.Decl.Specs {
		c, ok := spec.(*ast.ValueSpec)
		if !ok || len(c.Names) != 1 {
			continue
		}
		name := c.Names[0].Name
		comment := c.Doc.Text()
		if comment == "" && len(block.Decl.Specs) == 1 {
			comment = block.Doc
		}
		if value, ok := p.constants[name]; ok && ast.IsExported(name) {
			constants = append(constants, constant{name: name, value: value, comment: comment})
		}
	}
	return constants
}

// word is what may be a name of the source.
var word = regexp.MustCompile(`[A-Z][A-Za-z0-9]+`)

// cell makes a comment the content of a cell of a table. It begins with the name of what it is about, which stands in the
// cell before it, so that is left out; names of constants become their values.
func (p *Package) cell(name, comment string) string {
	text := strings.TrimLeft(strings.TrimPrefix(p.prose(comment), name), ",: ")
	for _, verb := range []string{"is ", "are "} {
		text = strings.TrimPrefix(text, verb)
	}
	if first, size := utf8.DecodeRuneInString(text); size > 0 {
		text = string(unicode.ToUpper(first)) + text[size:]
	}
	return strings.ReplaceAll(p.values(text), "|", `\|`)
}

// values puts the values of constants into the place of their names.
func (p *Package) values(text string) string {
	return word.ReplaceAllStringFunc(text, func(name string) string {
		if value, ok := p.constants[name]; ok && value != name {
			return "`" + value + "`"
		}
		return name
	})
}

// prose joins the lines of a comment, and the paragraphs, and leaves out what is for programs.
func (p *Package) prose(comment string) string {
	var lines []string
	for line := range strings.Lines(comment) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "+") {
			lines = append(lines, line)
		}
	}
	text := strings.Join(lines, " ")
	return strings.NewReplacer("<", "&lt;", ">", "&gt;").Replace(text)
}

// generated is the second paragraph of each page.
const generated = "<!-- Generated from the code by \"make generate\". Do not edit. -->\n"
