// One case of the work queue bench with client-go's queues. Prints one line of JSON, as ../src/main.rs does.
package main

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"k8s.io/client-go/util/workqueue"
)

const (
	adds = 1000000
	hot  = 1000
)

func main() {
	keys := make([]string, adds)
	for i := range keys {
		keys[i] = fmt.Sprintf("payments-%03d/payments-api-%d-7d9c5b6f4d-x%05x", i%200, i/10, i)
	}
	debug.FreeOSMemory()
	cases := map[string]func(){
		"1/1 distinct":   func() { pass(1, keys, adds) },
		"4/4 distinct":   func() { pass(4, keys, adds) },
		"64/64 distinct": func() { pass(64, keys, adds) },
		"1/1 hot":        func() { pass(1, keys, hot) },
		"4/4 hot":        func() { pass(4, keys, hot) },
		"64/64 hot":      func() { pass(64, keys, hot) },
		"in order":       func() { inOrder(keys) },
		"delayed":        func() { delayed(keys) },
		"failures":       func() { failures(keys) },
	}
	cases[os.Args[1]]()
}

func pass(pairs int, keys []string, distinct int) {
	q := workqueue.NewTyped[string]()
	var delivered atomic.Int64
	var producers, consumers sync.WaitGroup
	m := start()
	for pair := 0; pair < pairs; pair++ {
		consumers.Add(1)
		go func() {
			defer consumers.Done()
			count := int64(0)
			for {
				key, shutdown := q.Get()
				if shutdown {
					delivered.Add(count)
					return
				}
				count++
				q.Done(key)
			}
		}()
		producers.Add(1)
		go func() {
			defer producers.Done()
			for i, count := pair, 0; i < adds; i += pairs {
				q.Add(keys[i%distinct])
				// As often as the other side's producers: what is measured depends on how many adds find their key in line.
				if count++; count%128 == 0 {
					runtime.Gosched()
				}
			}
		}()
	}
	producers.Wait()
	q.ShutDownWithDrain()
	consumers.Wait()
	m.report(delivered.Load(), 0)
}

func inOrder(keys []string) {
	q := workqueue.NewTyped[string]()
	m := start()
	for _, key := range keys {
		q.Add(key)
	}
	for _, want := range keys {
		key, _ := q.Get()
		if key != want {
			panic("out of order")
		}
		q.Done(key)
	}
	m.report(int64(len(keys)), 0)
}

func delayed(keys []string) {
	q := workqueue.NewTypedDelayingQueue[string]()
	m := start()
	for i, key := range keys {
		q.AddAfter(key, time.Duration(2000000+i*7919%1000003)*time.Microsecond)
	}
	bytes := m.memory()
	for range keys {
		key, _ := q.Get()
		q.Done(key)
	}
	m.report(int64(len(keys)), bytes)
}

func failures(keys []string) {
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[string](2*time.Second, 1000*time.Second)
	q := workqueue.NewTypedRateLimitingQueue(limiter)
	m := start()
	for _, key := range keys {
		q.AddRateLimited(key)
	}
	bytes := m.memory()
	for range keys {
		key, _ := q.Get()
		q.Forget(key)
		q.Done(key)
	}
	m.report(int64(len(keys)), bytes)
}

type meter struct {
	start    time.Time
	cpu      float64
	resident uint64
}

func start() meter { return meter{time.Now(), cpu(), resident()} }

func (m *meter) memory() uint64 { return max(resident(), m.resident) - m.resident }

func (m *meter) report(delivered int64, bytes uint64) {
	fmt.Printf(`{"delivered": %d, "wall_s": %.4f, "cpu_s": %.4f, "bytes": %d}`+"\n",
		delivered, time.Since(m.start).Seconds(), cpu()-m.cpu, bytes)
}

func cpu() float64 {
	var u syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	seconds := func(t syscall.Timeval) float64 { return float64(t.Sec) + float64(t.Usec)/1e6 }
	return seconds(u.Utime) + seconds(u.Stime)
}

func resident() uint64 {
	text, _ := os.ReadFile("/proc/self/statm")
	var size, pages uint64
	fmt.Sscan(string(text), &size, &pages)
	return pages * 4096
}
