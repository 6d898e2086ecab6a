// Command facts prints what upstream's Go sources say about fields beside their types: which are required, what they
// default to, which values they may have, which lists are replaced as a whole. `make schema` keeps it for OpenAPI.
//
// Its argument is the file that the command `schema` printed, which names the types.
package main

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"log"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// Facts of one type, by the JSON name of the field.
type facts struct {
	Required []string                   `json:"required,omitempty"`
	Default  map[string]json.RawMessage `json:"default,omitempty"`
	// The name of the enumeration below.
	Enum   map[string]string `json:"enum,omitempty"`
	Atomic []string          `json:"atomic,omitempty"`
	// Objects that are owned field by field although their type is not.
	Granular []string `json:"granular,omitempty"`
}

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: facts SCHEMA")
	}
	text, err := os.ReadFile(os.Args[1])
	check(err)
	var schema struct {
		Types map[string]json.RawMessage `json:"types"`
	}
	check(json.Unmarshal(text, &schema))

	sources := sources{packages: map[string]*source{}}
	types, enums := map[string]facts{}, map[string][]string{}
	for name := range schema.Types {
		of := facts{Default: map[string]json.RawMessage{}, Enum: map[string]string{}}
		sources.gather(name, &of, enums)
		if len(of.Required)+len(of.Default)+len(of.Enum)+len(of.Atomic)+len(of.Granular) > 0 {
			types[name] = of
		}
	}
	print(types, enums)
}

// One type per line, in order, so that a new version shows as a readable difference.
func print(types map[string]facts, enums map[string][]string) {
	fmt.Println("{\"enums\": {")
	lines(enums)
	fmt.Println("},\n\"types\": {")
	lines(types)
	fmt.Println("}}")
}

func lines[T any](all map[string]T) {
	names := slices.Sorted(maps.Keys(all))
	for i, name := range names {
		value, err := json.Marshal(all[name])
		check(err)
		comma := ","
		if i == len(names)-1 {
			comma = ""
		}
		fmt.Printf("%q: %s%s\n", name, value, comma)
	}
}

// The declarations of one package.
type source struct {
	path    string
	structs map[string]*ast.StructType
	// Types that are marked as enumerations, and the values of the constants of each type.
	enums     map[string]bool
	values    map[string][]string
	constants map[string]string
	imports   map[string]string
}

type sources struct {
	packages map[string]*source
}

// Adds the facts of a type, and of the types that it inlines.
func (s sources) gather(name string, of *facts, enums map[string][]string) {
	path, local := split(name)
	from := s.load(path)
	declared, ok := from.structs[local]
	if !ok {
		return
	}
	for _, field := range declared.Fields.List {
		tag := ""
		if field.Tag != nil {
			tag, _ = strconv.Unquote(field.Tag.Value)
		}
		json, options, _ := strings.Cut(reflect.StructTag(tag).Get("json"), ",")
		if json == "-" {
			continue
		}
		if strings.Contains(options, "inline") || json == "" {
			if inner := from.resolve(field.Type); !strings.HasSuffix(inner, ".TypeMeta") {
				s.gather(inner, of, enums)
			}
			continue
		}
		marks := markers(field.Doc)
		optional := strings.Contains(options, "omitempty") || marks.has("optional")
		if !optional || marks.has("required") {
			of.Required = append(of.Required, json)
		}
		if value, ok := marks["default"]; ok {
			of.Default[json] = from.value(value)
		}
		if marks["listType"] == "atomic" || marks["mapType"] == "atomic" {
			of.Atomic = append(of.Atomic, json)
		}
		if marks["mapType"] == "granular" || marks["structType"] == "granular" {
			of.Granular = append(of.Granular, json)
		}
		if enum := from.resolve(field.Type); enum != "" {
			path, local := split(enum)
			if other := s.load(path); other.enums[local] {
				of.Enum[json] = enum
				enums[enum] = slices.Sorted(slices.Values(other.values[local]))
			}
		}
	}
}

// The OpenAPI name of the innermost named type of an expression; empty for Go's own types.
func (s *source) resolve(expression ast.Expr) string {
	switch e := expression.(type) {
	case *ast.StarExpr:
		return s.resolve(e.X)
	case *ast.ArrayType:
		return s.resolve(e.Elt)
	case *ast.MapType:
		return s.resolve(e.Value)
	case *ast.SelectorExpr:
		if from, ok := e.X.(*ast.Ident); ok {
			return openapiName(s.imports[from.Name], e.Sel.Name)
		}
	case *ast.Ident:
		if ast.IsExported(e.Name) {
			return openapiName(s.path, e.Name)
		}
	}
	return ""
}

