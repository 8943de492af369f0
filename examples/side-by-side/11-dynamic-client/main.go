// Prints the objects of any resource in the namespace default.
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/restmapper"
	ctrl "sigs.k8s.io/controller-runtime"
)

func main() {
	text := "deployments.apps"
	if len(os.Args) > 1 {
		text = os.Args[1]
	}
	config := ctrl.GetConfigOrDie()
	discoverer := discovery.NewDiscoveryClientForConfigOrDie(config)
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(discoverer))
	gvr, err := mapper.ResourceFor(schema.ParseGroupResource(text).WithVersion(""))
	if err != nil {
		log.Fatal(err)
	}
	gvk, err := mapper.KindFor(gvr)
	if err != nil {
		log.Fatal(err)
	}
	mapping, err := mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		log.Fatal(err)
	}
	var api dynamic.ResourceInterface = dynamic.NewForConfigOrDie(config).Resource(gvr)
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		api = dynamic.NewForConfigOrDie(config).Resource(gvr).Namespace("default")
	}
	list, err := api.List(context.Background(), metav1.ListOptions{})
	if err != nil {
		log.Fatal(err)
	}
	for _, object := range list.Items {
		fmt.Println(object.GetName())
	}
}
