package api

import (
	"embed"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"reflect"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/drover-io/drover/internal/audit"
	"github.com/drover-io/drover/internal/combine"
	"github.com/drover-io/drover/internal/combined"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/explain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/match"
	"github.com/drover-io/drover/internal/operations"
	"github.com/drover-io/drover/internal/service"
)

// comments are what the sources say of types and of their members: "domain.Metadata" and "domain.Metadata.Name" to text. A
// comment at the end of a member's line comes before one above it.
var comments = sync.OnceValues(func() (map[string]string, error) {
	found := map[string]string{}
	for name, files := range map[string]embed.FS{
		"api": source, "audit": audit.Source, "domain": domain.Source, "explain": explain.Source, "fail": fail.Source,
		"match": match.Source, "operations": operations.Source, "service": service.Source, "combine": combine.Source, "combined": combined.Source,
	} {
		if err := readComments(found, name, files); err != nil {
			return nil, fmt.Errorf("read the comments of package %s: %w", name, err)
		}
	}
	return found, nil
})

func readComments(into map[string]string, name string, files embed.FS) error {
	entries, err := files.ReadDir(".")
	if err != nil {
		return err
	}
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), "_test.go") {
			continue
		}
		data, err := files.ReadFile(e.Name())
		if err != nil {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), e.Name(), data, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, d := range file.Decls {
			types, ok := d.(*ast.GenDecl)
			if !ok || types.Tok != token.TYPE {
				continue
			}
			for _, s := range types.Specs {
				readType(into, name, types, s.(*ast.TypeSpec))
			}
		}
	}
	return nil
}

func readType(into map[string]string, pkg string, in *ast.GenDecl, t *ast.TypeSpec) {
	name := pkg + "." + t.Name.Name
	into[name] = prose(t.Doc, in.Doc)
	members, ok := t.Type.(*ast.StructType)
	if !ok {
		return
	}
	for _, f := range members.Fields.List {
		for _, n := range f.Names {
			into[name+"."+n.Name] = prose(f.Comment, f.Doc)
		}
	}
}

// prose is the first comment that there is, on one line.
func prose(comments ...*ast.CommentGroup) string {
	for _, c := range comments {
		if text := strings.Join(strings.Fields(c.Text()), " "); text != "" {
			word, _, _ := strings.Cut(text, " ")
			if word == strings.ToLower(word) { // no member's name
				first, size := utf8.DecodeRuneInString(text)
				text = string(unicode.ToUpper(first)) + text[size:]
			}
			return text
		}
	}
	return ""
}

// typeName names a type in the document: those of the domain as they are, others with their package, for there are two
// that are called Cluster.
func typeName(t reflect.Type) string {
	if pkg := path.Base(t.PkgPath()); t.PkgPath() != "" && pkg != "domain" {
		return pkg + "." + t.Name()
	}
	return t.Name()
}

// foreignNames is the type whose names are not ours to give.
var foreignNames = reflect.TypeFor[domain.RightSubject]()

// describe says of a type and its members what its source does: descriptions by comments; by the tag api what is
// required, and which values there are: `api:"required,enum=a;b"`. The tag
// "optional" of an embedded struct says that nothing of it is required here.
func describe(t reflect.Type, schema *openapi3.Schema) error {
	known, err := comments()
	if err != nil {
		return err
	}
	schema.Description = known[path.Base(t.PkgPath())+"."+t.Name()]
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		member := schema.Properties[name]
		if member == nil {
			continue
		}
		owner, optional := t, false
		for _, i := range f.Index[:len(f.Index)-1] {
			embedded := owner.Field(i)
			optional = optional || embedded.Tag.Get("api") == "optional"
			if owner = embedded.Type; owner.Kind() == reflect.Pointer {
				owner = owner.Elem()
			}
		}
		pkg := path.Base(owner.PkgPath())
		if name == "name" && pkg == "domain" && owner != foreignNames { // what domain.CheckName checks; answers of others have cluster names with a +
			member.Value.WithPattern(domain.NamePattern).WithMaxLength(domain.MaxName)
		}
		for d := range strings.SplitSeq(f.Tag.Get("api"), ",") {
			values, isEnum := strings.CutPrefix(d, "enum=")
			switch {
			case isEnum:
				words := member.Value
				if words.Items != nil { // each of a list is one
					words = words.Items.Value
				}
				for v := range strings.SplitSeq(values, ";") {
					words.Enum = append(words.Enum, v)
				}
			case d == "required" && !optional:
				schema.Required = append(schema.Required, name)
			}
		}
		if !strings.HasPrefix(member.Ref, "#/") { // else its type has a description
			member.Value.Description = known[pkg+"."+owner.Name()+"."+f.Name]
		}
	}
	return nil
}

// aboutNoun is what the source says of a noun's type, with the noun's title for the type's name.
func aboutNoun(n *domain.Noun) string {
	known, _ := comments() // that they can be read the schemas have shown
	name := reflect.TypeOf(n.New()).Elem().Name()
	article := "A "
	if strings.ContainsAny(n.Title[:1], "aeiou") {
		article = "An "
	}
	return strings.Replace(known["domain."+name], name, article+n.Title, 1)
}

// aboutTag says what a group of endpoints is about.
func aboutTag(name string) string {
	switch name {
	case domain.Operations.Collection:
		return "What is asked of an owner and takes its time: a deployment intent group, a logical cloud, the network intents of a cluster."
	case domain.Whoami.Collection:
		return "Who asks, how that was proven, and what that caller may do where."
	case domain.AuditRecords.Collection:
		return "Who has asked for what, from where, and what came of it: every command, every refusal, every login, and the ends of operations."
	case domain.Workloads.Collection:
		return "What runs in a tenant's cluster, as that cluster last said it by gRPC (universe.workload.v1)."
	case domain.Matches.Collection:
		return "Workload rules with the workloads that they apply to, and what was made for them in the tenant's infrastructure cluster."
	}
	for _, n := range domain.Nouns {
		if n.Collection == name {
			return aboutNoun(n)
		}
	}
	return ""
}

// aboutName says what a parameter of a path is: "clusterProvider" is the name of the cluster provider.
func aboutName(parameter string) string {
	switch parameter {
	case "compositeAppVersion":
		return "The version of the composite app"
	case "operation":
		return "The id of the operation, such as 2621114006130701074-update"
	}
	var words strings.Builder
	for _, r := range parameter {
		if unicode.IsUpper(r) {
			words.WriteByte(' ')
		}
		words.WriteRune(unicode.ToLower(r))
	}
	return "The name of the " + words.String()
}
