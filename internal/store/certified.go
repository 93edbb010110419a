package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/drover-io/drover/internal/domain"
)

// certificate tells of a certificate of a logical cloud's user, by whom it was given in a cluster, until it expires. It outlives cloud, project and the
// cluster's registration. Whose name it is for, its id says to nobody who has not the root secret.
type certificate struct {
	ID      string     `bson:"_id"` // certificatesOf, the scope, and when it expires, in s since 1970
	Scope   domain.Key `bson:"scope"`
	Expires time.Time  `bson:"expires"`
}

func (s *Store) certificates() *mongo.Collection { return s.db.Collection(certificates) }

// certificatesOf is what the ids of all certificates begin with that a cluster has signed for a user.
func (s *Store) certificatesOf(ctx context.Context, c domain.ClusterName, user string) (string, error) {
	r, err := s.rooted(ctx)
	if err != nil {
		return "", err
	}
	return string(r.digestOf([]byte("certificate\x00" + string(c.Key()) + "\x00" + user))), nil
}

// PutCertified notes that clusters have signed certificates for users. Those that are noted stay as they are.
func (s *Store) PutCertified(ctx context.Context, all ...domain.Certified) error {
	if len(all) == 0 {
		return nil
	}
	notes := make([]certificate, len(all))
	for i, is := range all {
		of, err := s.certificatesOf(ctx, is.Cluster, is.User)
		if err != nil {
			return err
		}
		notes[i] = certificate{ID: fmt.Sprintf("%s/%s/%d", of, is.Scope, is.Expires.Unix()), Scope: is.Scope, Expires: is.Expires.UTC()}
	}
	for _, err := range insertMany(ctx, s, s.certificates(), notes) {
		if err != nil && !errors.Is(err, errTaken) {
			return err
		}
	}
	return nil
}

// Certified are the certificates of a user that a cluster has signed, and that are good at a time.
func (s *Store) Certified(ctx context.Context, c domain.ClusterName, user string, at time.Time) ([]domain.Certified, error) {
	of, err := s.certificatesOf(ctx, c, user)
	if err != nil {
		return nil, err
	}
	found, err := all[certificate](ctx, s, s.certificates(), below(of))
	if err != nil {
		return nil, err
	}
	var good []domain.Certified
	for _, one := range found {
		if one.Expires.After(at) {
			good = append(good, domain.Certified{Cluster: c, User: user, Scope: one.Scope, Expires: one.Expires})
		}
	}
	return good, nil
}

// SweepCertified forgets certificates that had expired by a time.
func (s *Store) SweepCertified(ctx context.Context, at time.Time) error {
	return s.deleteMany(ctx, s.certificates(), bson.D{{Key: "expires", Value: bson.D{{Key: "$lt", Value: at}}}})
}
