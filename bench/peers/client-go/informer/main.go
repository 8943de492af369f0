// Informer peer: one SharedInformer for pods against the replay server; prints one JSON line.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"reflect"
	"runtime"
	"runtime/debug"
	"sort"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

func cpu() float64 {
	var u syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	f := func(t syscall.Timeval) float64 { return float64(t.Sec) + float64(t.Usec)/1e6 }
	return f(u.Utime) + f(u.Stime)
}

// statusKB reads a "VmRSS:   1234 kB" line of /proc/self/status.
func statusKB(key string) int64 {
	b, _ := os.ReadFile("/proc/self/status")
	for _, l := range strings.Split(string(b), "\n") {
		if strings.HasPrefix(l, key+":") {
			n, _ := strconv.ParseInt(strings.Fields(l)[1], 10, 64)
			return n
		}
	}
	return 0
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// Version of the list; event j has listRV + 1 + j.
const listRV = 10_000_000

func post(url string) (answer struct {
	Watchers int
	FirstNs  int64 `json:"first_ns"`
}) {
	resp, err := http.Post(url, "text/plain", nil)
	must(err)
	defer resp.Body.Close()
	must(json.NewDecoder(resp.Body).Decode(&answer))
	if answer.Watchers < 1 {
		must(fmt.Errorf("no watch is open"))
	}
	return answer
}

// quiet waits until the process has spent at least so much CPU since `from`, and then nothing to speak of for a second.
func quiet(from, least float64) {
	last, since := cpu(), time.Now()
	for time.Since(since) < time.Second || cpu()-from < least {
		time.Sleep(100 * time.Millisecond)
		if now := cpu(); now-last > 0.02 {
			last, since = now, time.Now()
		}
	}
}

func main() {
	server := flag.String("server", "http://127.0.0.1:18080", "replay server")
	variant := flag.String("variant", "json-watchlist", "json|pb|meta, then -list or -watchlist, then optionally -drop")
	pods := flag.Int("pods", 10000, "pods expected")
	events := flag.Int("events", 100000, "events expected")
	settle := flag.Float64("settle", 3, "seconds to wait before reading steady memory")
	relist := flag.Bool("relist", false, "let the server expire the watch before the events, and report the peak of the relist")
	handlers := flag.Int("handlers", 1, "handlers; the last is measured")
	stalled := flag.Bool("stalled", false, "the first handler never returns from its first update")
	rate := flag.Int("rate", 0, "events a second; 0 for as fast as they go")
	verify := flag.Bool("verify", false, "compare the server's JSON and protobuf with Go's own encoding, then exit")
	flag.Parse()
	v := "-" + *variant + "-"
	has := func(s string) bool { return strings.Contains(v, "-"+s+"-") }
	if *verify {
		verifyServer(*server)
		return
	}
	// feature gates of client-go are read from the environment
	os.Setenv("KUBE_FEATURE_WatchListClient", strconv.FormatBool(has("watchlist")))

	// In 0.36 the typed clients of built-in kinds ask for protobuf unless a content type is set, so JSON (what
	// clients of custom resources get) has to be asked for.
	cfg := &rest.Config{Host: *server, QPS: -1, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}
	if has("pb") {
		cfg.ContentType = "application/vnd.kubernetes.protobuf"
		cfg.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	}

	t0, c0 := time.Now(), cpu()
	var inf cache.SharedIndexInformer
	var start func(<-chan struct{})
	if has("meta") {
		c, err := metadata.NewForConfig(cfg)
		must(err)
		f := metadatainformer.NewSharedInformerFactory(c, 0)
		inf, start = f.ForResource(corev1.SchemeGroupVersion.WithResource("pods")).Informer(), f.Start
	} else {
		c, err := kubernetes.NewForConfig(cfg)
		must(err)
		var opts []informers.SharedInformerOption
		if has("drop") {
			opts = append(opts, informers.WithTransform(func(o interface{}) (interface{}, error) {
				if p, ok := o.(*corev1.Pod); ok {
					p.ManagedFields = nil
				}
				return o, nil
			}))
		}
		f := informers.NewSharedInformerFactoryWithOptions(c, 0, opts...)
		inf, start = f.Core().V1().Pods().Informer(), f.Start
	}
	var adds, updates atomic.Int64
	done := make(chan struct{})
	for i := 1; i < *handlers; i++ {
		stalls := *stalled && i == 1
		_, err := inf.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: func(o interface{}) {},
			UpdateFunc: func(_, o interface{}) {
				if stalls {
					select {}
				}
			},
		})
		must(err)
	}
	arrived := make([]int64, *events)
	reg, err := inf.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(o interface{}) { adds.Add(1) },
		UpdateFunc: func(old, o interface{}) {
			// A relist brings every object again.
			if old.(metav1.Object).GetResourceVersion() == o.(metav1.Object).GetResourceVersion() {
				return
			}
			if *rate > 0 {
				rv, _ := strconv.Atoi(o.(metav1.Object).GetResourceVersion())
				arrived[rv-listRV-1] = time.Now().UnixNano()
			}
			if updates.Add(1) == int64(*events) {
				close(done)
			}
		},
	})
	must(err)
	stop := make(chan struct{})
	start(stop)
	for !inf.HasSynced() {
		time.Sleep(time.Millisecond)
	}
	storeWall := time.Since(t0)
	for !reg.HasSynced() {
		time.Sleep(time.Millisecond)
	}
	wall, c1, peak := time.Since(t0), cpu()-c0, statusKB("VmHWM")

	time.Sleep(time.Duration(*settle * float64(time.Second)))
	asis := statusKB("VmRSS")
	cpuSettled := cpu() - c0
	debug.FreeOSMemory()
	time.Sleep(200 * time.Millisecond)
	settled := statusKB("VmRSS")
	var ms runtime.MemStats
	runtime.ReadMemStats(&ms)
	n := len(inf.GetStore().ListKeys())
	os.WriteFile("/proc/self/clear_refs", []byte("5"), 0) // resets VmHWM

	out := map[string]interface{}{
		"peer": "client-go", "variant": *variant, "pods": *pods, "events": *events,
		"sync_wall_s": wall.Seconds(), "sync_store_wall_s": storeWall.Seconds(), "sync_cpu_s": c1, "sync_cpu_settled_s": cpuSettled,
		"rss_peak_sync_kb": peak, "rss_asis_kb": asis, "rss_settled_kb": settled, "heap_live_kb": ms.HeapAlloc / 1024,
		"store_len": n, "adds": adds.Load(),
	}
	if *relist {
		before := cpu()
		post(*server + "/_control/expire")
		quiet(before, c1/3)
		out["relist_cpu_s"], out["rss_peak_relist_kb"] = cpu()-before, statusKB("VmHWM")
		debug.FreeOSMemory()
		os.WriteFile("/proc/self/clear_refs", []byte("5"), 0)
	}
	if *events > 0 {
		t, c := time.Now(), cpu()
		answer := post(fmt.Sprintf("%s/_control/start?rate=%d", *server, *rate))
		<-done
		out["events_wall_s"] = time.Since(t).Seconds()
		out["events_cpu_s"] = cpu() - c
		out["rss_peak_events_kb"] = statusKB("VmHWM")
		time.Sleep(time.Second)
		out["rss_after_events_kb"] = statusKB("VmRSS")
		debug.FreeOSMemory()
		out["rss_after_events_settled_kb"] = statusKB("VmRSS")
		if *rate > 0 {
			late := make([]float64, len(arrived))
			for i, at := range arrived {
				late[i] = float64(at-answer.FirstNs)/1e3 - float64(i)*1e6/float64(*rate)
			}
			sort.Float64s(late)
			out["late_p50_us"], out["late_p99_us"] = late[len(late)/2], late[len(late)*99/100]
		}
		out["events_seen"] = updates.Load()
	}
	out["last_rv"] = inf.LastSyncResourceVersion()
	b, _ := json.Marshal(out)
	fmt.Println(string(b))
}

