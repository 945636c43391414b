package webapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/authenticatorfactory"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/client-go/kubernetes"
)

const (
	// identityTTL, allowTTL and denyTTL are how long the API server's answers about a viewer are used again.
	identityTTL = time.Minute
	allowTTL    = time.Minute
	denyTTL     = 10 * time.Second
	// reviewTimeout bounds the API server's answer about a token.
	reviewTimeout = 10 * time.Second
)

// The ConfigMap in which the API server publishes the authority of client certificates (kubernetes.io, "Configure the Aggregation Layer").
const (
	authenticationNamespace = "kube-system"
	authenticationConfigMap = "extension-apiserver-authentication"
	authenticationKey       = "client-ca-file"
)

// Access says who asks and what they may see. Both fields are required.
type Access struct {
	// Authenticator returns who sends a request.
	Authenticator authenticator.Request
	// Authorizer reports whether they may do what the API server would be asked for.
	Authorizer authorizer.Authorizer
}

// clientCA follows the authority of client certificates.
func clientCA(clients kubernetes.Interface) (*dynamiccertificates.ConfigMapCAController, error) {
	return dynamiccertificates.NewDynamicCAFromConfigMapController("slipway-client-ca", authenticationNamespace, authenticationConfigMap, authenticationKey, clients)
}

// delegated returns an Access that asks the API server.
func delegated(clients kubernetes.Interface, ca dynamiccertificates.CAContentProvider) (Access, error) {
	retries := &wait.Backoff{Duration: 500 * time.Millisecond, Factor: 1.5, Jitter: 0.2, Steps: 3}
	identity, _, err := authenticatorfactory.DelegatingAuthenticatorConfig{
		Anonymous: &apiserver.AnonymousAuthConfig{Enabled: false}, CacheTTL: identityTTL, ClientCertificateCAContentProvider: ca,
		TokenAccessReviewClient: clients.AuthenticationV1(), TokenAccessReviewTimeout: reviewTimeout, WebhookRetryBackoff: retries,
	}.New()
	if err != nil {
		return Access{}, err
	}
	rights, err := authorizerfactory.DelegatingAuthorizerConfig{
		SubjectAccessReviewClient: clients.AuthorizationV1(), AllowCacheTTL: allowTTL, DenyCacheTTL: denyTTL, WebhookRetryBackoff: retries,
	}.New()
	return Access{Authenticator: identity, Authorizer: rights}, err
}

// who returns the viewer, or the API server's error for one who is not known.
func (a Access) who(r *http.Request) (user.Info, error) {
	answer, ok, err := a.Authenticator.AuthenticateRequest(r)
	if err != nil || !ok {
		return nil, apierrors.NewUnauthorized("Unauthorized")
	}
	return answer.User, nil
}

// resource is what a viewer has to be allowed to see.
type resource struct {
	verb, group, plural string
	// namespace is empty for all namespaces, and for what has none. name is empty for a list.
	namespace, name string
}

// allows returns nil if the viewer may see the resource, or the API server's error for one who may not.
func (a Access) allows(ctx context.Context, viewer user.Info, r resource) error {
	decision, _, err := a.Authorizer.Authorize(ctx, authorizer.AttributesRecord{
		User: viewer, Verb: r.verb, APIGroup: r.group, APIVersion: "*", Resource: r.plural, Namespace: r.namespace, Name: r.name, ResourceRequest: true,
	})
	if err != nil {
		return apierrors.NewInternalError(fmt.Errorf("asking the API server what user %s may see: %w", viewer.GetName(), err))
	}
	if decision == authorizer.DecisionAllow {
		return nil
	}
	where := "at the cluster scope"
	if r.namespace != "" {
		where = fmt.Sprintf("in the namespace %q", r.namespace)
	}
	text := fmt.Sprintf("user %q cannot %s resource %q in API group %q %s", viewer.GetName(), r.verb, r.plural, r.group, where)
	return apierrors.NewForbidden(schema.GroupResource{Group: r.group, Resource: r.plural}, r.name, errors.New(text))
}
