package client

import (
	"net/http"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

// others notes the answers that are no protobuf.
type others struct {
	lock sync.Mutex
	seen []string
}

func (o *others) see(request *http.Request, next http.RoundTripper) (*http.Response, error) {
	response, err := next.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	if kind := response.Header.Get("Content-Type"); !strings.HasPrefix(kind, runtime.ContentTypeProtobuf) {
		o.lock.Lock()
		defer o.lock.Unlock()
		o.seen = append(o.seen, request.Method+" "+request.URL.Path+": "+response.Status+" "+kind)
	}
	return response, nil
}

// TestProtobuf: the built-in kinds in and out as protobuf, watches and refusals too, and nothing else on the wire.
func TestProtobuf(t *testing.T) {
	ctx, _, namespace := begin(t)
	others := &others{}
	config := config(t)
	config.ContentType, config.AcceptContentTypes = runtime.ContentTypeProtobuf, runtime.ContentTypeProtobuf
	roundTrip(others.see).around(config)
	client := client(t, config)

	expand := true
	class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: namespace}, Provisioner: "csi.example.com", AllowVolumeExpansion: &expand}
	_, err := client.StorageV1().StorageClasses().Create(ctx, class, metav1.CreateOptions{})
	must(t, err)

	api := client.CoreV1().PersistentVolumeClaims(namespace)
	watcher, err := api.Watch(ctx, metav1.ListOptions{})
	must(t, err)
	defer watcher.Stop()
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "data", Annotations: map[string]string{"note": "x"}},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: &class.Name, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		},
	}
	created, err := api.Create(ctx, claim, metav1.CreateOptions{})
	must(t, err)
	if size := created.Spec.Resources.Requests[corev1.ResourceStorage]; size.String() != "1Gi" || *created.Spec.VolumeMode != corev1.PersistentVolumeFilesystem || created.UID == "" {
		t.Fatalf("created: %+v", created)
	}
	event := <-watcher.ResultChan()
	if watched, ok := event.Object.(*corev1.PersistentVolumeClaim); !ok || event.Type != watch.Added || watched.UID != created.UID {
		t.Fatalf("watched: %+v", event)
	}
	created.Status.Phase = corev1.ClaimBound
	bound, err := api.UpdateStatus(ctx, created, metav1.UpdateOptions{})
	must(t, err)
	listed, err := api.List(ctx, metav1.ListOptions{})
	must(t, err)
	if len(listed.Items) != 1 || listed.Items[0].Status.Phase != corev1.ClaimBound || listed.Items[0].ResourceVersion != bound.ResourceVersion || listed.ResourceVersion == "" {
		t.Fatalf("listed: %+v", listed)
	}
	_, err = api.Get(ctx, "nothing", metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		t.Fatalf("what is not there: %v", err)
	}
	background := metav1.DeletePropagationBackground
	must(t, api.Delete(ctx, "data", metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &created.UID}, PropagationPolicy: &background}))

	if len(others.seen) != 0 {
		t.Fatalf("answers that are no protobuf: %q", others.seen)
	}
}
