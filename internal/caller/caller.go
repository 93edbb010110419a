// Package caller carries in a context.Context who asks for something: what was proven of it, and what is only said.
package caller

import (
	"context"
	"strconv"
	"strings"
)

type key struct{}

// With is ctx with a name that somebody has said and nobody has proven. It is for people to read, and decides nothing.
func With(ctx context.Context, name string) context.Context {
	return context.WithValue(ctx, key{}, name)
}

// Of is who asks, as people read it in operations: the identity, "user alice"; while nobody is asked who they are (--auth=off)
// the name that was said; "" when there is neither.
func Of(ctx context.Context) string {
	if i, err := IdentityOf(ctx); err == nil && i.Kind != Anonymous && i.Kind != Open {
		return i.String()
	}
	name, _ := ctx.Value(key{}).(string)
	if kind, _, _ := strings.Cut(name, " "); kind == string(User) || kind == string(ServiceAccount) || kind == string(Tenant) {
		return strconv.Quote(name) // it must not read as if it were proven
	}
	return name
}
