// Scales a Deployment.
package main

import (
	"context"
	"fmt"
	"log"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	autoscalingv1ac "k8s.io/client-go/applyconfigurations/autoscaling/v1"
	"k8s.io/client-go/kubernetes"
	ctrl "sigs.k8s.io/controller-runtime"
)

func main() {
	deployments := kubernetes.NewForConfigOrDie(ctrl.GetConfigOrDie()).AppsV1().Deployments("default")
	wanted := autoscalingv1ac.Scale().WithSpec(autoscalingv1ac.ScaleSpec().WithReplicas(3))
	options := metav1.ApplyOptions{FieldManager: "me", Force: true}
	scale, err := deployments.ApplyScale(context.Background(), "side-by-side", wanted, options)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(scale.Spec.Replicas)
}
