package store

import (
	"context"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
)

// settingDoc tells of a tenant, or of the operator, that rules, hosts or the tenant itself are being changed, or have been.
// Who has read them under a version at which nothing was being changed needs not read them again as long as that stands.
type settingDoc struct {
	ID       string          `bson:"_id"`      // the tenant; settingsOfAll for the operator's rules
	Version  bson.ObjectID   `bson:"version"`  // another one when a change begins and when it ends; it says when
	Changing []bson.ObjectID `bson:"changing"` // the tokens of those that have begun and not ended
}

// settingsOfAll is no name of a tenant.
const settingsOfAll = "*"

func (s *Store) settings() *mongo.Collection { return s.db.Collection(settings) }

func settingID(tenant string) string {
	if tenant == "" {
		return settingsOfAll
	}
	return tenant
}

// ChangeSettings notes that a rule or host of a tenant, or the tenant, is about to change; tenant "" stands for the operator's
// rules. It comes before the write. The token is for SettingsChanged.
func (s *Store) ChangeSettings(ctx context.Context, tenant string) (token string, err error) {
	id := bson.NewObjectIDFromTimestamp(s.now())
	return id.Hex(), s.setSetting(ctx, tenant, "$push", id)
}

// SettingsChanged notes that a change is stored, and that all that follows from it is.
func (s *Store) SettingsChanged(ctx context.Context, tenant, token string) error {
	id, err := bson.ObjectIDFromHex(token)
	if err != nil {
		return fail.Wrap(err, fail.Internal, "%q is no token of a change", token)
	}
	return s.setSetting(ctx, tenant, "$pull", id)
}

func (s *Store) setSetting(ctx context.Context, tenant, list string, token bson.ObjectID) error {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	_, err := s.settings().UpdateOne(ctx, byID(settingID(tenant)), bson.D{
		{Key: list, Value: bson.D{{Key: "changing", Value: token}}},
		{Key: "$set", Value: bson.D{{Key: "version", Value: bson.NewObjectIDFromTimestamp(s.now())}}},
	}, options.UpdateOne().SetUpsert(true))
	return kindOf(err)
}

// SettingsVersion is a text that is another one when a setting of a tenant, or of the operator, may be. As long as one is being
// changed nothing that was read before can be relied on.
func (s *Store) SettingsVersion(ctx context.Context, tenant string) (version string, changing bool, err error) {
	for _, id := range []string{tenant, settingsOfAll} {
		var d settingDoc
		err := s.findOne(ctx, s.settings(), id, &d)
		if err != nil && !fail.Is(err, fail.NotFound) {
			return "", false, err
		}
		version += d.Version.Hex()
		changing = changing || len(d.Changing) > 0
	}
	return version, changing, nil
}

// UnfinishedSettings are the tenants ("" for the operator) whose settings are being changed for longer than that, as is when a
// process dies that changes them, with the tokens of those changes.
func (s *Store) UnfinishedSettings(ctx context.Context, longer time.Duration) (map[string][]string, error) {
	found, err := all[settingDoc](ctx, s, s.settings(), bson.D{})
	if err != nil {
		return nil, err
	}
	tokens := map[string][]string{}
	for _, d := range found {
		tenant := d.ID
		if tenant == settingsOfAll {
			tenant = ""
		}
		for _, token := range d.Changing {
			if s.now().Sub(token.Timestamp()) >= longer {
				tokens[tenant] = append(tokens[tenant], token.Hex())
			}
		}
	}
	return tokens, nil
}

// SweepSettings removes what is noted of tenants that are not there, unless something is being changed or was a moment ago. It returns how many. Of
// a tenant that gets such a name nothing is noted, as nothing was of the first one: what somebody has read of that one would be taken for the new
// one's. So the operator's version, which is a part of each, becomes another one first.
func (s *Store) SweepSettings(ctx context.Context, olderThan time.Duration) (removed int, err error) {
	found, err := all[settingDoc](ctx, s, s.settings(), bson.D{})
	if err != nil {
		return 0, err
	}
	before, told := s.now().Add(-olderThan), false
	for _, d := range found {
		if d.ID == settingsOfAll || len(d.Changing) > 0 || !d.Version.Timestamp().Before(before) {
			continue
		}
		if there, err := s.Exists(ctx, domain.Tenants, domain.TenantKey(d.ID)); err != nil {
			return removed, err
		} else if there {
			continue
		}
		if !told {
			if err := s.setSetting(ctx, "", "$pull", bson.NewObjectID()); err != nil {
				return removed, err
			}
			told = true
		}
		gone, err := s.deleteOne(ctx, s.settings(), append(byID(d.ID), bson.E{Key: "version", Value: d.Version}))
		if err != nil {
			return removed, err
		}
		if gone {
			removed++
		}
	}
	return removed, nil
}
