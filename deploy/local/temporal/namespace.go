package temporal

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/server/common/log"
	"go.temporal.io/server/common/metrics"
	"go.temporal.io/server/common/persistence"
	"go.temporal.io/server/common/persistence/serialization"
	"go.temporal.io/server/common/persistence/sql"
	"go.temporal.io/server/common/resolver"
	"go.temporal.io/server/common/searchattribute/sadefs"
	schema "go.temporal.io/server/schema/sqlite"
	"google.golang.org/protobuf/types/known/durationpb"
)

// ensureNamespace creates the namespace unless it exists and gives it the
// search attributes it lacks. It works on the database of a server that does
// not run yet: a running one takes seconds to notice such changes.
func (db *database) ensureNamespace(ctx context.Context, c Config) error {
	factory := sql.NewFactory(*db.config, resolver.NewNoopResolver(), clusterName,
		log.NewNoopLogger(), metrics.NoopMetricsHandler, serialization.NewSerializer())
	defer factory.Close()
	store, err := factory.NewMetadataStore()
	if err != nil {
		return fmt.Errorf("namespace %s: %w", c.Namespace, err)
	}
	m := persistence.NewMetadataManagerImpl(store, serialization.NewSerializer(), log.NewNoopLogger(), clusterName)
	defer m.Close()

	ns, err := m.GetNamespace(ctx, &persistence.GetNamespaceRequest{Name: c.Namespace})
	var absent *serviceerror.NamespaceNotFound
	switch {
	case errors.As(err, &absent):
		err = createNamespace(ctx, m, c)
	case err == nil:
		err = addSearchAttributes(ctx, m, ns, c.SearchAttributes)
	}
	if err != nil {
		return fmt.Errorf("namespace %s: %w", c.Namespace, err)
	}
	return nil
}

func createNamespace(ctx context.Context, m persistence.MetadataManager, c Config) error {
	ns, err := schema.NewNamespaceConfig(clusterName, c.Namespace, false, nil)
	if err != nil {
		return err
	}
	if ns.Detail.Config.CustomSearchAttributeAliases, err = withAliases(nil, c.SearchAttributes); err != nil {
		return err
	}
	ns.Detail.Config.Retention = durationpb.New(c.Retention)
	_, err = m.CreateNamespace(ctx, &persistence.CreateNamespaceRequest{Namespace: ns.Detail})
	return err
}

func addSearchAttributes(ctx context.Context, m persistence.MetadataManager, ns *persistence.GetNamespaceResponse, want map[string]enumspb.IndexedValueType) error {
	cfg := ns.Namespace.Config
	aliases, err := withAliases(cfg.CustomSearchAttributeAliases, want)
	if err != nil || len(aliases) == len(cfg.CustomSearchAttributeAliases) {
		return err
	}
	metadata, err := m.GetMetadata(ctx)
	if err != nil {
		return err
	}
	cfg.CustomSearchAttributeAliases = aliases
	ns.Namespace.ConfigVersion++
	return m.UpdateNamespace(ctx, &persistence.UpdateNamespaceRequest{
		Namespace:           ns.Namespace,
		IsGlobalNamespace:   ns.IsGlobalNamespace,
		NotificationVersion: metadata.NotificationVersion,
	})
}

// withAliases returns the aliases, from database column to search attribute,
// with those of want that were missing. SQL has a fixed set of columns per
// type; when none is left, or an attribute is there with another type, that is
// an error.
func withAliases(aliases map[string]string, want map[string]enumspb.IndexedValueType) (map[string]string, error) {
	types := sadefs.GetDBIndexSearchAttributes(nil).CustomSearchAttributes
	columns := slices.Sorted(maps.Keys(types))

	all := make(map[string]string, len(aliases)+len(want))
	have := make(map[string]enumspb.IndexedValueType, len(aliases))
	for column, name := range aliases {
		all[column] = name
		have[name] = types[column]
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		t := want[name]
		if got, ok := have[name]; ok {
			if got != t {
				return nil, fmt.Errorf("search attribute %s is of type %v and cannot become %v", name, got, t)
			}
			continue
		}
		free := slices.IndexFunc(columns, func(c string) bool { return types[c] == t && all[c] == "" })
		if free < 0 {
			return nil, fmt.Errorf("search attribute %s: no more attributes of type %v possible", name, t)
		}
		all[columns[free]] = name
	}
	return all, nil
}
