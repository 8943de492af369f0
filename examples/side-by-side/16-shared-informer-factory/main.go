// Counts nodes and pods in caches.
package main

import (
	"context"
	"fmt"
	"log"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	ctrl "sigs.k8s.io/controller-runtime"
)

func main() {
	ctx, cancel := context.WithCancel(context.Background())
	client := kubernetes.NewForConfigOrDie(ctrl.GetConfigOrDie())
	factory := informers.NewSharedInformerFactory(client, 0)
	nodes := factory.Core().V1().Nodes().Lister()
	pods := factory.Core().V1().Pods().Lister()
	factory.Start(ctx.Done())
	for kind, synced := range factory.WaitForCacheSync(ctx.Done()) {
		if !synced {
			log.Fatalf("the cache of %s has not synced", kind)
		}
	}
	all, err := nodes.List(labels.Everything())
	if err != nil {
		log.Fatal(err)
	}
	app := labels.SelectorFromSet(labels.Set{"app": "side-by-side"})
	ours, err := pods.Pods("default").List(app)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%d nodes, %d pods\n", len(all), len(ours))
	cancel()
	factory.Shutdown()
}
