package controlplane

import (
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Endpoint returns the API server's URL.
func (cp *ControlPlane) Endpoint() string { return "https://" + cp.address }

// CertificateAuthority returns the PEM certificate of the authority that signed the API server's.
func (cp *ControlPlane) CertificateAuthority() []byte { return cp.authority.caPEM }

// RESTConfig issues a client certificate for a user who is a member of groups. It returns client settings without
// client-side rate limits. It may be called concurrently.
func (cp *ControlPlane) RESTConfig(user string, groups ...string) (*rest.Config, error) {
	cert, key, err := cp.authority.client(user, groups...)
	if err != nil {
		return nil, err
	}
	return &rest.Config{
		Host:            cp.Endpoint(),
		TLSClientConfig: rest.TLSClientConfig{CAData: cp.authority.caPEM, CertData: cert, KeyData: key},
		QPS:             -1,
	}, nil
}

// KubeConfig issues a client certificate for a user who is a member of groups, and returns a kubeconfig file with it.
func (cp *ControlPlane) KubeConfig(user string, groups ...string) ([]byte, error) {
	cert, key, err := cp.authority.client(user, groups...)
	if err != nil {
		return nil, err
	}
	const name = "slipway-sandbox"
	return clientcmd.Write(clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{
			name: {Server: cp.Endpoint(), CertificateAuthorityData: cp.authority.caPEM},
		},
		AuthInfos: map[string]*clientcmdapi.AuthInfo{
			user: {ClientCertificateData: cert, ClientKeyData: key},
		},
		Contexts: map[string]*clientcmdapi.Context{
			name: {Cluster: name, AuthInfo: user},
		},
		CurrentContext: name,
	})
}
