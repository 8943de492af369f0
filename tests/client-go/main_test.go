// client-go as a client of the embedded server: what a Go program asks of an API server, in JSON and in protobuf.
package clientgo

import (
	"context"
	"os"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

const patience = 20 * time.Second

// A cluster as one test sees it: a client that speaks one encoding, and a namespace that goes with the test.
type cluster struct {
	*testing.T
	ctx       context.Context
	config    *rest.Config
	clients   *kubernetes.Clientset
	namespace string
}

// Runs a test once for each encoding.
func inEachEncoding(t *testing.T, name string, test func(c *cluster)) {
	for _, encoding := range []string{"json", "protobuf"} {
		t.Run(encoding, func(t *testing.T) {
			config := config(t)
			if encoding == "protobuf" {
				config.ContentType = "application/vnd.kubernetes.protobuf"
				config.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
			}
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			c := &cluster{t, ctx, config, kubernetes.NewForConfigOrDie(config), name + "-" + encoding}
			object := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: c.namespace}}
			_, err := c.clients.CoreV1().Namespaces().Create(ctx, object, metav1.CreateOptions{})
			c.no(err)
			defer c.clients.CoreV1().Namespaces().Delete(ctx, c.namespace, metav1.DeleteOptions{})
			test(c)
		})
	}
}

func config(t *testing.T) *rest.Config {
	file := os.Getenv("KUBECONFIG")
	if file == "" {
		t.Fatal("KUBECONFIG names no server; `run` starts one")
	}
	config, err := clientcmd.BuildConfigFromFlags("", file)
	if err != nil {
		t.Fatal(err)
	}
	config.QPS = -1
	return config
}

// Fails where there is an error.
func (c *cluster) no(err error) {
	c.Helper()
	if err != nil {
		c.Fatal(err)
	}
}

// Fails where an error is not of the kind that is wanted.
func (c *cluster) is(kind func(error) bool, err error) {
	c.Helper()
	if !kind(err) {
		c.Fatalf("another error was wanted than %v", err)
	}
}

// Waits until something is so.
func (c *cluster) until(what string, holds func() bool) {
	c.Helper()
	poll := func(context.Context) (bool, error) { return holds(), nil }
	if err := wait.PollUntilContextTimeout(c.ctx, 20*time.Millisecond, patience, true, poll); err != nil {
		c.Fatalf("%s: %v", what, err)
	}
}

// Makes a pod that goes at once when it is deleted.
func (c *cluster) pod(name string) *corev1.Pod {
	c.Helper()
	object := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": name}},
		Spec: corev1.PodSpec{
			Containers:                    []corev1.Container{{Name: "c", Image: "nginx"}},
			TerminationGracePeriodSeconds: new(int64),
		},
	}
	made, err := c.clients.CoreV1().Pods(c.namespace).Create(c.ctx, object, metav1.CreateOptions{})
	c.no(err)
	return made
}
