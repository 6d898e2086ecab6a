package client

import (
	"context"
	"fmt"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/pager"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"
)

// TestPages: a list in pages is one snapshot, whatever is written between them.
func TestPages(t *testing.T) {
	ctx, client, namespace := begin(t)
	api := client.CoreV1().Secrets(namespace)
	for n := range 7 {
		_, err := api.Create(ctx, secret(fmt.Sprintf("n%d", n), ""), metav1.CreateOptions{})
		must(t, err)
	}
	versions := map[string]int{}
	page := func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		list, err := api.List(ctx, options)
		if err != nil {
			return nil, err
		}
		versions[list.ResourceVersion]++
		if len(versions) == 1 && versions[list.ResourceVersion] == 1 {
			must(t, api.Delete(ctx, "n5", metav1.DeleteOptions{}))
			_, err := api.Create(ctx, secret("n9", ""), metav1.CreateOptions{})
			must(t, err)
			if remaining := ptr.Deref(list.RemainingItemCount, 0); len(list.Items) != 3 || remaining != 4 {
				t.Fatalf("the first page has %d and leaves %d", len(list.Items), remaining)
			}
		}
		return list, nil
	}
	pages := pager.New(page)
	pages.PageSize = 3
	var names []string
	must(t, pages.EachListItem(ctx, metav1.ListOptions{}, func(object runtime.Object) error {
		names = append(names, object.(*corev1.Secret).Name)
		return nil
	}))
	if fmt.Sprint(names) != "[n0 n1 n2 n3 n4 n5 n6]" || len(versions) != 1 {
		t.Fatalf("pages gave %v at versions %v", names, versions)
	}
}

// TestWatchList: a list as a stream ends with the bookmark that says so, then goes on as a watch.
func TestWatchList(t *testing.T) {
	ctx, client, namespace := begin(t)
	api := client.CoreV1().Secrets(namespace)
	for _, name := range []string{"a", "b"} {
		_, err := api.Create(ctx, secret(name, ""), metav1.CreateOptions{})
		must(t, err)
	}
	watcher, err := api.Watch(ctx, metav1.ListOptions{
		SendInitialEvents: ptr.To(true), AllowWatchBookmarks: true, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
	})
	must(t, err)
	defer watcher.Stop()
	expect := func(kind watch.EventType, name string) *corev1.Secret {
		t.Helper()
		event := <-watcher.ResultChan()
		object, ok := event.Object.(*corev1.Secret)
		if !ok || event.Type != kind || object.Name != name {
			t.Fatalf("expected %s %q, got %+v", kind, name, event)
		}
		return object
	}
	expect(watch.Added, "a")
	last := expect(watch.Added, "b")
	end := expect(watch.Bookmark, "")
	if end.Annotations[metav1.InitialEventsAnnotationKey] != "true" || number(t, end.ResourceVersion) < number(t, last.ResourceVersion) {
		t.Fatalf("the end of the list: %+v", end)
	}
	must(t, api.Delete(ctx, "a", metav1.DeleteOptions{}))
	expect(watch.Deleted, "a")
}

// TestOtherClients: objects without types, and only their metadata.
func TestOtherClients(t *testing.T) {
	ctx, client, namespace := begin(t)
	created, err := client.CoreV1().Secrets(namespace).Create(ctx, secret("a", "1"), metav1.CreateOptions{})
	must(t, err)
	resource := schema.GroupVersionResource{Version: "v1", Resource: "secrets"}

	untyped, err := dynamic.NewForConfig(config(t))
	must(t, err)
	object, err := untyped.Resource(resource).Namespace(namespace).Get(ctx, "a", metav1.GetOptions{})
	must(t, err)
	if object.GetUID() != created.UID || object.GetKind() != "Secret" {
		t.Fatalf("untyped: %+v", object)
	}
	partial, err := metadata.NewForConfig(config(t))
	must(t, err)
	list, err := partial.Resource(resource).Namespace(namespace).List(ctx, metav1.ListOptions{LabelSelector: "name=a"})
	must(t, err)
	if len(list.Items) != 1 || list.Items[0].UID != created.UID || list.Items[0].Labels["name"] != "a" {
		t.Fatalf("metadata: %+v", list)
	}
	watcher, err := partial.Resource(resource).Namespace(namespace).Watch(ctx, metav1.ListOptions{ResourceVersion: list.ResourceVersion})
	must(t, err)
	defer watcher.Stop()
	must(t, partial.Resource(resource).Namespace(namespace).Delete(ctx, "a", metav1.DeleteOptions{}))
	event := <-watcher.ResultChan()
	if gone, ok := event.Object.(*metav1.PartialObjectMetadata); !ok || event.Type != watch.Deleted || gone.UID != created.UID {
		t.Fatalf("watched metadata: %+v", event)
	}
	_, err = partial.Resource(resource).Namespace(namespace).Get(ctx, "a", metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		t.Fatalf("what is not there: %v", err)
	}
}

// TestConflicts: concurrent read-modify-write loses nothing.
func TestConflicts(t *testing.T) {
	ctx, client, namespace := begin(t)
	api := client.CoreV1().Secrets(namespace)
	_, err := api.Create(ctx, secret("counter", ""), metav1.CreateOptions{})
	must(t, err)
	const writers, each = 8, 5
	var group sync.WaitGroup
	for range writers {
		group.Go(func() {
			for range each {
				// Without pause: only the number of tries has to be bounded.
				backoff := retry.DefaultRetry
				backoff.Steps, backoff.Duration = 1000, 0
				err := retry.RetryOnConflict(backoff, func() error {
					counter, err := api.Get(ctx, "counter", metav1.GetOptions{})
					if err != nil {
						return err
					}
					counter.Data["x"] = append(counter.Data["x"], 'x')
					_, err = api.Update(ctx, counter, metav1.UpdateOptions{})
					return err
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	counter, err := api.Get(ctx, "counter", metav1.GetOptions{})
	must(t, err)
	if len(counter.Data["x"]) != writers*each {
		t.Fatalf("%d of %d updates survived", len(counter.Data["x"]), writers*each)
	}
}
