package kubelet

import (
	"encoding/json"
	"fmt"
	"strings"
)

const (
	// standInFolder comes first in the PATH of a machine's units.
	standInFolder   = "/run/kubelet/bin"
	credentialsFile = "/run/kubelet/image-credential-provider.json"
	prefetchFile    = "/run/kubelet/prefetch.sh"
)

// RegistryUser and RegistryPassword are what the credential provider of a machine gives for images of ECR. The password is as
// long as ECR's are.
const (
	RegistryUser = "AWS"
	passwordUnit = "0123456789abcdefghijklmnopqrstuvwxyz+/=ABCDEFGHIJKLMNOPQRSTUVWXY"
)

// RegistryPassword is the password that belongs to RegistryUser.
func RegistryPassword() string {
	return strings.Repeat(passwordUnit, 40)
}

// kubeconfig is what nodeadm writes: the kubelet asks the aws command line for a token.
func kubeconfig(d description) []byte {
	return fmt.Appendf(nil, `---
apiVersion: v1
kind: Config
clusters:
  - name: kubernetes
    cluster:
      certificate-authority: %s
      server: %s
current-context: kubelet
contexts:
  - name: kubelet
    context:
      cluster: kubernetes
      user: kubelet
users:
  - name: kubelet
    user:
      exec:
        apiVersion: client.authentication.k8s.io/v1beta1
        command: aws
        args:
          - "eks"
          - "get-token"
          - "--cluster-name"
          - "%s"
          - "--region"
          - "%s"
`, authorityFile, d.Endpoint, d.Cluster, d.Instance.Region)
}

// standIns are the programs of EKS's image that need AWS, or a disk of their own, to answer.
func standIns(d description) files {
	document := func(v any) string {
		data, err := json.Marshal(v)
		if err != nil {
			return "{}" // Maps of strings always marshal.
		}
		return string(data)
	}
	prints := func(text string) []byte { return []byte("#!/bin/sh\ncat <<'EOF'\n" + text + "\nEOF\n") }
	const credentialsAPI = "credentialprovider.kubelet.k8s.io/v1"
	registries := []string{"*.dkr.ecr.*.amazonaws.com", "public.ecr.aws"}
	auth := map[string]any{}
	for _, r := range registries {
		auth[r] = map[string]string{"username": RegistryUser, "password": RegistryPassword()}
	}
	return files{
		standInFolder + "/aws": prints(document(map[string]any{
			"apiVersion": "client.authentication.k8s.io/v1beta1", "kind": "ExecCredential", "status": map[string]string{"token": d.Token},
		})),
		standInFolder + "/df": prints(fmt.Sprintf("Use%%\n %d%%", d.DiskUsed)),
		standInFolder + "/ecr-credential-provider": prints(document(map[string]any{
			"apiVersion": credentialsAPI, "kind": "CredentialProviderResponse", "cacheKeyType": "Registry", "cacheDuration": "1h", "auth": auth,
		})),
		credentialsFile: []byte(document(map[string]any{
			"apiVersion": "kubelet.config.k8s.io/v1", "kind": "CredentialProviderConfig",
			"providers": []any{map[string]any{
				"name": "ecr-credential-provider", "matchImages": registries, "defaultCacheDuration": "12h0m0s", "apiVersion": credentialsAPI,
			}},
		})),
	}
}
