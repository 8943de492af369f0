// Creates a config map and deletes it.
package main

import (
	"context"
	"fmt"
	"log"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	ctrl "sigs.k8s.io/controller-runtime"
)

func main() {
	ctx := context.Background()
	maps := kubernetes.NewForConfigOrDie(ctrl.GetConfigOrDie()).CoreV1().ConfigMaps("default")
	created, err := maps.Create(ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "side-by-side"},
		Data:       map[string]string{"colour": "blue"},
	}, metav1.CreateOptions{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("created", created.Name)

	// Another config map of this name is not deleted.
	options := metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(created.UID))}
	if err := maps.Delete(ctx, created.Name, options); err != nil {
		log.Fatal(err)
	}
	fmt.Println("deleted", created.Name)
}
