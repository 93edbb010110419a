// Package token makes bearer tokens and takes them apart. A token names the document that knows it, and has a secret of 256
// random bits. What is kept is the hash of the secret: a hash without salt does, since nobody guesses so many bits. The package
// knows nothing of whom a token speaks for.
package token

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"strings"
)

// Prefix is what every token begins with, so that whoever looks for secrets in files finds them.
const Prefix = "drover."

// secretBytes is the length of a secret.
const secretBytes = 32

// MaxLength bounds a token, in bytes: what is longer is none.
const MaxLength = 1024

var encoding = base64.RawURLEncoding

// New makes a token that names a document by its key. The text is for its holder, and is kept nowhere; the hash is for the
// document.
func New(of string) (text string, hash []byte) {
	var secret [secretBytes]byte
	_, _ = rand.Read(secret[:]) // it never fails, by its documentation
	return Prefix + encoding.EncodeToString([]byte(of)) + "." + encoding.EncodeToString(secret[:]), hashOf(secret[:])
}

// Parse takes a token apart: the key of the document that it names, and the hash of its secret, which Same compares. ok is
// false when it is none.
func Parse(text string) (of string, hash []byte, ok bool) {
	rest, is := strings.CutPrefix(text, Prefix)
	if !is || len(text) > MaxLength {
		return "", nil, false
	}
	name, secret, is := strings.Cut(rest, ".")
	if !is {
		return "", nil, false
	}
	key, is := decode(name)
	bits, isSecret := decode(secret)
	if !is || !isSecret || len(key) == 0 || len(bits) != secretBytes {
		return "", nil, false
	}
	return string(key), hashOf(bits), true
}

// decode takes one form of each value alone: the decoder leaves out line breaks, and bits at the end.
func decode(text string) ([]byte, bool) {
	value, err := encoding.DecodeString(text)
	return value, err == nil && encoding.EncodeToString(value) == text
}

// Same compares a hash that is kept with one that Parse has given, in a time that does not tell where they differ.
func Same(kept, given []byte) bool {
	return len(kept) == sha256.Size && subtle.ConstantTimeCompare(kept, given) == 1
}

func hashOf(secret []byte) []byte {
	sum := sha256.Sum256(secret)
	return sum[:]
}
