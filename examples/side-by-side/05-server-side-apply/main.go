// Creates or updates a Deployment with server-side apply.
package main

import (
	"context"
	"fmt"
	"log"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	"k8s.io/client-go/kubernetes"
	ctrl "sigs.k8s.io/controller-runtime"
)

func main() {
	deployments := kubernetes.NewForConfigOrDie(ctrl.GetConfigOrDie()).AppsV1().Deployments("default")
	labels := map[string]string{"app": "side-by-side"}
	wanted := appsv1ac.Deployment("side-by-side", "default").
		WithSpec(appsv1ac.DeploymentSpec().
			WithReplicas(2).
			WithSelector(metav1ac.LabelSelector().WithMatchLabels(labels)).
			WithTemplate(corev1ac.PodTemplateSpec().
				WithLabels(labels).
				WithSpec(corev1ac.PodSpec().
					WithContainers(corev1ac.Container().WithName("web").WithImage("nginx:1.29")))))
	applied, err := deployments.Apply(context.Background(), wanted, metav1.ApplyOptions{FieldManager: "me"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("applied", applied.Name)
}
