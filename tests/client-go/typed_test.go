package clientgo

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	applyapps "k8s.io/client-go/applyconfigurations/apps/v1"
	applycore "k8s.io/client-go/applyconfigurations/core/v1"
	applymeta "k8s.io/client-go/applyconfigurations/meta/v1"
	"k8s.io/client-go/tools/pager"
	"k8s.io/client-go/util/retry"
)

func TestObjectsAreWrittenAndReadInPages(t *testing.T) {
	inEachEncoding(t, "pages", func(c *cluster) {
		pods := c.clients.CoreV1().Pods(c.namespace)
		for i := range 25 {
			c.pod(fmt.Sprintf("p%02d", i))
		}
		pages, items := 0, 0
		list := pager.New(func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			pages++
			return pods.List(ctx, options)
		})
		list.PageSize = 10
		c.no(list.EachListItem(c.ctx, metav1.ListOptions{}, func(runtime.Object) error { items++; return nil }))
		if pages != 3 || items != 25 {
			c.Fatalf("%d pods in %d pages", items, pages)
		}
		_, err := pods.Create(c.ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "Bad_Name"}}, metav1.CreateOptions{})
		c.is(apierrors.IsInvalid, err)
		_, err = pods.Get(c.ctx, "nothing", metav1.GetOptions{})
		c.is(apierrors.IsNotFound, err)
		two := metav1.ListOptions{LabelSelector: "app in (p06,p07)"}
		c.no(pods.DeleteCollection(c.ctx, metav1.DeleteOptions{}, two))
		c.until("both are gone", func() bool {
			rest, err := pods.List(c.ctx, two)
			return err == nil && len(rest.Items) == 0
		})
	})
}

func TestPatchesAndConflicts(t *testing.T) {
	inEachEncoding(t, "patches", func(c *cluster) {
		maps := c.clients.CoreV1().ConfigMaps(c.namespace)
		made, err := maps.Create(c.ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, metav1.CreateOptions{})
		c.no(err)
		_, err = maps.Create(c.ctx, made.DeepCopy(), metav1.CreateOptions{})
		if err == nil {
			c.Fatal("a resource version is no part of a new object")
		}
		changed, err := maps.Patch(c.ctx, "a", types.StrategicMergePatchType, []byte(`{"data":{"x":"y"}}`), metav1.PatchOptions{})
		c.no(err)
		test := []byte(`[{"op":"test","path":"/data/x","value":"z"}]`)
		_, err = maps.Patch(c.ctx, "a", types.JSONPatchType, test, metav1.PatchOptions{})
		c.is(apierrors.IsInvalid, err)
		_, err = maps.Update(c.ctx, made, metav1.UpdateOptions{})
		c.is(apierrors.IsConflict, err)

		tries, next := 0, made
		c.no(retry.RetryOnConflict(retry.DefaultRetry, func() error {
			tries++
			next.Data = map[string]string{"retried": "yes"}
			_, err := maps.Update(c.ctx, next, metav1.UpdateOptions{})
			next = changed
			return err
		}))
		if tries != 2 {
			c.Fatalf("%d tries", tries)
		}
		uid := types.UID("another")
		err = maps.Delete(c.ctx, "a", metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
		c.is(apierrors.IsConflict, err)
	})
}

func TestServerSideApplyAndScale(t *testing.T) {
	inEachEncoding(t, "apply", func(c *cluster) {
		labels := map[string]string{"app": "web"}
		container := applycore.Container().WithName("c").WithImage("nginx")
		template := applycore.PodTemplateSpec().WithLabels(labels).WithSpec(applycore.PodSpec().WithContainers(container))
		spec := applyapps.DeploymentSpec().WithReplicas(0).WithSelector(applymeta.LabelSelector().WithMatchLabels(labels))
		wanted := applyapps.Deployment("web", c.namespace).WithSpec(spec.WithTemplate(template))
		deployments := c.clients.AppsV1().Deployments(c.namespace)
		own := metav1.ApplyOptions{FieldManager: "go"}
		_, err := deployments.Apply(c.ctx, wanted, own)
		c.no(err)
		// Its controller writes the status meanwhile.
		c.no(retry.RetryOnConflict(retry.DefaultRetry, func() error {
			scale, err := deployments.GetScale(c.ctx, "web", metav1.GetOptions{})
			c.no(err)
			scale.Spec.Replicas = 3
			_, err = deployments.UpdateScale(c.ctx, "web", scale, metav1.UpdateOptions{})
			return err
		}))

		spec.WithReplicas(5)
		_, err = deployments.Apply(c.ctx, wanted, own)
		c.is(apierrors.IsConflict, err)
		var status *apierrors.StatusError
		if !errors.As(err, &status) || status.ErrStatus.Details.Causes[0].Type != metav1.CauseTypeFieldManagerConflict {
			c.Fatalf("%v does not say which field", err)
		}
		own.Force = true
		applied, err := deployments.Apply(c.ctx, wanted, own)
		c.no(err)
		extracted, err := applyapps.ExtractDeployment(applied, "go")
		c.no(err)
		if !reflect.DeepEqual(extracted.Spec.Replicas, spec.Replicas) {
			c.Fatalf("extracted %v", extracted.Spec)
		}
		foreground := metav1.DeletePropagationForeground
		c.no(deployments.Delete(c.ctx, "web", metav1.DeleteOptions{PropagationPolicy: &foreground}))
		c.until("it goes after its pods", func() bool {
			_, err := deployments.Get(c.ctx, "web", metav1.GetOptions{})
			return apierrors.IsNotFound(err)
		})
	})
}

func TestSubresourcesAndReviews(t *testing.T) {
	inEachEncoding(t, "reviews", func(c *cluster) {
		c.pod("p")
		pods := c.clients.CoreV1().Pods(c.namespace)
		c.no(pods.EvictV1(c.ctx, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: c.namespace}}))
		c.until("it is evicted", func() bool {
			_, err := pods.Get(c.ctx, "p", metav1.GetOptions{})
			return apierrors.IsNotFound(err)
		})

		accounts := c.clients.CoreV1().ServiceAccounts(c.namespace)
		_, err := accounts.Create(c.ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "robot"}}, metav1.CreateOptions{})
		c.no(err)
		token, err := accounts.CreateToken(c.ctx, "robot", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
		c.no(err)
		asked := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token.Status.Token}}
		known, err := c.clients.AuthenticationV1().TokenReviews().Create(c.ctx, asked, metav1.CreateOptions{})
		c.no(err)
		if known.Status.User.Username != "system:serviceaccount:"+c.namespace+":robot" {
			c.Fatalf("the token is of %q", known.Status.User.Username)
		}
		verb := &authorizationv1.ResourceAttributes{Verb: "create", Resource: "pods", Namespace: c.namespace}
		mayI := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: verb}}
		answer, err := c.clients.AuthorizationV1().SelfSubjectAccessReviews().Create(c.ctx, mayI, metav1.CreateOptions{})
		c.no(err)
		if !answer.Status.Allowed {
			c.Fatal("the administrator may create pods")
		}
	})
}
