package main

import (
	"fmt"
	"os"
	"strings"
)

// known reads the list of flaky tests: the rows of the first table of a Markdown file, `test`, when it was seen, its cause.
func known(file string) (map[string]bool, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	tests, rows := map[string]bool{}, -2 // the head and the line below it
	for line := range strings.Lines(string(data)) {
		row, is := strings.CutPrefix(strings.TrimSpace(line), "|")
		if !is {
			continue
		}
		if rows++; rows <= 0 {
			continue
		}
		cells := strings.Split(strings.TrimSuffix(row, "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		if len(cells) != 3 || cells[0] == "" || cells[1] == "" || cells[2] == "" || strings.HasPrefix(cells[2], unknown) {
			return nil, fmt.Errorf("%s: a row has a test, the day it was seen and its cause: %s", file, strings.TrimSpace(line))
		}
		tests[strings.Trim(cells[0], "`")] = true
	}
	return tests, nil
}

// unknown stands for the cause in a row that somebody has yet to explain.
const unknown = "?"

// row is how a test is put on the list.
func row(name, day string) string { return fmt.Sprintf("| `%s` | %s | %s |", name, day, unknown) }
