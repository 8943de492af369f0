package clientgo

import (
	"slices"
	"sync"
	"testing"

	definitions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"
)

// Defines a resource `foos` of a group of its own, and waits until it is served.
func (c *cluster) defineFoos(client apiextensions.Interface, group string) schema.GroupVersionResource {
	anything := true
	all := &definitions.JSONSchemaProps{Type: "object", XPreserveUnknownFields: &anything}
	version := definitions.CustomResourceDefinitionVersion{
		Name: "v1", Served: true, Storage: true,
		Schema:       &definitions.CustomResourceValidation{OpenAPIV3Schema: all},
		Subresources: &definitions.CustomResourceSubresources{Status: &definitions.CustomResourceSubresourceStatus{}},
	}
	definition := &definitions.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "foos." + group},
		Spec: definitions.CustomResourceDefinitionSpec{
			Group: group, Scope: "Namespaced", Versions: []definitions.CustomResourceDefinitionVersion{version},
			Names: definitions.CustomResourceDefinitionNames{Plural: "foos", Kind: "Foo"},
		},
	}
	served := client.ApiextensionsV1().CustomResourceDefinitions()
	_, err := served.Create(c.ctx, definition, metav1.CreateOptions{})
	c.no(err)
	c.until("it is established", func() bool {
		found, err := served.Get(c.ctx, definition.Name, metav1.GetOptions{})
		c.no(err)
		return slices.ContainsFunc(found.Status.Conditions, func(one definitions.CustomResourceDefinitionCondition) bool {
			return one.Type == definitions.Established && one.Status == definitions.ConditionTrue
		})
	})
	return schema.GroupVersionResource{Group: group, Version: "v1", Resource: "foos"}
}

func TestCustomResourcesAreReachedDynamically(t *testing.T) {
	inEachEncoding(t, "custom", func(c *cluster) {
		group := c.namespace + ".example"
		client := apiextensions.NewForConfigOrDie(c.config)
		resource := c.defineFoos(client, group)
		foos := dynamic.NewForConfigOrDie(c.config)
		var lock sync.Mutex
		var heard []string
		hear := func(kind string) func(any) {
			return func(object any) {
				lock.Lock()
				defer lock.Unlock()
				heard = append(heard, kind+" "+object.(*unstructured.Unstructured).GetName())
			}
		}
		factory := dynamicinformer.NewFilteredDynamicSharedInformerFactory(foos, 0, c.namespace, nil)
		informer := factory.ForResource(resource).Informer()
		_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: hear("added"), DeleteFunc: hear("deleted")})
		c.no(err)
		factory.Start(c.ctx.Done())
		factory.WaitForCacheSync(c.ctx.Done())

		ours := foos.Resource(resource).Namespace(c.namespace)
		foo := func(name string) *unstructured.Unstructured {
			return &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": group + "/v1", "kind": "Foo", "metadata": map[string]any{"name": name},
				"spec": map[string]any{"size": int64(1)}, "status": map[string]any{"phase": "not taken"},
			}}
		}
		held := foo("a")
		held.SetFinalizers([]string{group + "/hold"})
		made, err := ours.Create(c.ctx, held, metav1.CreateOptions{})
		c.no(err)
		if _, has := made.Object["status"]; has {
			c.Fatal("a status is written as such only")
		}
		c.no(unstructured.SetNestedField(made.Object, "ready", "status", "phase"))
		_, err = ours.UpdateStatus(c.ctx, made, metav1.UpdateOptions{})
		c.no(err)
		_, err = ours.Apply(c.ctx, "b", foo("b"), metav1.ApplyOptions{FieldManager: "go"})
		c.no(err)
		c.no(ours.Delete(c.ctx, "a", metav1.DeleteOptions{}))
		waiting, err := ours.Get(c.ctx, "a", metav1.GetOptions{})
		c.no(err)
		if waiting.GetDeletionTimestamp() == nil {
			c.Fatal("it is not on its way")
		}
		_, err = ours.Patch(c.ctx, "a", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
		c.no(err)
		c.until("all was heard", func() bool {
			lock.Lock()
			defer lock.Unlock()
			return slices.Equal(heard, []string{"added a", "added b", "deleted a"})
		})
		c.no(client.ApiextensionsV1().CustomResourceDefinitions().Delete(c.ctx, "foos."+group, metav1.DeleteOptions{}))
		c.until("the rest goes with the definition", func() bool { return len(informer.GetStore().List()) == 0 })
	})
}
