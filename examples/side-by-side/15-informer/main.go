// Prints changes of the phases of pods.
package main

import (
	"fmt"
	"log"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
)

func main() {
	ctx := ctrl.SetupSignalHandler()
	client := kubernetes.NewForConfigOrDie(ctrl.GetConfigOrDie())
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace("default"))
	pods := factory.Core().V1().Pods().Informer()
	_, err := pods.AddEventHandler(cache.ResourceEventHandlerFuncs{
		UpdateFunc: func(old, new any) {
			before, after := old.(*corev1.Pod), new.(*corev1.Pod)
			if before.Status.Phase != after.Status.Phase {
				fmt.Printf("%s: %s to %s\n", after.Name, before.Status.Phase, after.Status.Phase)
			}
		},
		DeleteFunc: func(object any) {
			if tombstone, ok := object.(cache.DeletedFinalStateUnknown); ok {
				object = tombstone.Obj
			}
			if pod, ok := object.(*corev1.Pod); ok {
				fmt.Printf("%s: deleted\n", pod.Name)
			}
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	factory.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), pods.HasSynced) {
		log.Fatal("the cache has not synced")
	}
	fmt.Println(len(pods.GetStore().ListKeys()), "pods")
	<-ctx.Done()
	factory.Shutdown()
}
