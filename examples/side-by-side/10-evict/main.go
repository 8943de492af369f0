// Evicts the pods of an app, as far as disruption budgets allow it.
package main

import (
	"context"
	"fmt"
	"log"

	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	ctrl "sigs.k8s.io/controller-runtime"
)

func main() {
	ctx := context.Background()
	pods := kubernetes.NewForConfigOrDie(ctrl.GetConfigOrDie()).CoreV1().Pods("default")
	list, err := pods.List(ctx, metav1.ListOptions{LabelSelector: "app=side-by-side"})
	if err != nil {
		log.Fatal(err)
	}
	for _, pod := range list.Items {
		eviction := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: pod.Name, Namespace: pod.Namespace}}
		err := pods.EvictV1(ctx, eviction)
		switch {
		case err == nil:
			fmt.Println("evicted", pod.Name)
		case apierrors.IsTooManyRequests(err):
			fmt.Println("kept", pod.Name)
		default:
			log.Fatal(err)
		}
	}
}
