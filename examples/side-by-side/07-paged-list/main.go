// Prints the running pods of an app, 100 at a time.
package main

import (
	"context"
	"fmt"
	"log"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/pager"
	ctrl "sigs.k8s.io/controller-runtime"
)

func main() {
	pods := kubernetes.NewForConfigOrDie(ctrl.GetConfigOrDie()).CoreV1().Pods(metav1.NamespaceAll)
	pages := pager.New(func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		return pods.List(ctx, options)
	})
	pages.PageSize = 100
	running := metav1.ListOptions{LabelSelector: "app=side-by-side", FieldSelector: "status.phase=Running"}
	err := pages.EachListItem(context.Background(), running, func(object runtime.Object) error {
		pod := object.(*corev1.Pod)
		fmt.Printf("%s/%s\n", pod.Namespace, pod.Name)
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
}
