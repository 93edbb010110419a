// Command idp is an OpenID provider for tests: the server of github.com/zitadel/oidc, with its storage in memory, and what tests need
// of a provider's operator: another signing key, users who are taken away, how many refresh tokens are good. Its users are test-user@127.0.0.1 and test-user2, whose
// password is verysecure. docs/decisions/0062 says why it is this one.
package main

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"html"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/go-jose/go-jose/v4"
	"github.com/zitadel/oidc/v3/example/server/storage"
	"github.com/zitadel/oidc/v3/pkg/oidc"
	"github.com/zitadel/oidc/v3/pkg/op"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:0", "the address to listen at")
	callback := flag.String("callback", "http://127.0.0.1:9015/login/callback", "where the page's client is sent back to")
	secret := flag.String("secret", "the-page's-own-secret", "the secret of the page's client, which is called page")
	lasts := flag.Duration("lasts", time.Hour, "how long an ID token is good")
	code := flag.Duration("code", time.Minute, "how long the code of a device is good")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := serve(ctx, *listen, *callback, *secret, *lasts, *code); err != nil {
		fmt.Fprintln(os.Stderr, "idp:", err)
		os.Exit(1)
	}
}

func serve(ctx context.Context, listen, callback, secret string, lasts, code time.Duration) error {
	var c net.ListenConfig
	l, err := c.Listen(ctx, "tcp", listen)
	if err != nil {
		return err
	}
	issuer := "http://" + l.Addr().String()
	handler, err := provider(issuer, callback, secret, lasts, code)
	if err != nil {
		return err
	}
	fmt.Printf("ready idp issuer=%s\n", issuer)
	server := &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// keys are the storage of the library's example, with more than one key.
type keys struct {
	*storage.Storage
	lasts time.Duration

	mu    sync.Mutex
	all   []*key // the last one signs
	gone  map[string]bool
	given []string // refresh tokens
}

// key is one that signs.
type key struct {
	id      string
	private *rsa.PrivateKey
	public  bool
}

func (k *key) ID() string                                  { return k.id }
func (k *key) SignatureAlgorithm() jose.SignatureAlgorithm { return jose.RS256 }
func (k *key) Algorithm() jose.SignatureAlgorithm          { return jose.RS256 }
func (k *key) Use() string                                 { return "sig" }
func (k *key) Key() any {
	if k.public {
		return &k.private.PublicKey
	}
	return k.private
}

// rotate has another key sign from now on. The others stay, unless it is to be alone.
func (k *keys) rotate(alone bool) error {
	private, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if alone {
		k.all = nil
	}
	k.all = append(k.all, &key{id: rand.Text(), private: private})
	return nil
}

// SigningKey implements op.Storage.
func (k *keys) SigningKey(context.Context) (op.SigningKey, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.all[len(k.all)-1], nil
}

// SignatureAlgorithms implements op.Storage.
func (k *keys) SignatureAlgorithms(context.Context) ([]jose.SignatureAlgorithm, error) {
	return []jose.SignatureAlgorithm{jose.RS256}, nil
}

// KeySet implements op.Storage.
func (k *keys) KeySet(context.Context) (all []op.Key, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, one := range k.all {
		all = append(all, &key{id: one.id, private: one.private, public: true})
	}
	return all, nil
}

// withdraw has no refresh token of a user be good any more, or good again.
func (k *keys) withdraw(user string, gone bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.gone[user] = gone
}

// TokenRequestByRefreshToken implements op.Storage.
func (k *keys) TokenRequestByRefreshToken(ctx context.Context, token string) (op.RefreshTokenRequest, error) {
	r, err := k.Storage.TokenRequestByRefreshToken(ctx, token)
	k.mu.Lock()
	defer k.mu.Unlock()
	if err == nil && k.gone[r.GetSubject()] {
		return nil, op.ErrInvalidRefreshToken
	}
	return r, err
}

// CreateAccessAndRefreshTokens implements op.Storage.
func (k *keys) CreateAccessAndRefreshTokens(ctx context.Context, r op.TokenRequest, current string) (access, refresh string, until time.Time, err error) {
	access, refresh, until, err = k.Storage.CreateAccessAndRefreshTokens(ctx, r, current)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.given = append(k.given, refresh)
	return access, refresh, until, err
}

// good is how many refresh tokens are good of those that were given.
func (k *keys) good(ctx context.Context) (n int) {
	k.mu.Lock()
	given := slices.Clone(k.given)
	k.mu.Unlock()
	for _, token := range given {
		if _, err := k.Storage.TokenRequestByRefreshToken(ctx, token); err == nil {
			n++
		}
	}
	return n
}

// GetClientByClientID implements op.Storage.
func (k *keys) GetClientByClientID(ctx context.Context, id string) (op.Client, error) {
	c, err := k.Storage.GetClientByClientID(ctx, id)
	if err != nil {
		return nil, err
	}
	return client{c, k.lasts}, nil
}

// SetUserinfoFromScopes implements op.Storage: everybody is in the group staff.
func (k *keys) SetUserinfoFromScopes(ctx context.Context, info *oidc.UserInfo, user, client string, scopes []string) error {
	info.AppendClaims("groups", []string{"staff"})
	return k.Storage.SetUserinfoFromScopes(ctx, info, user, client, scopes)
}

// SetUserinfoFromRequest implements op.CanSetUserinfoFromRequest.
func (k *keys) SetUserinfoFromRequest(ctx context.Context, info *oidc.UserInfo, token op.IDTokenRequest, scopes []string) error {
	info.AppendClaims("groups", []string{"staff"})
	return k.Storage.SetUserinfoFromRequest(ctx, info, token, scopes)
}

// client is one of the library's, whose tokens last as long as tests want, and say who somebody is.
type client struct {
	op.Client
	lasts time.Duration
}

// IDTokenLifetime implements op.Client.
func (c client) IDTokenLifetime() time.Duration { return c.lasts }

// IDTokenUserinfoClaimsAssertion implements op.Client.
func (client) IDTokenUserinfoClaimsAssertion() bool { return true }

// GrantTypes implements op.Client.
func (client) GrantTypes() []oidc.GrantType {
	return []oidc.GrantType{oidc.GrantTypeCode, oidc.GrantTypeRefreshToken, oidc.GrantTypeDeviceCode}
}

// form asks people who they are.
const form = `<!doctype html><title>Log in</title><form method="post" action="/login/username"><input type="hidden" name="id" value="%s">
<input id="username" name="username"><input id="password" name="password" type="password"><button id="submit">Log in</button></form>`

func provider(issuer, callback, secret string, lasts, code time.Duration) (http.Handler, error) {
	storage.RegisterClients(storage.WebClient("page", secret, callback), storage.NativeClient("drover-cli", "http://127.0.0.1/callback", "http://localhost/callback"))
	k := &keys{Storage: storage.NewStorage(storage.NewUserStore(issuer)), lasts: lasts, gone: map[string]bool{}}
	if err := k.rotate(true); err != nil {
		return nil, err
	}
	p, err := op.NewProvider(&op.Config{
		CryptoKey: sha256.Sum256([]byte(rand.Text())), CodeMethodS256: true, AuthMethodPost: true, GrantTypeRefreshToken: true,
		SupportedScopes:     []string{"openid", "profile", "email", "groups", "offline_access"},
		DeviceAuthorization: op.DeviceAuthorizationConfig{Lifetime: code, PollInterval: time.Second, UserFormPath: "/device", UserCode: op.UserCodeBase20},
	}, k, op.StaticIssuer(issuer), op.WithAllowInsecure(), op.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		return nil, err
	}
	router := chi.NewRouter()
	back := op.AuthCallbackURL(p)
	router.Get("/login/username", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = fmt.Fprintf(w, form, html.EscapeString(r.FormValue("authRequestID")))
	})
	router.Post("/login/username", op.NewIssuerInterceptor(p.IssuerFromRequest).HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := r.FormValue("id")
		if err := k.CheckUsernamePassword(r.FormValue("username"), r.FormValue("password"), id); err != nil {
			told(w, err)
			return
		}
		http.Redirect(w, r, back(r.Context(), id), http.StatusFound)
	}))
	router.Post("/device", func(w http.ResponseWriter, r *http.Request) {
		err := k.CheckUsernamePasswordSimple(r.FormValue("username"), r.FormValue("password"))
		if err == nil {
			err = k.CompleteDeviceAuthorization(r.Context(), r.FormValue("user_code"), "id2")
		}
		told(w, err)
	})
	router.Post("/control/rotate", func(w http.ResponseWriter, r *http.Request) { told(w, k.rotate(r.FormValue("alone") != "")) })
	router.Post("/control/withdraw", func(w http.ResponseWriter, r *http.Request) { k.withdraw(r.FormValue("user"), true); told(w, nil) })
	router.Post("/control/restore", func(w http.ResponseWriter, r *http.Request) { k.withdraw(r.FormValue("user"), false); told(w, nil) })
	router.Get("/control/good", func(w http.ResponseWriter, r *http.Request) { _, _ = fmt.Fprint(w, k.good(r.Context())) })
	router.Mount("/", p)
	return router, nil
}

func told(w http.ResponseWriter, err error) {
	if err != nil {
		http.Error(w, err.Error(), http.StatusForbidden)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}
