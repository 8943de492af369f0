// Counts the runs of this program in a config map.
package main

import (
	"context"
	"fmt"
	"log"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/retry"
	ctrl "sigs.k8s.io/controller-runtime"
)

func main() {
	ctx := context.Background()
	maps := kubernetes.NewForConfigOrDie(ctrl.GetConfigOrDie()).CoreV1().ConfigMaps("default")
	runs := 0
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		m, err := maps.Get(ctx, "side-by-side", metav1.GetOptions{})
		if err != nil {
			return err
		}
		runs, _ = strconv.Atoi(m.Data["runs"])
		runs++
		if m.Data == nil {
			m.Data = map[string]string{}
		}
		m.Data["runs"] = strconv.Itoa(runs)
		_, err = maps.Update(ctx, m, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(runs)
}
