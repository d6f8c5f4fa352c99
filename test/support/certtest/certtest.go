// Package certtest creates server certificates for tests.
package certtest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Authority is a certificate authority.
type Authority struct {
	// PEM is the authority's certificate in PEM format.
	PEM []byte

	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

// NewAuthority creates a certificate authority.
func NewAuthority(t testing.TB) *Authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := newTemplate(t)
	template.IsCA, template.BasicConstraintsValid, template.KeyUsage = true, true, x509.KeyUsageCertSign
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	certificate, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	return &Authority{PEM: encode("CERTIFICATE", der), certificate: certificate, key: key}
}

// Pool returns a certificate pool that contains only the authority's certificate.
func (a *Authority) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.certificate)
	return pool
}

// Write issues a server certificate for 127.0.0.1 and the given names, and writes it to dir as
// tls.crt and tls.key. If the files already exist, Write replaces both atomically, as the kubelet
// does.
func (a *Authority) Write(t testing.TB, dir string, names ...string) (certFile, keyFile string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := newTemplate(t)
	template.DNSNames, template.IPAddresses = names, []net.IP{net.IPv4(127, 0, 0, 1)}
	template.KeyUsage, template.ExtKeyUsage = x509.KeyUsageDigitalSignature, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, &key.PublicKey, a.key)
	require.NoError(t, err)
	private, err := x509.MarshalECPrivateKey(key)
	require.NoError(t, err)

	data := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(data, "tls.crt"), encode("CERTIFICATE", der), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(data, "tls.key"), encode("EC PRIVATE KEY", private), 0o600))
	link := filepath.Join(dir, "current")
	require.NoError(t, os.Symlink(data, link+".new"))
	require.NoError(t, os.Rename(link+".new", link))
	return filepath.Join(link, "tls.crt"), filepath.Join(link, "tls.key")
}

func newTemplate(t testing.TB) *x509.Certificate {
	t.Helper()
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	require.NoError(t, err)
	return &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: "test"},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(time.Hour),
	}
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}
