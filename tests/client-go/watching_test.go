package clientgo

import (
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
)

func TestInformersFollow(t *testing.T) {
	inEachEncoding(t, "informers", func(c *cluster) {
		factory := informers.NewSharedInformerFactoryWithOptions(c.clients, 0, informers.WithNamespace(c.namespace))
		pods := factory.Core().V1().Pods()
		byNode := func(object any) ([]string, error) { return []string{object.(*corev1.Pod).Spec.NodeName}, nil }
		c.no(pods.Informer().AddIndexers(cache.Indexers{"node": byNode}))
		var added, deleted atomic.Int32
		handler, err := pods.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    func(any) { added.Add(1) },
			DeleteFunc: func(any) { deleted.Add(1) },
		})
		c.no(err)
		c.pod("a")
		factory.Start(c.ctx.Done())
		if !cache.WaitForCacheSync(c.ctx.Done(), handler.HasSynced) {
			c.Fatal("never synced")
		}
		c.pod("b")
		c.until("both are there", func() bool {
			all, err := pods.Lister().Pods(c.namespace).List(labels.Everything())
			return err == nil && len(all) == 2 && added.Load() == 2
		})
		_, err = pods.Lister().Pods(c.namespace).Get("nothing")
		c.is(apierrors.IsNotFound, err)
		c.no(c.clients.CoreV1().Namespaces().Delete(c.ctx, c.namespace, metav1.DeleteOptions{}))
		c.until("both are gone with their namespace", func() bool {
			return deleted.Load() == 2 && len(pods.Informer().GetStore().List()) == 0
		})
	})
}

func TestMetadataIsEnough(t *testing.T) {
	inEachEncoding(t, "metadata", func(c *cluster) {
		c.pod("a")
		client := metadata.NewForConfigOrDie(c.config)
		resource := schema.GroupVersionResource{Version: "v1", Resource: "pods"}
		list, err := client.Resource(resource).Namespace(c.namespace).List(c.ctx, metav1.ListOptions{})
		c.no(err)
		factory := metadatainformer.NewFilteredSharedInformerFactory(client, 0, c.namespace, nil)
		informer := factory.ForResource(resource)
		informer.Informer()
		factory.Start(c.ctx.Done())
		factory.WaitForCacheSync(c.ctx.Done())
		cached, err := informer.Lister().List(labels.Everything())
		c.no(err)
		if len(list.Items) != 1 || len(cached) != 1 {
			c.Fatalf("%d in the list, %d in the cache", len(list.Items), len(cached))
		}
	})
}

func TestWatchesAreResumed(t *testing.T) {
	inEachEncoding(t, "watches", func(c *cluster) {
		pods := c.clients.CoreV1().Pods(c.namespace)
		made := c.pod("a")
		source := &cache.ListWatch{WatchFuncWithContext: pods.Watch}
		watcher, err := watchtools.NewRetryWatcherWithContext(c.ctx, made.ResourceVersion, source)
		c.no(err)
		defer watcher.Stop()
		c.no(pods.Delete(c.ctx, "a", metav1.DeleteOptions{}))
		for event := range watcher.ResultChan() {
			if event.Type == watch.Deleted {
				break
			}
		}

		c.pod("b")
		only := fields.OneTermEqualSelector("metadata.name", "b")
		listed := cache.NewListWatchFromClient(c.clients.CoreV1().RESTClient(), "pods", c.namespace, only)
		patch := []byte(`{"metadata":{"annotations":{"seen":"yes"}}}`)
		_, err = pods.Patch(c.ctx, "b", types.MergePatchType, patch, metav1.PatchOptions{})
		c.no(err)
		_, err = watchtools.UntilWithSync(c.ctx, listed, &corev1.Pod{}, nil, func(event watch.Event) (bool, error) {
			return event.Object.(*corev1.Pod).Annotations["seen"] == "yes", nil
		})
		c.no(err)
	})
}
