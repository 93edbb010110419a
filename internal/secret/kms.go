package secret

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	kmsapi "k8s.io/kms/apis/v2"
	"k8s.io/kms/pkg/util"

	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/lru"
	"github.com/drover-io/drover/internal/policy"
)

// kms is a service of keys that is asked by a plugin of Kubernetes' KMS v2 (k8s.io/kms): Status, Encrypt and Decrypt by gRPC on a socket of
// this host. The service may have many keys, one after the other: a name of one is "<name of the KMS>@<key_id>".
type kms struct {
	id, address string
	conn        *grpc.ClientConn
	api         kmsapi.KeyManagementServiceClient
	tell        func(error) // when it begins not to answer, and nil when that is over

	looking sync.Mutex // who asks for its status

	mu        sync.Mutex
	sealing   string    // the name of the key that seals now, "" until it is known
	next      time.Time // when it is asked again
	away      silence   // of all that it is asked
	unsealing silence   // of sealing alone
	without   *lru.Cache[string, refusal]
}

// silence is that something was asked for and could not be had.
type silence struct {
	problem error // nil when it could
	since   time.Time
}

// lately is why it was not to be had a moment ago, nil when that is longer ago.
func (s *silence) lately() error {
	if time.Since(s.since) >= policy.KMSAgain {
		return nil
	}
	return s.problem
}

// refusal is of a data key that is not opened, while others are.
type refusal struct {
	err   error
	until time.Time
}

// refusals is how many are remembered.
const refusals = 4096

// What a KMS may answer, in bytes: names of keys that are longer are told apart by their digest, and of what it has sealed each thing that
// is sealed has a copy.
const (
	longestKeyID = 128
	mostWrapped  = 8 << 10
)

// kmsScheme is what addresses of a KMS begin with.
const kmsScheme = "unix://"

// newKMS makes a client, which connects when it is first used.
func newKMS(id, address string, tell func(error)) (*kms, error) {
	socket, err := socketOf(address)
	if err != nil {
		return nil, err
	}
	conn, err := grpc.NewClient("passthrough:///"+socket,
		grpc.WithTransportCredentials(insecure.NewCredentials()), // a socket of this host
		grpc.WithAuthority("localhost"),
		grpc.WithContextDialer(func(ctx context.Context, socket string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		}),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.Config{BaseDelay: policy.KMSAgain / 4, Multiplier: 2, MaxDelay: policy.KMSAgain}, MinConnectTimeout: policy.KMSCall}),
	)
	if err != nil {
		return nil, err
	}
	return &kms{id: id, address: address, conn: conn, api: kmsapi.NewKeyManagementServiceClient(conn), tell: tell, without: lru.New[string, refusal](refusals)}, nil
}

// socketOf is where the plugin listens: a path, or @name of an abstract socket.
func socketOf(address string) (string, error) {
	socket, err := util.ParseEndpoint(address)
	if err == nil && !strings.HasPrefix(address, kmsScheme+"/") {
		err = errors.New("the path of its socket is not absolute: unix:///path")
	}
	return socket, err
}

// name is that of one of its keys.
func (k *kms) name(keyID string) string {
	if len(keyID) <= longestKeyID && strings.IndexFunc(keyID, func(r rune) bool { return r <= ' ' || r > '~' }) < 0 {
		return k.id + "@" + keyID
	}
	sum := sha256.Sum256([]byte(keyID))
	return k.id + "@sha256:" + hex.EncodeToString(sum[:16])
}

