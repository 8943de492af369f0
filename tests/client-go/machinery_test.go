package clientgo

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/scale"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

func TestEventsOfOneKindAreASeries(t *testing.T) {
	inEachEncoding(t, "events", func(c *cluster) {
		pod := c.pod("p")
		broadcaster := events.NewBroadcaster(&events.EventSinkImpl{Interface: c.clients.EventsV1()})
		c.no(broadcaster.StartRecordingToSinkWithContext(c.ctx))
		recorder := broadcaster.NewRecorder(scheme.Scheme, "clientgo")
		seen := func() []corev1.Event {
			list, err := c.clients.CoreV1().Events(c.namespace).List(c.ctx, metav1.ListOptions{FieldSelector: "reason=Tested"})
			c.no(err)
			return list.Items
		}
		recorder.Eventf(pod, nil, corev1.EventTypeNormal, "Tested", "Testing", "once")
		c.until("there is one", func() bool { return len(seen()) == 1 })
		recorder.Eventf(pod, nil, corev1.EventTypeNormal, "Tested", "Testing", "twice")
		c.until("it was counted", func() bool {
			all := seen()
			return len(all) == 1 && all[0].Series != nil && all[0].Series.Count == 2
		})
	})
}

func TestALeaderIsElectedAndLetsGo(t *testing.T) {
	inEachEncoding(t, "election", func(c *cluster) {
		identity := resourcelock.ResourceLockConfig{Identity: "me"}
		lock, err := resourcelock.New(resourcelock.LeasesResourceLock, c.namespace, "lock", c.clients.CoreV1(), c.clients.CoordinationV1(), identity)
		c.no(err)
		ctx, stop := context.WithCancel(c.ctx)
		leads, ended := make(chan struct{}), make(chan struct{})
		go leaderelection.RunOrDie(ctx, leaderelection.LeaderElectionConfig{
			Lock: lock, ReleaseOnCancel: true,
			LeaseDuration: 3 * time.Second, RenewDeadline: 2 * time.Second, RetryPeriod: time.Second / 2,
			Callbacks: leaderelection.LeaderCallbacks{
				OnStartedLeading: func(context.Context) { close(leads) },
				OnStoppedLeading: func() { close(ended) },
			},
		})
		<-leads
		stop()
		<-ended
		lease, err := c.clients.CoordinationV1().Leases(c.namespace).Get(c.ctx, "lock", metav1.GetOptions{})
		c.no(err)
		if lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity != "" {
			c.Fatalf("held by %v", lease.Spec.HolderIdentity)
		}
	})
}

func TestDiscoveryMapsKindsAndScales(t *testing.T) {
	inEachEncoding(t, "discovery", func(c *cluster) {
		discovery := memory.NewMemCacheClient(c.clients.Discovery())
		groups, resources, err := discovery.ServerGroupsAndResources()
		c.no(err)
		if len(groups) < 15 || len(resources) < 15 {
			c.Fatalf("%d groups, %d versions", len(groups), len(resources))
		}
		_, err = c.clients.Discovery().OpenAPISchema()
		c.no(err)
		paths, err := c.clients.Discovery().OpenAPIV3().Paths()
		c.no(err)
		document, err := paths["apis/apps/v1"].Schema("application/json")
		c.no(err)
		if !strings.Contains(string(document), "io.k8s.api.apps.v1.Deployment") {
			c.Fatal("no deployments in the document of apps/v1")
		}

		mapper := restmapper.NewDeferredDiscoveryRESTMapper(discovery)
		mapping, err := mapper.RESTMapping(schema.GroupKind{Kind: "ReplicationController"})
		c.no(err)
		controller := &corev1.ReplicationController{
			ObjectMeta: metav1.ObjectMeta{Name: "rc"},
			Spec: corev1.ReplicationControllerSpec{
				Replicas: new(int32), Selector: map[string]string{"app": "rc"},
				Template: &corev1.PodTemplateSpec{
					ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "rc"}},
					Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "nginx"}}},
				},
			},
		}
		_, err = c.clients.CoreV1().ReplicationControllers(c.namespace).Create(c.ctx, controller, metav1.CreateOptions{})
		c.no(err)
		scales, err := scale.NewForConfig(c.config, mapper, dynamic.LegacyAPIPathResolverFunc, scale.NewDiscoveryScaleKindResolver(discovery))
		c.no(err)
		patch := []byte(`{"spec":{"replicas":2}}`)
		scaled, err := scales.Scales(c.namespace).Patch(c.ctx, mapping.Resource, "rc", "application/merge-patch+json", patch, metav1.PatchOptions{})
		c.no(err)
		if scaled.Spec.Replicas != 2 {
			c.Fatalf("%d replicas", scaled.Spec.Replicas)
		}
	})
}
