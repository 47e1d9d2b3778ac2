package apidoc

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/doc"
	"path"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Types returns the page of all kinds, of one group after another. What stands between title and first group is intro.
func Types(intro string, groups ...Group) []byte {
	page := bytes.NewBufferString("# API types\n\n" + generated + "\n" + intro)
	for _, g := range groups {
		fmt.Fprintf(page, "\n## %s\n\n%s\n", g.Name, g.About)
		for _, t := range g.Package.kindsFirst() {
			g.Package.writeType(page, t)
		}
	}
	return page.Bytes()
}

// Group is an API group.
type Group struct {
	// Name is the group with its version.
	Name string
	// About is a sentence on it.
	About   string
	Package *Package
}

// kindsFirst returns the exported types that the page describes: those with a kind, each followed by what it is made of, as
// deep as that goes. Lists are left out, they are all alike.
func (p *Package) kindsFirst() []*doc.Type {
	byName := map[string]*doc.Type{}
	for _, t := range p.doc.Types {
		byName[t.Name] = t
	}
	var order []*doc.Type
	var visit func(t *doc.Type)
	visit = func(t *doc.Type) {
		if slices.Contains(order, t) {
			return
		}
		order = append(order, t)
		structure, ok := typeSpec(t).Type.(*ast.StructType)
		if !ok {
			return
		}
		for _, f := range structure.Fields.List {
			ast.Inspect(f.Type, func(n ast.Node) bool {
				if name, ok := n.(*ast.Ident); ok && byName[name.Name] != nil {
					visit(byName[name.Name])
				}
				return true
			})
		}
	}
	for _, t := range p.doc.Types {
		if p.isKind(t) {
			visit(t)
		}
	}
	return order
}

func typeSpec(t *doc.Type) *ast.TypeSpec {
	for _, spec := range t.Decl.Specs {
		if s, ok := spec.(*ast.TypeSpec); ok && s.Name.Name == t.Name {
			return s
		}
	}
	return &ast.TypeSpec{Name: ast.NewIdent(t.Name), Type: ast.NewIdent("")}
}

// isKind reports whether a type is an object of its own: it has the metadata of a type, and is no list.
func (p *Package) isKind(t *doc.Type) bool {
	structure, ok := typeSpec(t).Type.(*ast.StructType)
	if !ok || strings.HasSuffix(t.Name, "List") {
		return false
	}
	for _, f := range structure.Fields.List {
		if len(f.Names) == 0 && types(f.Type) == "metav1.TypeMeta" {
			return true
		}
	}
	return false
}

func (p *Package) writeType(page *bytes.Buffer, t *doc.Type) {
	fmt.Fprintf(page, "\n### %s\n\n%s\n", t.Name, p.values(p.prose(t.Doc)))
	structure, ok := typeSpec(t).Type.(*ast.StructType)
	if !ok {
		fmt.Fprintf(page, "\n| value | meaning |\n|---|---|\n")
		for _, block := range t.Consts {
			for _, c := range p.constantsOf(block) {
				fmt.Fprintf(page, "| `%s` | %s |\n", c.value, p.cell(c.name, c.comment))
			}
		}
		return
	}
	fmt.Fprintf(page, "\n| field | type | meaning |\n|---|---|---|\n")
	for _, f := range structure.Fields.List {
		key, required, shown := p.field(f)
		if !shown {
			continue
		}
		about := ""
		if len(f.Names) == 1 {
			about = p.cell(f.Names[0].Name, f.Doc.Text())
		}
		if minimum := minimumMarker.FindStringSubmatch(comments(f)); minimum != nil {
			about += " At least " + minimum[1] + "."
		}
		if required && !strings.HasSuffix(about, "Required.") {
			about += " Required."
		}
		fmt.Fprintf(page, "| %s | %s | %s |\n", key, p.link(f.Type), strings.TrimSpace(about))
	}
}

var minimumMarker = regexp.MustCompile(`\+kubebuilder:validation:Minimum=(\S+)`)

// comments are those of a field with what is meant for programs, which Text leaves out in part.
func comments(f *ast.Field) string {
	if f.Doc == nil {
		return ""
	}
	var text strings.Builder
	for _, c := range f.Doc.List {
		text.WriteString(c.Text + "\n")
	}
	return text.String()
}

// field returns how a field is called in JSON and whether it is required. Metadata of kinds are not shown.
func (p *Package) field(f *ast.Field) (key string, required, shown bool) {
	tag := ""
	if f.Tag != nil {
		unquoted, err := strconv.Unquote(f.Tag.Value)
		if err == nil {
			tag = reflect.StructTag(unquoted).Get("json")
		}
	}
	name, options, _ := strings.Cut(tag, ",")
	if name == "" {
		if strings.HasPrefix(types(f.Type), "metav1.") {
			return "", false, false
		}
		return "(fields of)", false, true
	}
	if name == "metadata" {
		return "", false, false
	}
	optional := strings.Contains(options, "omitempty") || strings.Contains(comments(f), "+optional")
	return "`" + name + "`", !optional, true
}

// link renders a type; one of this package is a link to its section.
func (p *Package) link(expression ast.Expr) string {
	switch e := expression.(type) {
	case *ast.StarExpr:
		return p.link(e.X)
	case *ast.ArrayType:
		return "list of " + p.link(e.Elt)
	case *ast.MapType:
		return "map of " + p.link(e.Key) + " to " + p.link(e.Value)
	case *ast.Ident:
		for _, t := range p.doc.Types {
			if t.Name == e.Name {
				return fmt.Sprintf("[%s](#%s)", e.Name, strings.ToLower(e.Name))
			}
		}
		return e.Name
	case *ast.SelectorExpr:
		pkg := types(e.X)
		switch name := pkg + "." + e.Sel.Name; name {
		case "metav1.Duration":
			return "duration"
		case "metav1.Time":
			return "time"
		case "types.UID":
			return "string"
		}
		if full, ok := p.imports[pkg]; ok {
			pkg = path.Base(path.Dir(full)) + "/" + path.Base(full)
		}
		return e.Sel.Name + " of " + pkg
	}
	return types(expression)
}

// types renders the name of a type as the source has it.
func types(expression ast.Expr) string {
	switch e := expression.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return types(e.X) + "." + e.Sel.Name
	case *ast.StarExpr:
		return types(e.X)
	}
	return ""
}
