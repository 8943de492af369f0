// Works only in the one process that holds the lease.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	ctrl "sigs.k8s.io/controller-runtime"
)

func main() {
	client := kubernetes.NewForConfigOrDie(ctrl.GetConfigOrDie())
	hostname, err := os.Hostname()
	if err != nil {
		log.Fatal(err)
	}
	identity := hostname + "_" + string(uuid.NewUUID())
	leaderelection.RunOrDie(ctrl.SetupSignalHandler(), leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: "default", Name: "side-by-side"},
			Client:     client.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: identity},
		},
		LeaseDuration:   15 * time.Second,
		RenewDeadline:   10 * time.Second,
		RetryPeriod:     2 * time.Second,
		ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(ctx context.Context) {
				for ctx.Err() == nil {
					fmt.Println("leading")
					time.Sleep(time.Second)
				}
			},
			OnStoppedLeading: func() { os.Exit(0) },
		},
	})
}
