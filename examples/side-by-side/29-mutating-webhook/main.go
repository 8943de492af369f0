// Sets the default colour of config maps.
package main

import (
	"context"
	"log"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
)

type defaulter struct{}

func (defaulter) Default(_ context.Context, m *corev1.ConfigMap) error {
	if m.Data == nil {
		m.Data = map[string]string{}
	}
	if _, ok := m.Data["colour"]; !ok {
		m.Data["colour"] = "blue"
	}
	return nil
}

func main() {
	mgr, err := ctrl.NewManager(ctrl.GetConfigOrDie(), ctrl.Options{
		WebhookServer: webhook.NewServer(webhook.Options{Port: 9443, CertDir: "."}),
	})
	if err != nil {
		log.Fatal(err)
	}
	err = ctrl.NewWebhookManagedBy(mgr, &corev1.ConfigMap{}).WithDefaulter(defaulter{}).Complete()
	if err != nil {
		log.Fatal(err)
	}
	if err := mgr.Start(ctrl.SetupSignalHandler()); err != nil {
		log.Fatal(err)
	}
}
