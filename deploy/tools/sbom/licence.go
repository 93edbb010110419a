package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// allowed are the licences of what may be in a binary, by SPDX: they ask for no more than to be named. Of a module that has several one
// has to be among them.
var allowed = []string{"Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "CC0-1.0", "ISC", "MIT", "MIT-0", "MPL-2.0", "Unlicense"}

// excused are modules that say nothing of a licence, with why they are taken all the same.
var excused = map[string]string{
	"github.com/nexus-rpc/nexus-proto-annotations": "options of protocol buffers that go.temporal.io/api (MIT) comes with; its authors are to be asked for a licence",
}

// known are the words by which licences are known, the most special ones first.
var known = []struct{ id, words string }{
	{"MPL-2.0", "mozilla public license version 2.0"},
	{"AGPL-3.0-only", "gnu affero general public license"},
	{"LGPL-3.0-only", "gnu lesser general public license"},
	{"GPL-3.0-only", "gnu general public license version 3"},
	{"GPL-2.0-only", "gnu general public license version 2"},
	{"BUSL-1.1", "business source license"},
	{"SSPL-1.0", "server side public license"},
	{"Apache-2.0", "apache license version 2.0"},
	{"CC0-1.0", "cc0 1.0 universal"},
	{"Unlicense", "this is free and unencumbered software released into the public domain"},
	{"ISC", "permission to use copy modify and or distribute this software for any purpose with or without fee is hereby granted"},
	{"BSD-3-Clause", "redistribution and use in source and binary forms with or without modification are permitted provided that the following conditions are met" +
		".*neither the names? of"},
	{"BSD-2-Clause", "redistribution and use in source and binary forms with or without modification are permitted provided that the following conditions are met"},
	{"MIT", "permission is hereby granted free of charge to any person obtaining a copy of this software and associated documentation files.*" +
		"the above copyright notice and this permission notice shall be included"},
	{"MIT-0", "permission is hereby granted free of charge to any person obtaining a copy of this software and associated documentation files"},
}

// sameFamily are those of which the special one has the words of the others, too.
var sameFamily = map[string][]string{
	"BSD-3-Clause": {"BSD-2-Clause"}, "MIT": {"MIT-0"}, "AGPL-3.0-only": {"GPL-3.0-only"}, "LGPL-3.0-only": {"GPL-3.0-only"},
	"MPL-2.0": {"AGPL-3.0-only", "LGPL-3.0-only", "GPL-3.0-only", "GPL-2.0-only"},
}

var patterns = func() (all []*regexp.Regexp) {
	for _, k := range known {
		all = append(all, regexp.MustCompile(k.words))
	}
	return all
}()

var notWords = regexp.MustCompile(`[^a-z0-9.]+`)

// fileNames are those that licences have.
var fileNames = regexp.MustCompile(`(?i)^(un)?(licen[cs]e|copying)([-._].*)?$`)

// licencesOf are the licences in the files at the top of a module.
func licencesOf(folder string) ([]string, error) {
	if folder == "" {
		return nil, errors.New("its source is not there: go mod download fetches it")
	}
	files, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	var found, names []string
	for _, f := range files {
		if f.IsDir() || !fileNames.MatchString(f.Name()) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(folder, f.Name()))
		if err != nil {
			return nil, err
		}
		names = append(names, f.Name())
		for _, id := range classify(string(text)) {
			if !slices.Contains(found, id) {
				found = append(found, id)
			}
		}
	}
	slices.Sort(found)
	switch {
	case len(names) == 0:
		return nil, errors.New("it has no file with a licence")
	case len(found) == 0:
		return nil, fmt.Errorf("the licence in %s is not known", strings.Join(names, ", "))
	}
	return found, nil
}

// classify names the licences whose words are in a text.
func classify(text string) (found []string) {
	words := notWords.ReplaceAllString(strings.ToLower(text), " ")
	for i, p := range patterns {
		id := known[i].id
		if slices.ContainsFunc(found, func(special string) bool { return slices.Contains(sameFamily[special], id) }) {
			continue
		}
		if p.MatchString(words) {
			found = append(found, id)
		}
	}
	return found
}
