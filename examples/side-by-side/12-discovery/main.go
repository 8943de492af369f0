// Prints the resources of the server, each in its preferred version.
package main

import (
	"fmt"
	"log"

	"k8s.io/client-go/discovery"
	ctrl "sigs.k8s.io/controller-runtime"
)

func main() {
	client := discovery.NewDiscoveryClientForConfigOrDie(ctrl.GetConfigOrDie())
	versions, err := client.ServerPreferredResources()
	if err != nil && !discovery.IsGroupDiscoveryFailedError(err) {
		log.Fatal(err)
	}
	for _, version := range versions {
		for _, resource := range version.APIResources {
			fmt.Println(version.GroupVersion, resource.Name)
		}
	}
	if err != nil {
		fmt.Println("incomplete:", err)
	}
}
