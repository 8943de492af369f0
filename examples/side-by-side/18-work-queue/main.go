// A controller by hand: an informer, a work queue and a worker.
package main

import (
	"errors"
	"fmt"
	"log"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
)

func main() {
	ctx := ctrl.SetupSignalHandler()
	client := kubernetes.NewForConfigOrDie(ctrl.GetConfigOrDie())
	ours := informers.WithTweakListOptions(func(options *metav1.ListOptions) {
		options.LabelSelector = "app=side-by-side"
	})
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, ours)
	maps := factory.Core().V1().ConfigMaps().Informer()
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]())
	add := func(object any) {
		if key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(object); err == nil {
			queue.Add(key)
		}
	}
	_, err := maps.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    add,
		UpdateFunc: func(_, object any) { add(object) },
		DeleteFunc: add,
	})
	if err != nil {
		log.Fatal(err)
	}
	factory.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), maps.HasSynced) {
		log.Fatal("the cache has not synced")
	}
	go func() {
		<-ctx.Done()
		queue.ShutDown()
	}()
	for work(maps.GetStore(), queue) {
	}
	factory.Shutdown()
}

func work(maps cache.Store, queue workqueue.TypedRateLimitingInterface[string]) bool {
	key, shutdown := queue.Get()
	if shutdown {
		return false
	}
	defer queue.Done(key)
	err := sync(maps, key)
	switch {
	case err == nil:
		queue.Forget(key)
	case queue.NumRequeues(key) < 5:
		queue.AddRateLimited(key)
	default:
		fmt.Printf("dropped %s: %v\n", key, err)
		queue.Forget(key)
	}
	return true
}

func sync(maps cache.Store, key string) error {
	object, exists, err := maps.GetByKey(key)
	if err != nil || !exists {
		return err
	}
	colour, ok := object.(*corev1.ConfigMap).Data["colour"]
	if !ok {
		return errors.New("it has no colour")
	}
	fmt.Println(key, "is", colour)
	return nil
}
