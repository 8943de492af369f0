// Deletes config maps with a lifetime when it ends.
package main

import (
	"context"
	"fmt"
	"log"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

type reconciler struct {
	client.Client
}

func (r *reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var m corev1.ConfigMap
	if err := r.Get(ctx, request.NamespacedName, &m); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	text, ok := m.Annotations["side-by-side/lifetime-seconds"]
	if !ok {
		return ctrl.Result{}, nil
	}
	seconds, err := strconv.Atoi(text)
	if err != nil {
		// Only a change of the annotation can repair this, so it is not retried.
		return ctrl.Result{}, reconcile.TerminalError(err)
	}
	lifetime := time.Duration(seconds) * time.Second
	if age := time.Since(m.CreationTimestamp.Time); age < lifetime {
		return ctrl.Result{RequeueAfter: lifetime - age}, nil
	}
	if err := r.Delete(ctx, &m, client.Preconditions{UID: &m.UID}); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	fmt.Println("deleted", m.Name)
	return ctrl.Result{}, nil
}

func main() {
	mgr, err := ctrl.NewManager(ctrl.GetConfigOrDie(), ctrl.Options{})
	if err != nil {
		log.Fatal(err)
	}
	err = ctrl.NewControllerManagedBy(mgr).For(&corev1.ConfigMap{}).Complete(&reconciler{mgr.GetClient()})
	if err != nil {
		log.Fatal(err)
	}
	if err := mgr.Start(ctrl.SetupSignalHandler()); err != nil {
		log.Fatal(err)
	}
}
