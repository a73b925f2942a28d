// Command kubernetes reads manifests strictly by the types of Kubernetes, and prints the pod of
// their Deployment, StatefulSet or SandboxTemplate as JSON. It reads standard input, or builds the kustomization
// in the folder that its argument names. It is a module of its own, so that deskhand's does not
// need those types.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	sandboxv1alpha1 "sigs.k8s.io/agent-sandbox/extensions/api/v1alpha1"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// manifests returns the manifests to read.
func manifests() ([]byte, error) {
	if len(os.Args) < 2 {
		return io.ReadAll(os.Stdin)
	}
	all, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), os.Args[1])
	if err != nil {
		return nil, err
	}
	return all.AsYaml()
}

func run() error {
	text, err := manifests()
	if err != nil {
		return err
	}
	for i, document := range bytes.Split(text, []byte("\n---\n")) {
		var header struct{ Kind string }
		if err := yaml.Unmarshal(document, &header); err != nil {
			return fmt.Errorf("document %d: %w", i, err)
		}
		kinds := map[string]any{
			"PersistentVolumeClaim": new(corev1.PersistentVolumeClaim), "Deployment": new(appsv1.Deployment), "Service": new(corev1.Service),
			"StatefulSet": new(appsv1.StatefulSet), "NetworkPolicy": new(networkingv1.NetworkPolicy),
			"PodDisruptionBudget": new(policyv1.PodDisruptionBudget), "PodMonitor": new(monitoringv1.PodMonitor),
			"SandboxTemplate": new(sandboxv1alpha1.SandboxTemplate), "SandboxWarmPool": new(sandboxv1alpha1.SandboxWarmPool),
			"SandboxClaim": new(sandboxv1alpha1.SandboxClaim),
		}
		object := kinds[header.Kind]
		if object == nil {
			return fmt.Errorf("document %d: unknown kind %q", i, header.Kind)
		}
		if err := yaml.UnmarshalStrict(document, object); err != nil {
			return fmt.Errorf("document %d, %s: %w", i, header.Kind, err)
		}
		var pod *corev1.PodSpec
		switch o := object.(type) {
		case *appsv1.Deployment:
			pod = &o.Spec.Template.Spec
		case *appsv1.StatefulSet:
			pod = &o.Spec.Template.Spec
		case *sandboxv1alpha1.SandboxTemplate:
			pod = &o.Spec.PodTemplate.Spec
		}
		if pod == nil {
			continue
		}
		if err := json.NewEncoder(os.Stdout).Encode(pod); err != nil {
			return err
		}
	}
	return nil
}
