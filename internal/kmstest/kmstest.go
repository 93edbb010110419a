// Package kmstest is a service of keys (KMS) of a test's own, behind the plugin interface of Kubernetes (KMS v2), on a socket as a real
// plugin has one. It may be made to fail as real ones do.
package kmstest

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"fmt"
	"net"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	kmsapi "k8s.io/kms/apis/v2"
	"k8s.io/kms/pkg/service"
)

// KMS is the service, with its plugin.
type KMS struct {
	t      testing.TB
	socket string
	server *grpc.Server // nil while it is stopped

	mu      sync.Mutex
	keys    map[string]cipher.AEAD
	sealing string
	asked   map[string]int
	hangs   chan struct{} // nil, or closed when it does not hang any more
	lies    Lie
}

// Lie is what a broken plugin answers.
type Lie struct {
	Healthz, Version string // in place of "ok" and "v2"
	NoKey            bool   // it names no key
	Forgetful        bool   // it seals, and opens something else
	Large            bool   // what it has sealed is endless
	Err              error  // it answers that to everything but the question how it is
	Refuses          string // Err is of what this key has sealed, and of nothing else
	Once             error  // it answers that to the first question that is not how it is
}

// Start has one listen that has the key "1".
func Start(t testing.TB) *KMS {
	t.Helper()
	k := &KMS{t: t, socket: filepath.Join(t.TempDir(), "kms.sock"), keys: map[string]cipher.AEAD{}, asked: map[string]int{}}
	k.Rotate("1")
	k.Listen()
	t.Cleanup(k.Stop)
	return k
}

// Line is the line of a file of keys that names it.
func (k *KMS) Line(id string) string { return id + ":unix://" + k.socket }

// Rotate has another key seal from now on; those of before go on opening.
func (k *KMS) Rotate(keyID string) {
	k.t.Helper()
	key := make([]byte, 32)
	_, err := rand.Read(key)
	require.NoError(k.t, err)
	block, err := aes.NewCipher(key)
	require.NoError(k.t, err)
	aead, err := cipher.NewGCMWithRandomNonce(block)
	require.NoError(k.t, err)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.keys[keyID], k.sealing = aead, keyID
}

// Disable has a key open nothing any more, until what it returns is called.
func (k *KMS) Disable(keyID string) (enable func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	key := k.keys[keyID]
	delete(k.keys, keyID)
	return func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.keys[keyID] = key
	}
}

// Listen starts the plugin again.
func (k *KMS) Listen() {
	k.t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "unix", k.socket)
	require.NoError(k.t, err)
	server := grpc.NewServer()
	kmsapi.RegisterKeyManagementServiceServer(server, service.NewGRPCService(k.socket, time.Minute, k))
	k.server = server
	go func() { _ = server.Serve(listener) }() // ends with Stop
}

// Stop ends the plugin, and with it its connections.
func (k *KMS) Stop() {
	k.Answer()
	if k.server != nil {
		k.server.Stop()
		k.server = nil
	}
}

// Hang has it answer nothing until Answer.
func (k *KMS) Hang() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.hangs = make(chan struct{})
}

// Answer ends Hang.
func (k *KMS) Answer() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.hangs != nil {
		close(k.hangs)
		k.hangs = nil
	}
}

// Lie has it answer what a broken one does.
func (k *KMS) Lie(l Lie) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.lies = l
}

// Asked is how often it was asked since the last call: Status, Encrypt, Decrypt.
func (k *KMS) Asked() map[string]int {
	k.mu.Lock()
	defer k.mu.Unlock()
	asked := k.asked
	k.asked = map[string]int{}
	return asked
}

// begin counts a question and waits while nothing is answered.
func (k *KMS) begin(ctx context.Context, what string) (Lie, error) {
	k.mu.Lock()
	k.asked[what]++
	hangs, lies := k.hangs, k.lies
	k.mu.Unlock()
	if hangs != nil {
		select {
		case <-hangs:
		case <-ctx.Done():
			return lies, ctx.Err()
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	switch once := k.lies.Once; {
	case what == "Status":
		return lies, nil
	case once != nil:
		k.lies.Once = nil
		return lies, once
	case lies.Refuses != "":
		return lies, nil
	default:
		return lies, lies.Err
	}
}

// Status implements service.Service.
func (k *KMS) Status(ctx context.Context) (*service.StatusResponse, error) {
	lie, err := k.begin(ctx, "Status")
	if err != nil {
		return nil, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	r := &service.StatusResponse{Version: "v2", Healthz: "ok", KeyID: k.sealing}
	if lie.Healthz != "" {
		r.Healthz = lie.Healthz
	}
	if lie.Version != "" {
		r.Version = lie.Version
	}
	if lie.NoKey {
		r.KeyID = ""
	}
	return r, nil
}

// annotation is what plugins keep beside what they have sealed, such as the version of a key.
const annotation = "nonce.kmstest.drover.io"

// Encrypt implements service.Service.
func (k *KMS) Encrypt(ctx context.Context, uid string, data []byte) (*service.EncryptResponse, error) {
	lie, err := k.begin(ctx, "Encrypt")
	if err != nil {
		return nil, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	r := &service.EncryptResponse{Ciphertext: k.keys[k.sealing].Seal(nil, nil, data, []byte(uid)), KeyID: k.sealing, Annotations: map[string][]byte{annotation: []byte(uid)}}
	if lie.NoKey {
		r.KeyID = ""
	}
	if lie.Large {
		r.Ciphertext = bytes.Repeat(r.Ciphertext, 1000)
	}
	return r, nil
}

// Decrypt implements service.Service. Its errors have no codes, as those of most plugins.
func (k *KMS) Decrypt(ctx context.Context, _ string, r *service.DecryptRequest) ([]byte, error) {
	lie, err := k.begin(ctx, "Decrypt")
	if err != nil {
		return nil, err
	}
	k.mu.Lock()
	key := k.keys[r.KeyID]
	k.mu.Unlock()
	if key == nil {
		return nil, fmt.Errorf("key version %q is disabled", r.KeyID)
	}
	if lie.Refuses == r.KeyID {
		return nil, lie.Err
	}
	if lie.Forgetful {
		return make([]byte, 32), nil
	}
	return key.Open(nil, nil, r.Ciphertext, r.Annotations[annotation])
}
