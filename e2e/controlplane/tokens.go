package controlplane

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/slipway-k8s/slipway/e2e/part"
)

// tokenPrefix is that of the tokens of `aws eks get-token`.
const tokenPrefix = "k8s-aws-v1."

// tokens issues bearer tokens that contain their user. It serves the webhook by which kube-apiserver authenticates them, as
// EKS's authenticator does for nodes.
type tokens struct {
	key      []byte
	listener net.Listener
	running  *part.Part
}

// startTokens starts the webhook and writes its kubeconfig for kube-apiserver.
func (cp *ControlPlane) startTokens(ctx context.Context, _ Config) error {
	t := &tokens{key: make([]byte, 32)}
	if _, err := rand.Read(t.key); err != nil {
		return err
	}
	var err error
	if t.listener, err = (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0"); err != nil {
		return err
	}
	cp.tokens = t
	t.running = part.Start(ctx, "token webhook", t.run, cp.fail)
	file := clientcmdapi.NewConfig()
	file.Clusters["tokens"] = &clientcmdapi.Cluster{Server: "http://" + t.listener.Addr().String()}
	file.Contexts["tokens"] = &clientcmdapi.Context{Cluster: "tokens"}
	file.CurrentContext = "tokens"
	data, err := clientcmd.Write(*file)
	if err != nil {
		return err
	}
	return os.WriteFile(cp.authority.path("tokens.kubeconfig"), data, 0o600)
}

func (t *tokens) run(ctx context.Context) error {
	server := &http.Server{Handler: t, ReadHeaderTimeout: time.Minute}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.Serve(t.listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// ServeHTTP answers a TokenReview.
func (t *tokens) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var review authenticationv1.TokenReview
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<20)).Decode(&review); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	answer := authenticationv1.TokenReview{TypeMeta: metav1.TypeMeta{APIVersion: "authentication.k8s.io/v1", Kind: "TokenReview"}}
	answer.Status.User, answer.Status.Authenticated = t.read(review.Spec.Token)
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer)
}

// read returns the user of a token.
func (t *tokens) read(token string) (user authenticationv1.UserInfo, ok bool) {
	text, ours := strings.CutPrefix(token, tokenPrefix)
	body, sum, _ := strings.Cut(text, ".")
	if !ours || !hmac.Equal([]byte(sum), []byte(t.sum(body))) {
		return user, false
	}
	data, err := base64.RawURLEncoding.DecodeString(body)
	if err != nil {
		return user, false
	}
	err = json.Unmarshal(data, &user)
	return user, err == nil
}

func (t *tokens) sum(body string) string {
	mac := hmac.New(sha256.New, t.key)
	mac.Write([]byte(body))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// Token returns a bearer token for a user, valid as long as the control plane runs.
func (cp *ControlPlane) Token(user string, groups ...string) (string, error) {
	data, err := json.Marshal(authenticationv1.UserInfo{Username: user, Groups: groups})
	if err != nil {
		return "", fmt.Errorf("encoding the token of %s: %w", user, err)
	}
	body := base64.RawURLEncoding.EncodeToString(data)
	return tokenPrefix + body + "." + cp.tokens.sum(body), nil
}
