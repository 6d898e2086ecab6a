package client

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	applyv1 "k8s.io/client-go/applyconfigurations/core/v1"
)

// TestServerSideApply: typed apply configurations; a field has one owner until it is forced or given up.
func TestServerSideApply(t *testing.T) {
	ctx, client, namespace := begin(t)
	api := client.CoreV1().ConfigMaps(namespace)
	apply := func(manager string, force bool, data map[string]string) (*corev1.ConfigMap, error) {
		wanted := applyv1.ConfigMap("settings", namespace).WithData(data)
		return api.Apply(ctx, wanted, metav1.ApplyOptions{FieldManager: manager, Force: force})
	}
	_, err := apply("one", false, map[string]string{"a": "1", "b": "1"})
	must(t, err)
	_, err = apply("two", false, map[string]string{"b": "2"})
	if !apierrors.IsConflict(err) || !strings.Contains(err.Error(), `conflict with "one": .data.b`) {
		t.Fatalf("a field of another manager: %v", err)
	}
	status := err.(*apierrors.StatusError).ErrStatus
	if causes := status.Details.Causes; len(causes) != 1 || causes[0].Type != metav1.CauseTypeFieldManagerConflict || causes[0].Field != ".data.b" {
		t.Fatalf("causes of the conflict: %+v", status.Details)
	}
	forced, err := apply("two", true, map[string]string{"b": "2"})
	must(t, err)
	if forced.Data["a"] != "1" || forced.Data["b"] != "2" || len(forced.ManagedFields) != 2 {
		t.Fatalf("after force: %v %v", forced.Data, forced.ManagedFields)
	}
	// The first manager no longer wants anything: what only it owned goes, what the other took stays.
	left, err := apply("one", false, nil)
	must(t, err)
	if _, kept := left.Data["a"]; kept || left.Data["b"] != "2" {
		t.Fatalf("after giving up: %v", left.Data)
	}
}

// TestApplyFromLiveObject: extract what we own, change it, apply it again; a list with keys keeps the others' entries.
func TestApplyFromLiveObject(t *testing.T) {
	ctx, client, namespace := begin(t)
	api := client.CoreV1().PersistentVolumeClaims(namespace)
	requests := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	wanted := applyv1.PersistentVolumeClaim("data", namespace).WithLabels(map[string]string{"tier": "gold"}).WithSpec(
		applyv1.PersistentVolumeClaimSpec().WithAccessModes(corev1.ReadWriteOnce).WithStorageClassName("").
			WithResources(applyv1.VolumeResourceRequirements().WithRequests(requests)))
	live, err := api.Apply(ctx, wanted, metav1.ApplyOptions{FieldManager: "me"})
	must(t, err)
	_, err = api.Patch(ctx, "data", "application/merge-patch+json", []byte(`{"metadata":{"labels":{"other":"x"}}}`), metav1.PatchOptions{})
	must(t, err)

	owned, err := applyv1.ExtractPersistentVolumeClaim(live, "me")
	must(t, err)
	if owned.Labels["tier"] != "gold" || owned.Spec == nil || len(owned.Finalizers) != 0 {
		t.Fatalf("what we own: %+v", owned)
	}
	delete(owned.Labels, "tier")
	owned.WithLabels(map[string]string{"rank": "first"})
	live, err = api.Apply(ctx, owned, metav1.ApplyOptions{FieldManager: "me"})
	must(t, err)
	if live.Labels["rank"] != "first" || live.Labels["other"] != "x" || live.Labels["tier"] != "" {
		t.Fatalf("labels: %v", live.Labels)
	}
	// Status has owners of its own.
	status := applyv1.PersistentVolumeClaim("data", namespace).WithStatus(applyv1.PersistentVolumeClaimStatus().WithPhase(corev1.ClaimBound))
	live, err = api.ApplyStatus(ctx, status, metav1.ApplyOptions{FieldManager: "binder"})
	must(t, err)
	if live.Status.Phase != corev1.ClaimBound || live.Labels["rank"] != "first" {
		t.Fatalf("after the status: %+v", live)
	}
}
