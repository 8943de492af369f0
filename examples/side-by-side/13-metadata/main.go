// Prints names of secrets that change, and never reads their data.
package main

import (
	"fmt"
	"log"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
)

func main() {
	client := metadata.NewForConfigOrDie(ctrl.GetConfigOrDie())
	factory := metadatainformer.NewFilteredSharedInformerFactory(client, 0, "default", nil)
	secrets := factory.ForResource(corev1.SchemeGroupVersion.WithResource("secrets")).Informer()
	changed := func(object any) {
		fmt.Println("changed", object.(*metav1.PartialObjectMetadata).Name)
	}
	_, err := secrets.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    changed,
		UpdateFunc: func(_, object any) { changed(object) },
	})
	if err != nil {
		log.Fatal(err)
	}
	factory.Start(ctrl.SetupSignalHandler().Done())
	factory.Shutdown()
}
