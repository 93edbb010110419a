// Command protogen generates the Go code of protocol files: protogen [-out <folder>] <folder> <file>... The code is written
// beside the files, or all of it into the folder that -out names. It stands for protoc, which is no Go program; the generators
// are those that go.mod pins.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/bufbuild/protocompile"
	"github.com/bufbuild/protocompile/protoutil"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/pluginpb"
)

var generators = []string{"protoc-gen-go", "protoc-gen-go-grpc"}

func main() {
	out := flag.String("out", "", "the folder for the code of all files")
	flag.Parse()
	if flag.NArg() < 2 {
		fmt.Fprintln(os.Stderr, "usage: protogen [-out <folder>] <folder> <file>...")
		os.Exit(2)
	}
	if err := run(context.Background(), *out, flag.Arg(0), flag.Args()[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "protogen:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out, folder string, files []string) error {
	compiler := protocompile.Compiler{
		Resolver:       protocompile.WithStandardImports(&protocompile.SourceResolver{ImportPaths: []string{folder}}),
		SourceInfoMode: protocompile.SourceInfoStandard, // comments
	}
	compiled, err := compiler.Compile(ctx, files...)
	if err != nil {
		return err
	}
	request := &pluginpb.CodeGeneratorRequest{FileToGenerate: files, Parameter: proto.String("paths=source_relative")}
	for _, f := range compiled {
		request.ProtoFile = append(request.ProtoFile, protoutil.ProtoFromFileDescriptor(f))
	}
	encoded, err := proto.Marshal(request)
	if err != nil {
		return err
	}
	for _, g := range generators {
		if err := generate(ctx, g, encoded, func(name string) string {
			if out != "" {
				return filepath.Join(out, filepath.Base(name))
			}
			return filepath.Join(folder, name)
		}); err != nil {
			return fmt.Errorf("%s: %w", g, err)
		}
	}
	return nil
}

// generate runs a generator and writes its files to where place says.
func generate(ctx context.Context, generator string, request []byte, place func(name string) string) error {
	cmd := exec.CommandContext(ctx, "go", "tool", generator)
	cmd.Stdin, cmd.Stderr = bytes.NewReader(request), os.Stderr
	answer, err := cmd.Output()
	if err != nil {
		return err
	}
	var response pluginpb.CodeGeneratorResponse
	if err := proto.Unmarshal(answer, &response); err != nil {
		return err
	}
	if response.Error != nil {
		return errors.New(response.GetError())
	}
	for _, f := range response.GetFile() {
		if err := os.WriteFile(place(f.GetName()), []byte(f.GetContent()), 0o644); err != nil {
			return err
		}
	}
	return nil
}
