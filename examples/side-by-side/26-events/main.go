// Publishes an event about a config map.
package main

import (
	"context"
	"log"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"
	ctrl "sigs.k8s.io/controller-runtime"
)

func main() {
	ctx := context.Background()
	client := kubernetes.NewForConfigOrDie(ctrl.GetConfigOrDie())
	m, err := client.CoreV1().ConfigMaps("default").Get(ctx, "side-by-side", metav1.GetOptions{})
	if err != nil {
		log.Fatal(err)
	}
	broadcaster := record.NewBroadcaster()
	broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: client.CoreV1().Events("")})
	recorder := broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "side-by-side"})
	recorder.Event(m, corev1.EventTypeNormal, "Checked", "all values are valid")
	// Nothing says when the event is written.
	time.Sleep(5 * time.Second)
	broadcaster.Shutdown()
}
