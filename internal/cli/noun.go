package cli

import (
	"slices"
	"strings"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/nearest"
)

// shown are the nouns that can be listed: the documents, and what is computed and has a list.
var shown = append(slices.Clone(domain.Nouns), domain.Operations, domain.Workloads, domain.Matches)

// words are what a noun is called by in full: its kind, also of one, its place in paths, its title and the title of many.
func words(n *domain.Noun) []string {
	title := slug(n.Title)
	return []string{n.Kind, one(n.Kind), n.Collection, title, many(title), kebab(n.Names[0]), many(kebab(n.Names[0]))}
}

// slug is a title as one word.
func slug(title string) string { return strings.ToLower(strings.ReplaceAll(title, " ", "-")) }

// aOf is one of a noun in a sentence: an app, a user permission.
func aOf(n *domain.Noun) string {
	article := "a "
	if strings.ContainsRune("aeio", rune(n.Title[0])) || strings.HasPrefix(n.Title, "hpa") {
		article = "an "
	}
	return article + n.Title
}

// many is the plural.
func many(word string) string {
	switch {
	case strings.HasSuffix(word, "y"):
		return strings.TrimSuffix(word, "y") + "ies"
	case strings.HasSuffix(word, "s"), strings.HasSuffix(word, "ch"):
		return word + "es"
	default:
		return word + "s"
	}
}

// one is the opposite of many.
func one(word string) string {
	switch {
	case strings.HasSuffix(word, "ies"):
		return strings.TrimSuffix(word, "ies") + "y"
	case strings.HasSuffix(word, "ches"):
		return strings.TrimSuffix(word, "es")
	case strings.HasSuffix(word, "ss"):
		return word
	default:
		return strings.TrimSuffix(word, "s")
	}
}

// kebab is compositeApp as composite-app.
func kebab(name string) string {
	var b strings.Builder
	for _, r := range name {
		if unicode.IsUpper(r) {
			b.WriteByte('-')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

// initials are the first letters of a title of several words: dig.
func initials(n *domain.Noun) string {
	parts := strings.Fields(strings.ToLower(n.Title))
	if len(parts) < 2 {
		return ""
	}
	var b strings.Builder
	for _, p := range parts {
		b.WriteByte(p[0])
	}
	return b.String()
}

// short is a noun's initials where they are no other's, "" otherwise.
func short(n *domain.Noun) string {
	in := initials(n)
	for _, other := range shown {
		if in != "" && other != n && (initials(other) == in || slices.Contains(words(other), in)) {
			return ""
		}
	}
	return in
}

// nounOf finds the noun that a word means: by its full names, by its initials (dig), or by the end of its title (group, where
// only one ends so). Of several the one that says which names are given beside it, such as the project, is meant.
func nounOf(word string, given func(called string) bool) (*domain.Noun, error) {
	word = strings.ToLower(strings.ReplaceAll(word, "_", "-"))
	for _, fits := range []func(*domain.Noun) bool{
		func(n *domain.Noun) bool { return n.Kind == word },
		func(n *domain.Noun) bool { return slices.Contains(words(n), word) },
		func(n *domain.Noun) bool { in := initials(n); return in != "" && (in == word || in+"s" == word) },
		func(n *domain.Noun) bool {
			return strings.HasSuffix(slug(n.Title), "-"+word) || strings.HasSuffix(many(slug(n.Title)), "-"+word)
		},
	} {
		var found []*domain.Noun
		for _, n := range shown {
			if fits(n) {
				found = append(found, n)
			}
		}
		if len(found) > 1 {
			found = among(found, given)
		}
		switch {
		case len(found) == 1:
			return found[0], nil
		case len(found) > 1:
			var kinds []string
			for _, n := range found {
				kinds = append(kinds, n.Kind)
			}
			return nil, usage("%q may be any of %s: name one of these", word, strings.Join(kinds, ", "))
		}
	}
	var all []string
	for _, n := range shown {
		all = append(all, words(n)...)
	}
	if near := nearest.Name(word, all); near != "" {
		return nil, usage("%q is no noun; did you mean %q? 'drover nouns' lists all", word, near)
	}
	return nil, usage("%q is no noun; see 'drover nouns'", word)
}

// among are, of several nouns of a word, those with the most of the names that are given, and no other parents.
func among(found []*domain.Noun, given func(called string) bool) []*domain.Noun {
	most, best := -1, []*domain.Noun(nil)
	for _, n := range found {
		count := 0
		for _, above := range n.Lineage()[:len(n.Lineage())-1] {
			for _, called := range above.Names {
				if !given(called) {
					count = -1
				}
				if count >= 0 {
					count++
				}
			}
		}
		switch {
		case count > most:
			most, best = count, []*domain.Noun{n}
		case count == most:
			best = append(best, n)
		}
	}
	if most < 0 {
		return found
	}
	return best
}

// names are the names in the keys of a noun, in order.
func names(n *domain.Noun) []string {
	var all []string
	for _, level := range n.Lineage() {
		all = append(all, level.Names...)
	}
	return all
}

// nouns is the command nouns.
func (s *session) nouns() *cobra.Command {
	return &cobra.Command{
		Use: "nouns", Aliases: []string{"api-resources"}, Short: "List what there is to get, with short names and paths", Args: noArguments,
		Example: "  drover nouns",
		RunE: func(*cobra.Command, []string) error {
			t := newTable(s.Out, "NOUN", "SHORT", "NAME")
			for _, n := range shown {
				t.row(n.Kind, short(n), strings.ToUpper(strings.Join(kebabs(names(n)), "/")))
			}
			return t.flush()
		},
	}
}

func kebabs(names []string) []string {
	all := make([]string, len(names))
	for i, n := range names {
		all[i] = kebab(n)
	}
	return all
}

func (s *session) completeNouns() []string {
	var all []string
	for _, n := range shown {
		all = append(all, n.Kind+"\t"+n.Title)
	}
	return all
}
