// Prints whether a user may delete pods, by asking as that user.
package main

import (
	"context"
	"fmt"
	"log"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
)

func main() {
	config := ctrl.GetConfigOrDie()
	config.Impersonate = rest.ImpersonationConfig{UserName: "jane", Groups: []string{"developers"}}
	reviews := kubernetes.NewForConfigOrDie(config).AuthorizationV1().SelfSubjectAccessReviews()
	answer, err := reviews.Create(context.Background(), &authorizationv1.SelfSubjectAccessReview{
		Spec: authorizationv1.SelfSubjectAccessReviewSpec{
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Namespace: "default", Verb: "delete", Resource: "pods",
			},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("allowed:", answer.Status.Allowed)
}
