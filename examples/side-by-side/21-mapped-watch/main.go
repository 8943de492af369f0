// Restarts Deployments that ask for it when the config map of their name changes.
package main

import (
	"context"
	"fmt"
	"log"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

type reconciler struct {
	client.Client
}

func (r *reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var deployment appsv1.Deployment
	if err := r.Get(ctx, request.NamespacedName, &deployment); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	var m corev1.ConfigMap
	if err := r.Get(ctx, request.NamespacedName, &m); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	template := &deployment.Spec.Template
	if deployment.Labels["side-by-side/restarts"] != "with-config-map" || template.Annotations["side-by-side/config-map"] == m.ResourceVersion {
		return ctrl.Result{}, nil
	}
	patch := client.MergeFrom(deployment.DeepCopy())
	if template.Annotations == nil {
		template.Annotations = map[string]string{}
	}
	template.Annotations["side-by-side/config-map"] = m.ResourceVersion
	if err := r.Patch(ctx, &deployment, patch); err != nil {
		return ctrl.Result{}, err
	}
	fmt.Println(deployment.Name, "restarts")
	return ctrl.Result{}, nil
}

func main() {
	mgr, err := ctrl.NewManager(ctrl.GetConfigOrDie(), ctrl.Options{})
	if err != nil {
		log.Fatal(err)
	}
	sameName := func(_ context.Context, m client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: client.ObjectKeyFromObject(m)}}
	}
	err = ctrl.NewControllerManagedBy(mgr).
		For(&appsv1.Deployment{}).
		Watches(&corev1.ConfigMap{}, handler.EnqueueRequestsFromMapFunc(sameName)).
		Complete(&reconciler{mgr.GetClient()})
	if err != nil {
		log.Fatal(err)
	}
	if err := mgr.Start(ctrl.SetupSignalHandler()); err != nil {
		log.Fatal(err)
	}
}
