// Sets the condition Ready of each Site.
package main

import (
	"context"
	"fmt"
	"log"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/scheme"
)

type SiteSpec struct {
	URL string `json:"url"`
}

type SiteStatus struct {
	Conditions []metav1.Condition `json:"conditions"`
}

// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
type Site struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   SiteSpec   `json:"spec"`
	Status SiteStatus `json:"status,omitzero"`
}

// +kubebuilder:object:root=true
type SiteList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Site `json:"items"`
}

type reconciler struct {
	client.Client
}

func (r *reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var site Site
	if err := r.Get(ctx, request.NamespacedName, &site); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	ready := metav1.Condition{
		Type: "Ready", Status: metav1.ConditionFalse, Reason: "Insecure", ObservedGeneration: site.Generation,
	}
	if strings.HasPrefix(site.Spec.URL, "https://") {
		ready.Status, ready.Reason = metav1.ConditionTrue, "Secure"
	}
	old := site.DeepCopy()
	if meta.SetStatusCondition(&site.Status.Conditions, ready) {
		if err := r.Status().Patch(ctx, &site, client.MergeFrom(old)); err != nil {
			return ctrl.Result{}, err
		}
		fmt.Printf("%s is ready: %t\n", site.Name, ready.Status == metav1.ConditionTrue)
	}
	return ctrl.Result{}, nil
}

func main() {
	mgr, err := ctrl.NewManager(ctrl.GetConfigOrDie(), ctrl.Options{})
	if err != nil {
		log.Fatal(err)
	}
	group := schema.GroupVersion{Group: "side-by-side.example.com", Version: "v1"}
	builder := scheme.Builder{GroupVersion: group}
	if err := builder.Register(&Site{}, &SiteList{}).AddToScheme(mgr.GetScheme()); err != nil {
		log.Fatal(err)
	}
	if err := ctrl.NewControllerManagedBy(mgr).For(&Site{}).Complete(&reconciler{mgr.GetClient()}); err != nil {
		log.Fatal(err)
	}
	if err := mgr.Start(ctrl.SetupSignalHandler()); err != nil {
		log.Fatal(err)
	}
}
