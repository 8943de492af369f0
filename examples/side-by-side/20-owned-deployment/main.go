// Runs a Deployment for each Widget.
package main

import (
	"context"
	"fmt"
	"log"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/scheme"
)

type WidgetSpec struct {
	Image    string `json:"image"`
	Replicas int32  `json:"replicas"`
}

// +kubebuilder:object:root=true
type Widget struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec WidgetSpec `json:"spec"`
}

// +kubebuilder:object:root=true
type WidgetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Widget `json:"items"`
}

type reconciler struct {
	client.Client
}

func (r *reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var widget Widget
	if err := r.Get(ctx, request.NamespacedName, &widget); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	meta := metav1.ObjectMeta{Namespace: widget.Namespace, Name: widget.Name}
	deployment := &appsv1.Deployment{ObjectMeta: meta}
	_, err := controllerutil.CreateOrUpdate(ctx, r.Client, deployment, func() error {
		labels := map[string]string{"widget": widget.Name}
		spec := &deployment.Spec
		spec.Replicas = ptr.To(widget.Spec.Replicas)
		spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
		spec.Template.Labels = labels
		if len(spec.Template.Spec.Containers) == 0 {
			spec.Template.Spec.Containers = []corev1.Container{{Name: "web"}}
		}
		spec.Template.Spec.Containers[0].Image = widget.Spec.Image
		return controllerutil.SetControllerReference(&widget, deployment, r.Scheme())
	})
	if err != nil {
		return ctrl.Result{}, err
	}
	fmt.Println(deployment.Name, "has a Deployment")
	return ctrl.Result{}, nil
}

func main() {
	mgr, err := ctrl.NewManager(ctrl.GetConfigOrDie(), ctrl.Options{})
	if err != nil {
		log.Fatal(err)
	}
	group := schema.GroupVersion{Group: "side-by-side.example.com", Version: "v1"}
	builder := scheme.Builder{GroupVersion: group}
	if err := builder.Register(&Widget{}, &WidgetList{}).AddToScheme(mgr.GetScheme()); err != nil {
		log.Fatal(err)
	}
	err = ctrl.NewControllerManagedBy(mgr).
		For(&Widget{}).
		Owns(&appsv1.Deployment{}).
		Complete(&reconciler{mgr.GetClient()})
	if err != nil {
		log.Fatal(err)
	}
	if err := mgr.Start(ctrl.SetupSignalHandler()); err != nil {
		log.Fatal(err)
	}
}