// A default is JSON, or refers to a constant.
func (s *source) value(text string) json.RawMessage {
	if name, ok := strings.CutPrefix(text, "ref("); ok {
		constant, known := s.constants[strings.TrimSuffix(name, ")")]
		if !known {
			log.Fatalf("default %s is no constant of %s", text, s.path)
		}
		text = strconv.Quote(constant)
	}
	if !json.Valid([]byte(text)) {
		log.Fatalf("default %s is not JSON", text)
	}
	return json.RawMessage(text)
}

func (s sources) load(path string) *source {
	if known, ok := s.packages[path]; ok {
		return known
	}
	loaded := &source{
		path: path, structs: map[string]*ast.StructType{}, enums: map[string]bool{}, values: map[string][]string{},
		constants: map[string]string{}, imports: map[string]string{},
	}
	s.packages[path] = loaded
	files, err := filepath.Glob(filepath.Join(dir(path), "*.go"))
	check(err)
	for _, file := range files {
		if !strings.HasSuffix(file, "_test.go") {
			parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
			check(err)
			s.read(loaded, parsed)
		}
	}
	return loaded
}

func (s sources) read(in *source, file *ast.File) {
	for _, spec := range file.Imports {
		path, _ := strconv.Unquote(spec.Path.Value)
		name := filepath.Base(path)
		if spec.Name != nil {
			name = spec.Name.Name
		}
		in.imports[name] = path
	}
	for _, declaration := range file.Decls {
		general, ok := declaration.(*ast.GenDecl)
		if !ok {
			continue
		}
		for _, spec := range general.Specs {
			switch spec := spec.(type) {
			case *ast.TypeSpec:
				if declared, ok := spec.Type.(*ast.StructType); ok {
					in.structs[spec.Name.Name] = declared
				}
				if markers(general.Doc).has("enum") || markers(spec.Doc).has("enum") {
					in.enums[spec.Name.Name] = true
				}
			case *ast.ValueSpec:
				s.constant(in, spec)
			}
		}
	}
}

// A constant of text, with its type where it has one: `A T = "x"`, or `A = T("x")`, or `A = T(other.B)`.
func (s sources) constant(in *source, spec *ast.ValueSpec) {
	for i, name := range spec.Names {
		if i >= len(spec.Values) {
			return
		}
		of, expression := spec.Type, spec.Values[i]
		if conversion, ok := expression.(*ast.CallExpr); ok && len(conversion.Args) == 1 {
			of, expression = conversion.Fun, conversion.Args[0]
		}
		value, ok := s.text(in, expression)
		if !ok {
			return
		}
		in.constants[name.Name] = value
		if of, ok := of.(*ast.Ident); ok {
			in.values[of.Name] = append(in.values[of.Name], value)
		}
	}
}

func (s sources) text(in *source, expression ast.Expr) (string, bool) {
	switch e := expression.(type) {
	case *ast.BasicLit:
		if e.Kind == token.STRING {
			value, err := strconv.Unquote(e.Value)
			check(err)
			return value, true
		}
	case *ast.SelectorExpr:
		if from, ok := e.X.(*ast.Ident); ok && strings.HasPrefix(in.imports[from.Name], "k8s.io/api/") {
			value, ok := s.load(in.imports[from.Name]).constants[e.Sel.Name]
			return value, ok
		}
	}
	return "", false
}

type marks map[string]string

func (m marks) has(name string) bool {
	_, ok := m[name]
	return ok
}

// Lines of a comment that begin with a plus.
func markers(comment *ast.CommentGroup) marks {
	found := marks{}
	if comment == nil {
		return found
	}
	for _, line := range comment.List {
		text := strings.TrimSpace(strings.TrimPrefix(line.Text, "//"))
		if mark, ok := strings.CutPrefix(text, "+"); ok {
			name, value, _ := strings.Cut(mark, "=")
			found[name] = value
		}
	}
	return found
}

// `io.k8s.api.core.v1.Pod` from `k8s.io/api/core/v1` and `Pod`.
func openapiName(path, name string) string {
	if !strings.HasPrefix(path, "k8s.io/") {
		return ""
	}
	return strings.ReplaceAll(strings.Replace(path, "k8s.io", "io.k8s", 1), "/", ".") + "." + name
}

func split(name string) (path, local string) {
	dot := strings.LastIndex(name, ".")
	path = strings.ReplaceAll(strings.TrimPrefix(name[:dot], "io.k8s."), ".", "/")
	return "k8s.io/" + path, name[dot+1:]
}

// Where the sources of a package are.
func dir(path string) string {
	answer, err := exec.Command("go", "list", "-f", "{{.Dir}}", path).Output()
	check(err)
	return strings.TrimSpace(string(answer))
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
