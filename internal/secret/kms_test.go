package secret_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/idle"
	"github.com/drover-io/drover/internal/kmstest"
	"github.com/drover-io/drover/internal/policy"
	"github.com/drover-io/drover/internal/secret"
)

// with is a Sealer that is closed when the test ends.
func with(t *testing.T, lines ...string) *secret.Sealer {
	t.Helper()
	s := parse(t, strings.Join(lines, "\n"))
	t.Cleanup(s.Close)
	return s
}

func seal(t *testing.T, s *secret.Sealer, plain string) []byte {
	t.Helper()
	data, err := s.SealBytes("x", []byte(plain))
	require.NoError(t, err)
	return data
}

func opens(t *testing.T, s *secret.Sealer, data []byte, want string) {
	t.Helper()
	plain, err := s.OpenBytes("x", data)
	require.NoError(t, err)
	require.Equal(t, want, string(plain))
}

func keyOf(t *testing.T, data []byte) string {
	t.Helper()
	key, ok := secret.KeyOf(data)
	require.True(t, ok)
	return key
}

// TestAKMSSeals: what it has sealed a process opens that has never sealed, each data key by one question, and its keys have names of their own.
func TestAKMSSeals(t *testing.T) {
	kms := kmstest.Start(t)
	s := with(t, kms.Line("vault"))
	var all [][]byte
	for range 100 {
		all = append(all, seal(t, s, "plain"))
	}
	require.Equal(t, map[string]int{"Encrypt": 1, "Decrypt": 1}, kms.Asked(), "it is looked once whether it opens what it seals")
	require.Equal(t, "vault@1", keyOf(t, all[0]))
	reader := with(t, keyLine("file", 1), kms.Line("vault"))
	var readers sync.WaitGroup
	for _, data := range all {
		readers.Go(func() {
			plain, err := reader.OpenBytes("x", data)
			if err != nil || string(plain) != "plain" {
				t.Error(string(plain), err)
			}
		})
	}
	readers.Wait()
	require.Equal(t, map[string]int{"Decrypt": 1}, kms.Asked(), "many who need a data key at once ask once")
	_, err := with(t, keyLine("file", 1)).OpenBytes("x", all[0])
	require.ErrorIs(t, err, secret.ErrNoKey)
	require.ErrorContains(t, err, `"vault@1" is not configured`)

	kms.Rotate("2")
	require.Equal(t, "vault@1", keyOf(t, seal(t, s, "plain")))
	secret.Look(s)
	require.Equal(t, "vault@2", keyOf(t, seal(t, s, "plain")), "the next look finds the key that seals now")
	require.Equal(t, "vault@2", s.Keeper().Sealing())
	opens(t, reader, seal(t, s, "of the second key"), "of the second key")
	opens(t, with(t, kms.Line("vault")), all[0], "plain")

	long := strings.Repeat("arn:aws:kms:eu-central-1:", 30)
	kms.Rotate(long)
	secret.Look(s)
	sealed := seal(t, s, "plain")
	require.Regexp(t, `^vault@sha256:[0-9a-f]{32}$`, keyOf(t, sealed))
	opens(t, with(t, kms.Line("vault")), sealed, "plain")
}

// TestKeysMoveToAKMS and back, by lines of the file, as from one key to another.
func TestKeysMoveToAKMS(t *testing.T) {
	t.Parallel()
	kms, path := kmstest.Start(t), filepath.Join(t.TempDir(), "keys")
	write := func(lines ...string) {
		require.NoError(t, os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o600))
	}
	write(keyLine("file", 1))
	s, err := secret.ReadFile(path)
	require.NoError(t, err)
	t.Cleanup(s.Close)
	before := seal(t, s, "before")
	write(kms.Line("vault"), keyLine("file", 1))
	require.Eventually(t, func() bool { return s.Keeper().Sealing() == "vault@1" }, 10*time.Second, 10*time.Millisecond)
	then := seal(t, s, "then")
	require.Equal(t, "vault@1", keyOf(t, then))
	opens(t, s, before, "before")

	_, err = secret.Drop(path, "file")
	require.NoError(t, err)
	opens(t, with(t, kms.Line("vault")), then, "then")
	require.NoError(t, secret.PutBack(path, "file"))
	write(keyLine("file", 1), kms.Line("vault"))
	require.Eventually(t, func() bool { return s.Keeper().Sealing() == "file" }, 10*time.Second, 10*time.Millisecond)
	require.Equal(t, "file", keyOf(t, seal(t, s, "plain")))
	kept, err := secret.Drop(path, "vault")
	require.NoError(t, err)
	text, err := os.ReadFile(kept)
	require.NoError(t, err)
	require.Equal(t, kms.Line("vault")+"\n", string(text))
	write(keyLine("file", 1), kms.Line("vault"), "vault@1"+keyLine("", 2))
	_, err = secret.ReadFile(path)
	require.ErrorContains(t, err, `"vault@1" would be one of the KMS "vault"`)
}

