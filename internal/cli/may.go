package cli

import (
	"context"
	"net/url"
	"slices"
	"strings"

	"github.com/drover-io/drover/internal/client"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
)

// right is a verb of a noun in a scope: a project, a cluster provider, or "" for the fleet.
type right struct {
	verb  string
	noun  *domain.Noun
	scope domain.Key
}

// lacks asks the API which of the rights the caller does not have, "" for none. It is what the API decides by when it is asked for the
// things themselves.
func (s *session) lacks(ctx context.Context, api *client.API, rights ...right) (string, error) {
	var why []string
	for len(rights) > 0 {
		r := rights[0] // those of the same verb and scope are one question
		query := url.Values{"verb": {r.verb}}
		rights = slices.DeleteFunc(slices.Clone(rights), func(x right) bool {
			if x.verb != r.verb || x.scope != r.scope {
				return false
			}
			query.Add("noun", x.noun.Kind)
			return true
		})
		switch {
		case r.scope.Under(domain.Key(domain.Projects.Collection)):
			query.Set("project", r.scope.Name())
		case r.scope != "":
			query.Set("clusterProvider", r.scope.Name())
		}
		who, err := api.Whoami(ctx, query)
		if err != nil {
			return "", err
		}
		for _, of := range who.Rights {
			for _, denied := range of.MayNot {
				why = append(why, denied.Why)
			}
		}
	}
	return strings.Join(why, "; "), nil
}

// needs refuses, before anything is done, what the caller may not do to its end.
func (s *session) needs(ctx context.Context, api *client.API, rights ...right) error {
	lacks, err := s.lacks(ctx, api, rights...)
	if err == nil && lacks != "" {
		err = fail.New(fail.Forbidden, "%s; nothing is done", lacks)
	}
	return err
}
