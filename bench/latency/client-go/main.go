// Reads one small ConfigMap again and again, and prints how long a read takes.
//
// usage: main KUBECONFIG NAMESPACE json|protobuf READS
package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientv1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/clientcmd"
)

const (
	name   = "bench-latency"
	warmUp = 200
)

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func main() {
	if len(os.Args) != 5 {
		must(fmt.Errorf("usage: %s KUBECONFIG NAMESPACE json|protobuf READS", os.Args[0]))
	}
	config, err := clientcmd.BuildConfigFromFlags("", os.Args[1])
	must(err)
	config.QPS = -1
	if os.Args[3] == "protobuf" {
		config.ContentType = "application/vnd.kubernetes.protobuf"
		config.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	} else {
		config.ContentType = "application/json"
		config.AcceptContentTypes = "application/json"
	}
	client, err := clientv1.NewForConfig(config)
	must(err)
	maps := client.ConfigMaps(os.Args[2])
	ctx := context.Background()
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"colour": "green"}}
	if _, err := maps.Create(ctx, object, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		must(err)
	}
	reads, err := strconv.Atoi(os.Args[4])
	must(err)
	times := make([]time.Duration, 0, reads)
	for i := 0; i < warmUp+reads; i++ {
		start := time.Now()
		object, err := maps.Get(ctx, name, metav1.GetOptions{})
		took := time.Since(start)
		must(err)
		if object.Data["colour"] != "green" {
			must(fmt.Errorf("not the object that was asked for"))
		}
		if i >= warmUp {
			times = append(times, took)
		}
	}
	slices.Sort(times)
	micros := func(part float64) float64 { return float64(times[int(float64(len(times)-1)*part)]) / 1e3 }
	fmt.Printf("{\"p50\": %.1f, \"p90\": %.1f, \"p99\": %.1f}\n", micros(0.5), micros(0.9), micros(0.99))
}
