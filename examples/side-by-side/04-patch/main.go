// Changes a config map, unless somebody else has changed it meanwhile.
package main

import (
	"context"
	"fmt"
	"log"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func main() {
	ctx := context.Background()
	c, err := client.New(ctrl.GetConfigOrDie(), client.Options{})
	if err != nil {
		log.Fatal(err)
	}
	var m corev1.ConfigMap
	if err := c.Get(ctx, client.ObjectKey{Namespace: "default", Name: "side-by-side"}, &m); err != nil {
		log.Fatal(err)
	}
	patch := client.MergeFromWithOptions(m.DeepCopy(), client.MergeFromWithOptimisticLock{})
	if m.Data == nil {
		m.Data = map[string]string{}
	}
	m.Data["colour"] = "green"
	if err := c.Patch(ctx, &m, patch); err != nil {
		log.Fatal(err)
	}
	fmt.Println(m.Data["colour"])
}
