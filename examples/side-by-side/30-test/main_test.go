// Tests a controller that copies the value of a config map into its annotation.
package main

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

type reconciler struct {
	client.Client
}

func (r *reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var m corev1.ConfigMap
	if err := r.Get(ctx, request.NamespacedName, &m); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	colour, ok := m.Data["colour"]
	if !ok {
		return ctrl.Result{}, nil
	}
	patch := client.MergeFrom(m.DeepCopy())
	if m.Annotations == nil {
		m.Annotations = map[string]string{}
	}
	m.Annotations["colour"] = colour
	return ctrl.Result{}, r.Patch(ctx, &m, patch)
}

func TestColourIsCopied(t *testing.T) {
	// It downloads and starts an etcd and a kube-apiserver.
	environment := &envtest.Environment{DownloadBinaryAssets: true}
	config, err := environment.Start()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = environment.Stop() }()
	mgr, err := ctrl.NewManager(config, ctrl.Options{})
	if err != nil {
		t.Fatal(err)
	}
	err = ctrl.NewControllerManagedBy(mgr).For(&corev1.ConfigMap{}).Complete(&reconciler{mgr.GetClient()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() { _ = mgr.Start(ctx) }()

	c, err := client.New(config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	m := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "side-by-side"},
		Data:       map[string]string{"colour": "blue"},
	}
	if err := c.Create(ctx, m); err != nil {
		t.Fatal(err)
	}
	copied := func(ctx context.Context) (bool, error) {
		err := c.Get(ctx, client.ObjectKeyFromObject(m), m)
		return m.Annotations["colour"] == "blue", err
	}
	if err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, 10*time.Second, true, copied); err != nil {
		t.Fatal(err)
	}
}