// TestAKMSThatIsAway: what is known goes on, sealing too for half the life of a data key at least; the rest waits for it.
func TestAKMSThatIsAway(t *testing.T) {
	t.Parallel()
	kms := kmstest.Start(t)
	s, late := with(t, kms.Line("vault")), with(t, kms.Line("vault"))
	var told []error
	ring := s.Keeper().(*secret.Ring)
	ring.Tell(func(err error) { told = append(told, err) })
	known := seal(t, s, "plain")
	require.NoError(t, ring.Problem())
	kms.Stop()
	secret.Look(s)
	opens(t, s, known, "plain")
	opens(t, s, seal(t, s, "more"), "more")
	require.True(t, fail.Is(ring.Problem(), fail.Unavailable))
	require.ErrorContains(t, ring.Problem(), `the KMS "vault" (unix://`)
	secret.Look(s)
	require.Error(t, ring.Problem())
	require.Len(t, told, 1, "it is told once")
	_, err := late.OpenBytes("x", known)
	require.True(t, fail.Is(err, fail.Unavailable), "%v", err)
	_, err = late.SealBytes("x", nil)
	require.True(t, fail.Is(err, fail.Unavailable), "%v", err)

	secret.Age(s, secret.DataKeyLife*3/4)
	secret.Look(s)
	opens(t, s, seal(t, s, "later"), "later")
	kms.Listen()
	kms.Lie(kmstest.Lie{Err: status.Error(codes.FailedPrecondition, "the key is being replaced")})
	require.Eventually(t, func() bool { // that it says that it is well does not end it
		secret.Look(s)
		opens(t, s, seal(t, s, "whatever the reason is"), "whatever the reason is")
		return strings.Contains(ring.Problem().Error(), "being replaced")
	}, 20*time.Second, 10*time.Millisecond)
	kms.Stop()
	kms.Lie(kmstest.Lie{})
	secret.Age(s, secret.DataKeyLife/2)
	secret.Look(s)
	_, err = s.SealBytes("x", nil)
	require.True(t, fail.Is(err, fail.Unavailable), "a data key has an end: %v", err)
	opens(t, s, known, "plain")

	kms.Listen()
	for _, s := range []*secret.Sealer{s, late} {
		require.Eventually(t, func() bool {
			_, err := s.SealBytes("x", nil)
			return err == nil
		}, 20*time.Second, 10*time.Millisecond)
		opens(t, s, known, "plain")
	}
	require.NoError(t, ring.Problem())
	require.NoError(t, told[len(told)-1])
	require.Len(t, told, 2)
}

// TestDataKeysAreMadeAnewInTime: before one has its end, so that the KMS may be away.
func TestDataKeysAreMadeAnewInTime(t *testing.T) {
	kms := kmstest.Start(t)
	s := with(t, kms.Line("vault"))
	first := secret.HeadOf(seal(t, s, "plain"))
	secret.Age(s, secret.DataKeyLife/4)
	require.Equal(t, first, secret.HeadOf(seal(t, s, "plain")))
	secret.Age(s, secret.DataKeyLife/2)
	require.NotEqual(t, first, secret.HeadOf(seal(t, s, "plain")))
	require.Equal(t, 2, kms.Asked()["Encrypt"])
}

// TestAKMSThatHangs holds up one who asks, for a bounded time, and nobody who need not ask it.
func TestAKMSThatHangs(t *testing.T) {
	t.Parallel()
	kms := kmstest.Start(t)
	s, late := with(t, kms.Line("vault")), with(t, kms.Line("vault"))
	known := seal(t, s, "plain")
	kms.Hang()
	secret.Look(s)
	asks := make(chan time.Duration)
	meanwhile, began := idle.Start(t), time.Now()
	go func() {
		_, _ = s.SealBytes("x", nil) // looks which key seals
		asks <- time.Since(began)
	}()
	require.Eventually(t, func() bool { return kms.Asked()["Status"] > 0 }, time.Minute, time.Millisecond)
	opens(t, s, seal(t, s, "meanwhile"), "meanwhile")
	took, _ := meanwhile.Read()
	meanwhile.Stop()
	require.Less(t, took, policy.KMSCall, "nobody else waits")
	require.GreaterOrEqual(t, <-asks, policy.KMSCall)
	_, err := late.OpenBytes("x", known)
	require.True(t, fail.Is(err, fail.Unavailable), "%v", err)
	var asked map[string]int
	for range 3 { // a machine that stands still lets the moment pass
		kms.Asked()
		_, err = late.OpenBytes("x", known)
		require.True(t, fail.Is(err, fail.Unavailable), "%v", err)
		if asked = kms.Asked(); len(asked) == 0 {
			break
		}
	}
	require.Empty(t, asked, "nobody asks again who has not answered a moment ago")
	kms.Answer()
	require.Eventually(t, func() bool {
		_, err := late.OpenBytes("x", known)
		return err == nil
	}, 20*time.Second, 10*time.Millisecond)
}

