// Rejects config maps without a colour.
package main

import (
	"context"
	"errors"
	"log"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

type validator struct{}

func (validator) ValidateCreate(_ context.Context, m *corev1.ConfigMap) (admission.Warnings, error) {
	if _, ok := m.Data["colour"]; !ok {
		return nil, errors.New("a colour is needed")
	}
	return nil, nil
}

func (v validator) ValidateUpdate(ctx context.Context, _, m *corev1.ConfigMap) (admission.Warnings, error) {
	return v.ValidateCreate(ctx, m)
}

func (validator) ValidateDelete(context.Context, *corev1.ConfigMap) (admission.Warnings, error) {
	return nil, nil
}

func main() {
	mgr, err := ctrl.NewManager(ctrl.GetConfigOrDie(), ctrl.Options{
		WebhookServer: webhook.NewServer(webhook.Options{Port: 9443, CertDir: "."}),
	})
	if err != nil {
		log.Fatal(err)
	}
	err = ctrl.NewWebhookManagedBy(mgr, &corev1.ConfigMap{}).WithValidator(validator{}).Complete()
	if err != nil {
		log.Fatal(err)
	}
	if err := mgr.Start(ctrl.SetupSignalHandler()); err != nil {
		log.Fatal(err)
	}
}
