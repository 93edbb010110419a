package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
)

const (
	mit = `MIT License. Copyright (c) X. Permission is hereby granted, free of charge, to any person obtaining a copy
of this software and associated documentation files (the "Software"), to deal ... The above copyright notice and this
permission notice shall be included in all copies.`
	bsd2 = `Redistribution and use in source and binary forms, with or without
modification, are permitted provided that the following conditions are met: 1. ...`
	bsd3   = bsd2 + "\n3. Neither the name of the copyright holder nor ..."
	apache = "                                 Apache License\n                           Version 2.0, January 2004"
	gpl    = "GNU GENERAL PUBLIC LICENSE\n   Version 3, 29 June 2007"
)

func TestClassify(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want []string
	}{
		"mit": {mit, []string{"MIT"}}, "bsd2": {bsd2, []string{"BSD-2-Clause"}}, "bsd3": {bsd3, []string{"BSD-3-Clause"}}, "apache": {apache, []string{"Apache-2.0"}},
		"gpl": {gpl, []string{"GPL-3.0-only"}}, "both": {mit + apache, []string{"Apache-2.0", "MIT"}}, "none": {"All rights reserved.", nil},
	} {
		if got := classify(c.text); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v in place of %v", name, got, c.want)
		}
	}
}

// TestDescribe: each module is there with its licences, in an order of its own; those that are not allowed, not known or not there are
// said, all of them.
func TestDescribe(t *testing.T) {
	folders := map[string]string{}
	module := func(path, file, text string) *debug.Module {
		folder := t.TempDir()
		if file != "" {
			if err := os.WriteFile(filepath.Join(folder, file), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		folders[path+"@v1.0.0"] = folder
		return &debug.Module{Path: path, Version: "v1.0.0", Sum: "h1:AAAA"}
	}
	info := &debug.BuildInfo{
		GoVersion: "go1.26", Main: debug.Module{Version: "v0.1.0"}, Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "abc"}, {Key: "-ldflags", Value: "x"}},
		Deps: []*debug.Module{
			module("b.example/mit", "LICENSE", mit), module("a.example/apache", "LICENSE.txt", apache), module("c.example/gpl", "COPYING", gpl),
			module("d.example/none", "", ""), module("e.example/unknown", "LICENCE", "All rights reserved."), {Path: "f.example/away", Version: "v1.0.0"},
			{Path: "g.example/old", Version: "v0.0.0", Replace: module("g.example/fork", "License.md", gpl+mit)},
		},
	}
	d, wrong := describe(info, [32]byte{1}, "drover", folders)
	var names []string
	for _, c := range d.Components {
		names = append(names, c.Name)
	}
	if want := []string{"a.example/apache", "b.example/mit", "c.example/gpl", "d.example/none", "e.example/unknown", "f.example/away", "g.example/fork", "std"}; !slices.Equal(names, want) {
		t.Errorf("%v in place of %v", names, want)
	}
	if said := strings.Join(wrong, "\n"); len(wrong) != 4 || !strings.Contains(said, "c.example/gpl@v1.0.0: none of its licences is one of") ||
		!strings.Contains(said, "d.example/none@v1.0.0: it has no file") || !strings.Contains(said, "e.example/unknown@v1.0.0: the licence in LICENCE is not known") ||
		!strings.Contains(said, "f.example/away@v1.0.0: its source is not there") {
		t.Errorf("%s", said)
	}
	again, _ := describe(info, [32]byte{1}, "drover", folders)
	one, _ := json.Marshal(d)
	two, _ := json.Marshal(again)
	if !bytes.Equal(one, two) {
		t.Error("it is not the same twice")
	}
	for _, part := range []string{`"bomFormat":"CycloneDX"`, `"specVersion":"1.6"`, `"purl":"pkg:golang/b.example/mit@v1.0.0"`, `"licenses":[{"license":{"id":"MIT"}}]`, `"value":"abc"`} {
		if !bytes.Contains(one, []byte(part)) {
			t.Errorf("%s is missing in %s", part, one)
		}
	}
}