// TestWhatAKMSDoesNotOpen is said to be without its key, and not to be damaged, while the KMS does its work else: nobody waits for it then,
// and lists pass over it.
func TestWhatAKMSDoesNotOpen(t *testing.T) {
	kms := kmstest.Start(t)
	s := with(t, kms.Line("vault"))
	old := seal(t, s, "old")
	kms.Rotate("2")
	enable := kms.Disable("1")
	_, err := with(t, kms.Line("vault")).OpenBytes("x", old)
	require.True(t, fail.Is(err, fail.Internal), "%v", err)
	require.ErrorIs(t, err, secret.ErrNoKey)
	require.ErrorContains(t, err, `key version "1" is disabled`)
	late := with(t, kms.Line("vault"))
	_, err = late.OpenBytes("x", old)
	require.ErrorIs(t, err, secret.ErrNoKey)
	kms.Asked()
	for range 100 { // as who lists many of them
		_, err = late.OpenBytes("x", old)
		require.ErrorIs(t, err, secret.ErrNoKey)
	}
	require.Empty(t, kms.Asked(), "it is not asked again for each")
	enable()
	opens(t, with(t, kms.Line("vault")), old, "old")
	secret.Look(late)
	opens(t, late, old, "old")
	for _, code := range []codes.Code{codes.Unknown, codes.ResourceExhausted, codes.Internal, codes.NotFound} {
		kms.Lie(kmstest.Lie{Once: status.Error(code, "not now")})
		late := with(t, kms.Line("vault"))
		plain, err := late.OpenBytes("x", old)
		require.False(t, fail.Is(err, fail.Internal), "one refusal says nothing: %v", err)
		if err == nil {
			require.Equal(t, "old", string(plain))
		}
	}
	for _, code := range []codes.Code{codes.NotFound, codes.FailedPrecondition} { // of a key that is gone, or disabled
		kms.Lie(kmstest.Lie{Refuses: "1", Err: status.Error(code, "no such version")})
		_, err = with(t, kms.Line("vault")).OpenBytes("x", old)
		require.ErrorIs(t, err, secret.ErrNoKey)
	}
	kms.Lie(kmstest.Lie{})

	kms.Lie(kmstest.Lie{Err: status.Error(codes.PermissionDenied, "the plugin's own credentials have ended")})
	_, err = with(t, kms.Line("vault")).OpenBytes("x", old)
	require.True(t, fail.Is(err, fail.Unavailable), "it does nothing else either: %v", err)
	kms.Lie(kmstest.Lie{Err: status.Error(codes.InvalidArgument, "no ciphertext of mine")})
	_, err = with(t, kms.Line("vault")).OpenBytes("x", old)
	require.True(t, fail.Is(err, fail.Internal), "%v", err)
	require.NotErrorIs(t, err, secret.ErrNoKey)
	kms.Lie(kmstest.Lie{})

	kms.Rotate("1") // of the same name, and not the same: what is stored is damaged, for all that it can tell
	for name, damage := range map[string]func([]byte) []byte{
		"another key's name": func(b []byte) []byte { return bytes.Replace(b, []byte("vault@1"), []byte("vault@2"), 1) },
		"no answer of a KMS": func(b []byte) []byte { b = bytes.Clone(b); b[len("vault@1")+4] ^= 0xff; return b },
		"another ciphertext": func(b []byte) []byte { b = bytes.Clone(b); b[len("vault@1")+8] ^= 0xff; return b },
		"another data":       func(b []byte) []byte { b = bytes.Clone(b); b[len(b)-1] ^= 0xff; return b },
	} {
		_, err := with(t, kms.Line("vault")).OpenBytes("x", damage(old))
		require.True(t, fail.Is(err, fail.Internal), "%s: %v", name, err)
	}
}

// TestAKMSThatIsBroken seals nothing, and it is said what is wrong with it.
func TestAKMSThatIsBroken(t *testing.T) {
	for want, lie := range map[string]kmstest.Lie{
		`it says of itself: "no quota"`:            {Healthz: "no quota"},
		`it speaks version "v3"`:                   {Version: "v3"},
		`it does not say which key seals`:          {NoKey: true},
		`it does not open what it has sealed`:      {Forgetful: true},
		`8192 bytes at most`:                       {Large: true},
		`its credentials have ended`:               {Err: status.Error(codes.Unauthenticated, "its credentials have ended")},
		`cannot seal a data key: no such key ring`: {Err: status.Error(codes.NotFound, "no such key ring")},
	} {
		t.Run(want, func(t *testing.T) {
			kms := kmstest.Start(t)
			kms.Lie(lie)
			s := with(t, kms.Line("vault"))
			ring := s.Keeper().(*secret.Ring)
			err := ring.Problem() // as it is asked at the start
			if err == nil {
				_, err = s.SealBytes("x", []byte("plain"))
			}
			require.ErrorContains(t, err, want)
			kms.Lie(kmstest.Lie{})
			secret.Look(s)
			opens(t, s, seal(t, s, "plain"), "plain")
			require.NoError(t, ring.Problem())
		})
	}
}
