package controlplane

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/util/keyutil"
)

// authority signs the certificates of one control plane and holds the files with which its servers start.
type authority struct {
	folder string
	// serviceIP is the cluster IP of the API server, the first of the range.
	serviceIP netip.Addr
	cert      *x509.Certificate
	key       crypto.Signer
	// caPEM is the certificate that clients and servers trust.
	caPEM []byte
}

// newAuthority generates the keys and writes ca.crt, ca.key, server.crt, server.key, proxy.crt, proxy.key, sa.key and
// sa.pub into folder.
func newAuthority(folder, serviceCIDR string) (*authority, error) {
	services, err := netip.ParsePrefix(serviceCIDR)
	if err != nil {
		return nil, fmt.Errorf("reading the range of cluster IPs: %w", err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	a := &authority{folder: folder, key: key, serviceIP: services.Masked().Addr().Next()}
	template, err := certificateTemplate(pkix.Name{CommonName: "slipway-sandbox-ca"})
	if err != nil {
		return nil, err
	}
	template.IsCA = true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		return nil, err
	}
	a.caPEM = encodeCertificate(der)
	return a, a.writeFiles()
}

func (a *authority) writeFiles() error {
	keyPEM, err := keyutil.MarshalPrivateKeyToPEM(a.key)
	if err != nil {
		return err
	}
	serverCert, serverKey, err := a.serving("kube-apiserver",
		[]string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"},
		[]net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback, a.serviceIP.AsSlice()})
	if err != nil {
		return err
	}
	proxyCert, proxyKey, err := a.client("front-proxy")
	if err != nil {
		return err
	}
	accountKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	accountPEM, err := keyutil.MarshalPrivateKeyToPEM(accountKey)
	if err != nil {
		return err
	}
	public, err := x509.MarshalPKIXPublicKey(accountKey.Public())
	if err != nil {
		return err
	}
	files := map[string][]byte{
		"ca.crt": a.caPEM, "ca.key": keyPEM,
		"server.crt": serverCert, "server.key": serverKey,
		"proxy.crt": proxyCert, "proxy.key": proxyKey,
		"sa.key": accountPEM,
		"sa.pub": pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public}),
	}
	for name, data := range files {
		if err := os.WriteFile(a.path(name), data, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// path returns the path of a file that newAuthority wrote.
func (a *authority) path(name string) string { return filepath.Join(a.folder, name) }

// client issues a certificate that authenticates a user who is a member of groups.
func (a *authority) client(user string, groups ...string) (cert, key []byte, err error) {
	template, err := certificateTemplate(pkix.Name{CommonName: user, Organization: groups})
	if err != nil {
		return nil, nil, err
	}
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	return a.sign(template)
}

// serving issues a certificate for a server with these names and addresses.
func (a *authority) serving(name string, names []string, addresses []net.IP) (cert, key []byte, err error) {
	template, err := certificateTemplate(pkix.Name{CommonName: name})
	if err != nil {
		return nil, nil, err
	}
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	template.DNSNames = names
	template.IPAddresses = addresses
	return a.sign(template)
}

func (a *authority) sign(template *x509.Certificate) (cert, key []byte, err error) {
	signer, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, signer.Public(), a.key)
	if err != nil {
		return nil, nil, fmt.Errorf("signing the certificate of %s: %w", template.Subject.CommonName, err)
	}
	key, err = keyutil.MarshalPrivateKeyToPEM(signer)
	return encodeCertificate(der), key, err
}

func certificateTemplate(subject pkix.Name) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, err
	}
	now := time.Now()
	return &x509.Certificate{
		SerialNumber:          serial,
		Subject:               subject,
		NotBefore:             now.Add(-time.Hour),
		NotAfter:              now.Add(30 * 24 * time.Hour),
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment,
		BasicConstraintsValid: true,
	}, nil
}

func encodeCertificate(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}
