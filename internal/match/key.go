package match

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Key is where a value of a workload is: the names on the way to it, from the outside in. An empty one is all of it.
type Key []string

// ParseKey reads a key. Examples: @, $, metadata.id, .metadata.id, $.state['nodeName'],
// state.extra.labels['app.kubernetes.io/name'], state.extra.labels.app\.kubernetes\.io/name.
//
// A name ends at a dot or an opening bracket; \ takes the next character as it is, in brackets too. Wildcards, indices,
// filters, unions, braces and empty names are refused. A key that leads nowhere is no error: its value is absent.
func ParseKey(s string) (Key, error) {
	if s == "@" || s == "$" {
		return Key{}, nil
	}
	p := keyParser{rest: s}
	rooted := p.take('@') || p.take('$')
	switch {
	case s == "":
		return nil, fmt.Errorf("is empty; use a path such as metadata.resourceNamespace, or @ for all of the workload")
	case rooted || p.sees('['):
	case p.take('.') && p.sees('['):
	default:
		if err := p.name(); err != nil {
			return nil, err
		}
	}
	for p.rest != "" {
		var err error
		switch {
		case p.take('.'):
			err = p.name()
		case p.take('['):
			err = p.quoted()
		default:
			err = fmt.Errorf("%q is not what may follow; use .name or ['name']", p.rest)
		}
		if err != nil {
			return nil, err
		}
	}
	return p.key, nil
}

// keyParser takes names off the rest of a key.
type keyParser struct {
	rest string
	key  Key
}

func (p *keyParser) sees(c byte) bool { return p.rest != "" && p.rest[0] == c }

func (p *keyParser) take(c byte) bool {
	if !p.sees(c) {
		return false
	}
	p.rest = p.rest[1:]
	return true
}

// next takes a character; plain says that it was behind a \. ok is false at the end.
func (p *keyParser) next() (c string, plain, ok bool, err error) {
	if plain = p.take('\\'); plain && p.rest == "" {
		return "", false, false, fmt.Errorf("ends with \\, which takes the next character as it is")
	}
	if p.rest == "" {
		return "", false, false, nil
	}
	_, size := utf8.DecodeRuneInString(p.rest)
	c, p.rest = p.rest[:size], p.rest[size:]
	return c, plain, true, nil
}

// notInNames are the characters that names outside of brackets have only behind a \.
const notInNames = "*{}()?]'\","

// name takes a name that is not in brackets.
func (p *keyParser) name() error {
	var name strings.Builder
	for !p.sees('.') && !p.sees('[') {
		c, plain, ok, err := p.next()
		if err != nil {
			return err
		}
		if !ok {
			break
		}
		if r, _ := utf8.DecodeRuneInString(c); !plain && (strings.ContainsRune(notInNames, r) || unicode.IsSpace(r) || unicode.IsControl(r)) {
			return fmt.Errorf("has %q, which a name has only in brackets, ['name'], or behind \\; wildcards, filters and braces are not supported", c)
		}
		name.WriteString(c)
	}
	return p.add(name.String())
}

// quoted takes what is in brackets, of which the first has been taken.
func (p *keyParser) quoted() error {
	quote := "'"
	if p.take('"') {
		quote = `"`
	} else if !p.take('\'') {
		return fmt.Errorf("has brackets without a name in quotes; use ['name']: indices, wildcards and filters are not supported")
	}
	var name strings.Builder
	for {
		c, plain, ok, err := p.next()
		switch {
		case err != nil:
			return err
		case !ok:
			return fmt.Errorf("has a bracket that is not closed by %s]", quote)
		case c == quote && !plain:
			if !p.take(']') {
				return fmt.Errorf("has a bracket that is not closed by %s]", quote)
			}
			return p.add(name.String())
		}
		name.WriteString(c)
	}
}

func (p *keyParser) add(name string) error {
	if name == "" {
		return fmt.Errorf("has an empty name")
	}
	p.key = append(p.key, name)
	return nil
}