// verifyServer proves that the two encodings the server holds are the same objects, and that the protobuf is byte for
// byte what Go's marshaller would have written.
func verifyServer(server string) {
	get := func(ct string) *corev1.PodList {
		c, err := kubernetes.NewForConfig(&rest.Config{Host: server, ContentConfig: rest.ContentConfig{ContentType: ct, AcceptContentTypes: ct}})
		must(err)
		l, err := c.CoreV1().Pods("").List(context.Background(), metav1.ListOptions{})
		must(err)
		return l
	}
	j, p := get("application/json"), get("application/vnd.kubernetes.protobuf")
	keys := map[string]bool{}
	bad := 0
	var pbBytes int
	for i := range j.Items {
		a, b := &j.Items[i], &p.Items[i]
		keys[a.Namespace+"/"+a.Name] = true
		if !reflect.DeepEqual(a, b) && bad < 3 {
			bad++
			x, _ := json.Marshal(a)
			y, _ := json.Marshal(b)
			fmt.Printf("pod %d differs\n%s\n%s\n", i, x, y)
		}
		m, err := a.Marshal()
		must(err)
		pbBytes += len(m)
	}
	req, _ := http.NewRequest("GET", server+"/api/v1/pods", nil)
	req.Header.Set("Accept", "application/vnd.kubernetes.protobuf")
	r, err := http.DefaultClient.Do(req)
	must(err)
	raw, _ := io.ReadAll(r.Body)
	m, err := j.Marshal()
	must(err)
	same := bytes.Contains(raw, m)
	fmt.Printf("{\"pods\":%d,\"distinct_keys\":%d,\"deep_equal\":%v,\"protobuf_bytes_identical\":%v,\"go_pb_bytes\":%d,\"served_pb_bytes\":%d}\n", len(j.Items), len(keys), bad == 0, same, len(m), len(raw))
	if bad > 0 || !same {
		for i := range m {
			k := bytes.Index(raw, m[:i+1])
			if k < 0 {
				fmt.Printf("first difference after %d bytes: %q\n", i, m[max(0, i-40):i+20])
				break
			}
		}
		os.Exit(1)
	}
}
