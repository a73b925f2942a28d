// Command kubernetes reads manifests from standard input, strictly by the types
// of Kubernetes, and prints the pod of their Deployment as JSON. It is a module of
// its own, so that deskhand's does not need those types.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	text, err := io.ReadAll(os.Stdin)
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
		}
		object := kinds[header.Kind]
		if object == nil {
			return fmt.Errorf("document %d: unknown kind %q", i, header.Kind)
		}
		if err := yaml.UnmarshalStrict(document, object); err != nil {
			return fmt.Errorf("document %d, %s: %w", i, header.Kind, err)
		}
		if d, ok := object.(*appsv1.Deployment); ok {
			if err := json.NewEncoder(os.Stdout).Encode(d.Spec.Template.Spec); err != nil {
				return err
			}
		}
	}
	return nil
}
