// Waits until the rollout of a Deployment is complete.
package main

import (
	"context"
	"fmt"
	"log"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
)

func main() {
	client := kubernetes.NewForConfigOrDie(ctrl.GetConfigOrDie())
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	name := fields.OneTermEqualSelector("metadata.name", "side-by-side")
	lw := cache.NewListWatchFromClient(client.AppsV1().RESTClient(), "deployments", "default", name)
	_, err := watchtools.UntilWithSync(ctx, lw, &appsv1.Deployment{}, nil, hasRolledOut)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("rolled out")
}

func hasRolledOut(event watch.Event) (bool, error) {
	d, ok := event.Object.(*appsv1.Deployment)
	if !ok || event.Type == watch.Deleted {
		return false, nil
	}
	wanted := ptr.Deref(d.Spec.Replicas, 1)
	return d.Status.ObservedGeneration >= d.Generation &&
		d.Status.UpdatedReplicas >= wanted &&
		d.Status.Replicas <= d.Status.UpdatedReplicas &&
		d.Status.AvailableReplicas >= d.Status.UpdatedReplicas, nil
}
