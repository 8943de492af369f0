// Counts the pods of each node in an indexed cache.
package main

import (
	"context"
	"fmt"
	"log"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
)

func main() {
	ctx, cancel := context.WithCancel(context.Background())
	client := kubernetes.NewForConfigOrDie(ctrl.GetConfigOrDie())
	factory := informers.NewSharedInformerFactory(client, 0)
	pods := factory.Core().V1().Pods().Informer()
	err := pods.AddIndexers(cache.Indexers{"node": func(object any) ([]string, error) {
		pod, ok := object.(*corev1.Pod)
		if !ok || pod.Spec.NodeName == "" {
			return nil, nil
		}
		return []string{pod.Spec.NodeName}, nil
	}})
	if err != nil {
		log.Fatal(err)
	}
	factory.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), pods.HasSynced) {
		log.Fatal("the cache has not synced")
	}
	found, err := pods.GetIndexer().ByIndex("node", "node-1")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(found), "pods on node-1")
	cancel()
	factory.Shutdown()
}