// now is the name of the key that seals, which is asked now and then. It is the KMS' own one as long as none is known.
func (k *kms) now() string {
	if k.looking.TryLock() { // else another one asks
		k.mu.Lock()
		due := !time.Now().Before(k.next)
		k.mu.Unlock()
		if due && k.look() != nil { // which is remembered
			k.mu.Lock()
			k.next = time.Now().Add(policy.KMSLookAgain)
			k.mu.Unlock()
		}
		k.looking.Unlock()
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.sealing == "" {
		return k.id
	}
	return k.sealing
}

// look asks which key seals, and whether all is well.
func (k *kms) look() error {
	return k.call(&k.away, "say how it is", func(ctx context.Context) error {
		s, err := k.api.Status(ctx, &kmsapi.StatusRequest{})
		switch {
		case err != nil:
			return err
		case s.GetVersion() != "v2" && s.GetVersion() != "v2beta1":
			return fmt.Errorf("it speaks version %q of the protocol, not v2", s.GetVersion())
		case s.GetHealthz() != "ok":
			return fmt.Errorf("it says of itself: %q", s.GetHealthz())
		case s.GetKeyId() == "":
			return errors.New("it does not say which key seals")
		}
		k.sealsWith(k.name(s.GetKeyId()))
		return nil
	})
}

// call asks the KMS for something, unless that was not to be had a moment ago. The error is Unavailable.
func (k *kms) call(of *silence, what string, ask func(context.Context) error) error {
	k.mu.Lock()
	problem := of.lately()
	k.mu.Unlock()
	if problem != nil {
		return problem
	}
	ctx, cancel := context.WithTimeout(context.Background(), policy.KMSCall)
	defer cancel()
	err := ask(ctx)
	if err != nil {
		err = fail.Wrap(err, fail.Unavailable, "the KMS %q (%s) cannot %s: %s", k.id, k.address, what, status.Convert(err).Message())
	}
	k.mu.Lock()
	before := k.problem()
	*of = silence{err, time.Now()}
	if err == nil && of == &k.unsealing { // which takes all that there is
		k.away = silence{}
	}
	now := k.problem()
	k.mu.Unlock()
	if (before == nil) != (now == nil) && k.tell != nil {
		k.tell(now)
	}
	return err
}

// problem is what cannot be had of it, with mu held.
func (k *kms) problem() error { return cmp.Or(k.away.problem, k.unsealing.problem) }

// wrap seals a data key, and has it opened again: nothing may be sealed that nobody can open.
func (k *kms) wrap(dataKey []byte) (name string, wrapped []byte, err error) {
	err = k.call(&k.unsealing, "seal a data key", func(ctx context.Context) error {
		r, err := k.api.Encrypt(ctx, &kmsapi.EncryptRequest{Plaintext: dataKey, Uid: rand.Text()})
		if err != nil {
			return err
		}
		if wrapped, err = proto.Marshal(r); err != nil {
			return err
		}
		name = k.name(r.GetKeyId())
		if r.GetKeyId() == "" || len(wrapped) > mostWrapped {
			return fmt.Errorf("its answer of %d bytes for the key %q is none: there must be a key, and %d bytes at most", len(wrapped), r.GetKeyId(), mostWrapped)
		}
		again, err := k.decrypt(ctx, r)
		if err == nil && !bytes.Equal(again, dataKey) {
			err = errors.New("it does not open what it has sealed")
		}
		return err
	})
	if err != nil {
		return "", nil, err
	}
	k.sealsWith(name) // its status may be late
	return name, wrapped, nil
}

func (k *kms) sealsWith(name string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.sealing, k.next = name, time.Now().Add(policy.KMSLook)
}

func (k *kms) decrypt(ctx context.Context, sealed *kmsapi.EncryptResponse) ([]byte, error) {
	r, err := k.api.Decrypt(ctx, &kmsapi.DecryptRequest{
		Ciphertext: sealed.GetCiphertext(), Uid: rand.Text(), KeyId: sealed.GetKeyId(), Annotations: sealed.GetAnnotations(),
	})
	return r.GetPlaintext(), err
}

// unwrap opens a data key. Who has a key no longer says so by errors that others have for another reason: so, what it does not open twice, and
// between these seals and opens another one, has a key that it does not have (ErrNoKey). That is remembered for a while.
func (k *kms) unwrap(name string, wrapped []byte) ([]byte, error) {
	sealed := &kmsapi.EncryptResponse{}
	if err := proto.Unmarshal(wrapped, sealed); err != nil || k.name(sealed.GetKeyId()) != name {
		return nil, fail.New(fail.Internal, "the sealed data is damaged: its data key is not of the key %q", name)
	}
	if r, ok := k.without.Get(string(wrapped)); ok && time.Now().Before(r.until) {
		return nil, r.err
	}
	dataKey, refused, err := k.open(sealed)
	if err != nil || refused == nil {
		return dataKey, err
	}
	if damaged(refused) {
		return nil, fail.Wrap(refused, fail.Internal, "the KMS %q (%s) cannot open what the key %q has sealed: %s", k.id, k.address, name, status.Convert(refused).Message())
	}
	probe := make([]byte, keySize)
	if _, err := rand.Read(probe); err != nil {
		return nil, err
	}
	if _, _, err := k.wrap(probe); err != nil {
		return nil, err
	}
	if dataKey, refused, err = k.open(sealed); err != nil || refused == nil {
		return dataKey, err
	}
	err = fail.Wrap(fmt.Errorf("%w: %w", ErrNoKey, refused), fail.Internal, "the KMS %q (%s) does not open what the key %q has sealed: %s", k.id, k.address, name, status.Convert(refused).Message())
	k.without.Add(string(wrapped), refusal{err, time.Now().Add(policy.KMSLook)})
	return nil, err
}

// open asks for a data key. Refused is why it is not opened by a KMS that has answered.
func (k *kms) open(sealed *kmsapi.EncryptResponse) (dataKey []byte, refused, err error) {
	err = k.call(&k.away, "open a data key", func(ctx context.Context) error {
		var err error
		dataKey, err = k.decrypt(ctx, sealed)
		switch status.Code(err) {
		case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled, codes.ResourceExhausted, codes.Aborted:
			return err
		default:
			refused = err
			return nil
		}
	})
	return dataKey, refused, err
}

// damaged says whether a refusal is of what was sealed, and not of the key.
func damaged(refused error) bool {
	switch status.Code(refused) {
	case codes.InvalidArgument, codes.OutOfRange, codes.DataLoss:
		return true
	default:
		return false
	}
}

// unanswered is what cannot be had of it, nil when all can.
func (k *kms) unanswered() error {
	k.now()
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.problem()
}

func (k *kms) close() error { return k.conn.Close() }
