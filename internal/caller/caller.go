// Package caller carries in a context.Context who asks for something, when a proxy has said so. It is for people to read, and
// never decides what is allowed.
package caller

import "context"

type key struct{}

// With is ctx with the caller's name.
func With(ctx context.Context, name string) context.Context {
	return context.WithValue(ctx, key{}, name)
}

// Of is the caller's name, "" when nobody said it.
func Of(ctx context.Context) string {
	name, _ := ctx.Value(key{}).(string)
	return name
}
