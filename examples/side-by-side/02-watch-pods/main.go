// Prints changes of the pods in the namespace default.
package main

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
	ctrl "sigs.k8s.io/controller-runtime"
)

func main() {
	client := kubernetes.NewForConfigOrDie(ctrl.GetConfigOrDie())
	pods := cache.NewListWatchFromClient(client.CoreV1().RESTClient(), "pods", "default", fields.Everything())
	_, _, changes, _ := watchtools.NewIndexerInformerWatcher(pods, &corev1.Pod{})
	for event := range changes.ResultChan() {
		pod, ok := event.Object.(*corev1.Pod)
		if !ok {
			continue
		}
		switch event.Type {
		case watch.Added, watch.Modified:
			fmt.Println("changed", pod.Name)
		case watch.Deleted:
			fmt.Println("deleted", pod.Name)
		}
	}
}
