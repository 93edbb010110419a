package render

import (
	"fmt"
	"strings"

	"github.com/drover-io/drover/internal/limits"
)

// What is parsed is bounded before it is: parsers call themselves for each level, and what they make of a text is many
// times as large. Charts nest some ten levels deep; the largest files are CRDs, of less than a megabyte.
const maxNesting = 200

// checkSize refuses a file that is too large to be parsed.
func checkSize(name string, n int) error {
	if n > limits.Parsed {
		return fmt.Errorf("%s: %d bytes are more than the %d that are allowed", name, n, limits.Parsed)
	}
	return nil
}

// checkTemplate refuses a template that is too large, or whose blocks or parentheses are nested too deep.
func checkTemplate(name, text string) error {
	if err := checkSize(name, len(text)); err != nil {
		return err
	}
	var open []int // levels of each block that is open: "else if" is one more
	depth := 0
	for rest := text; ; {
		_, after, found := strings.Cut(rest, "{{")
		if !found {
			return nil
		}
		a := scanAction(after)
		rest = after[a.length:]
		switch {
		case a.opens:
			open = append(open, 1)
			depth++
		case a.chains && len(open) > 0:
			open[len(open)-1]++
			depth++
		case a.ends && len(open) > 0:
			depth -= open[len(open)-1]
			open = open[:len(open)-1]
		}
		if max(depth, a.parentheses) > maxNesting {
			line := 1 + strings.Count(text[:len(text)-len(rest)], "\n")
			return fmt.Errorf("%s:%d: blocks or parentheses are nested more than %d levels deep", name, line, maxNesting)
		}
	}
}

// action is what stands between braces.
type action struct {
	opens, chains, ends bool // begins a block, as one with "else if" in the block there is, ends one
	parentheses         int  // how deep they are nested
	length              int  // with the braces at its end
}

// scanAction reads one, from behind its opening braces to the end of the text if nothing closes it.
func scanAction(text string) (a action) {
	start := strings.TrimLeft(strings.TrimPrefix(text, "-"), " \t\r\n")
	if strings.HasPrefix(start, "/*") {
		if at := strings.Index(text, "*/"); at >= 0 {
			a.length = at + len("*/")
		} else {
			a.length = len(text)
		}
		return a
	}
	first, behind := word(start)
	switch first {
	case "if", "range", "with", "define", "block":
		a.opens = true
	case "else":
		second, _ := word(strings.TrimLeft(behind, " \t\r\n"))
		a.chains = second == "if" || second == "with"
	case "end":
		a.ends = true
	}
	depth := 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '"', '\'', '`':
			i += quoted(text[i:]) - 1
		case '(':
			depth++
			a.parentheses = max(a.parentheses, depth)
		case ')':
			depth--
		case '}':
			if strings.HasPrefix(text[i:], "}}") {
				a.length = i + len("}}")
				return a
			}
		}
	}
	a.length = len(text)
	return a
}

// word cuts the letters from the front of a text.
func word(text string) (letters, rest string) {
	n := 0
	for n < len(text) && 'a' <= text[n] && text[n] <= 'z' {
		n++
	}
	return text[:n], text[n:]
}

// quoted is the length of the constant at the front of a text, of all of it when nothing closes it.
func quoted(text string) int {
	for i := 1; i < len(text); i++ {
		switch {
		case text[i] == text[0]:
			return i + 1
		case text[i] == '\\' && text[0] != '`':
			i++
		}
	}
	return len(text)
}
