package main

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	"github.com/secure-systems-lab/go-securesystemslib/dsse"
	bundlev1 "github.com/sigstore/protobuf-specs/gen/pb-go/bundle/v1"
	commonv1 "github.com/sigstore/protobuf-specs/gen/pb-go/common/v1"
	dssev1 "github.com/sigstore/protobuf-specs/gen/pb-go/dsse"
	"github.com/sigstore/sigstore/pkg/cryptoutils"
	"github.com/sigstore/sigstore/pkg/signature"
)

const (
	bundleType  = "application/vnd.dev.sigstore.bundle.v0.3+json"
	payloadType = "application/vnd.in-toto+json"
)

// signer makes Sigstore bundles, which cosign verifies.
type signer interface {
	// statement signs an in-toto statement, in a DSSE envelope.
	statement(ctx context.Context, text []byte) ([]byte, error)
	// file signs the content of a file.
	file(ctx context.Context, content []byte) ([]byte, error)
}

// key signs with the private key of a file, as `cosign generate-key-pair` makes it.
type key struct {
	signer signature.SignerVerifier
	// hint names the public key: the SHA-256 of its encoding, as cosign writes it.
	hint string
}

func newKey(text, password []byte) (*key, error) {
	private, err := cryptoutils.UnmarshalPEMToPrivateKey(text, cryptoutils.StaticPasswordFunc(password))
	if err != nil {
		return nil, fmt.Errorf("reading COSIGN_KEY: %w", err)
	}
	if k, ok := private.(*ecdsa.PrivateKey); !ok || k.Curve != elliptic.P256() {
		return nil, errors.New("reading COSIGN_KEY: an ECDSA key on P-256 is expected, as cosign generate-key-pair makes it")
	}
	out := &key{}
	if out.signer, err = signature.LoadSignerVerifier(private, crypto.SHA256); err != nil {
		return nil, fmt.Errorf("reading COSIGN_KEY: %w", err)
	}
	public, err := out.signer.PublicKey()
	if err != nil {
		return nil, fmt.Errorf("reading COSIGN_KEY: %w", err)
	}
	encoded, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		return nil, fmt.Errorf("reading COSIGN_KEY: %w", err)
	}
	sum := sha256.Sum256(encoded)
	out.hint = base64.StdEncoding.EncodeToString(sum[:])
	return out, nil
}

func (k *key) statement(_ context.Context, text []byte) ([]byte, error) {
	signed, err := k.signer.SignMessage(bytes.NewReader(dsse.PAE(payloadType, text)))
	if err != nil {
		return nil, fmt.Errorf("signing a statement: %w", err)
	}
	return k.bundle(&bundlev1.Bundle{Content: &bundlev1.Bundle_DsseEnvelope{DsseEnvelope: &dssev1.Envelope{
		Payload: text, PayloadType: payloadType, Signatures: []*dssev1.Signature{{Sig: signed}},
	}}})
}

func (k *key) file(_ context.Context, content []byte) ([]byte, error) {
	signed, err := k.signer.SignMessage(bytes.NewReader(content))
	if err != nil {
		return nil, fmt.Errorf("signing a file: %w", err)
	}
	sum := sha256.Sum256(content)
	return k.bundle(&bundlev1.Bundle{Content: &bundlev1.Bundle_MessageSignature{MessageSignature: &commonv1.MessageSignature{
		MessageDigest: &commonv1.HashOutput{Algorithm: commonv1.HashAlgorithm_SHA2_256, Digest: sum[:]}, Signature: signed,
	}}})
}

func (k *key) bundle(b *bundlev1.Bundle) ([]byte, error) {
	b.MediaType = bundleType
	b.VerificationMaterial = &bundlev1.VerificationMaterial{Content: &bundlev1.VerificationMaterial_PublicKey{PublicKey: &commonv1.PublicKeyIdentifier{Hint: k.hint}}}
	return marshal(b)
}

// cosign signs with the command of that name. Without further arguments it uses the identity of the workflow that it runs in, and writes each
// signature to the public transparency log.
type cosign struct {
	// command is its path, or the words that run it.
	command []string
	// arguments come after those of each call.
	arguments []string
}

func (c *cosign) statement(ctx context.Context, text []byte) ([]byte, error) {
	return c.run(ctx, text, "attest-blob", "--statement")
}

func (c *cosign) file(ctx context.Context, content []byte) ([]byte, error) {
	return c.run(ctx, content, "sign-blob")
}

// run has cosign sign a file of that content, whose path is the last argument of the call.
func (c *cosign) run(ctx context.Context, content []byte, call ...string) (bundle []byte, err error) {
	work, err := os.MkdirTemp("", "slipway-sign-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	in, out := filepath.Join(work, "content"), filepath.Join(work, "bundle")
	if err := os.WriteFile(in, content, 0o600); err != nil {
		return nil, err
	}
	words := slices.Concat(c.command, call, []string{in, "--bundle", out, "--yes"}, c.arguments)
	cmd := exec.CommandContext(ctx, words[0], words[1:]...)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("running cosign %s: %w", call[0], err)
	}
	return os.ReadFile(out)
}
