package client

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// seen counts what an informer told its handler.
type seen struct {
	lock                            sync.Mutex
	added, updated, deleted, resync int
	last                            map[string]string
}

func (s *seen) handler() cache.ResourceEventHandler {
	note := func(object any) {
		if secret, ok := object.(*corev1.Secret); ok {
			s.last[secret.Name] = secret.ResourceVersion
		}
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(object any) {
			s.lock.Lock()
			defer s.lock.Unlock()
			s.added++
			note(object)
		},
		UpdateFunc: func(old, object any) {
			s.lock.Lock()
			defer s.lock.Unlock()
			if old.(*corev1.Secret).ResourceVersion == object.(*corev1.Secret).ResourceVersion {
				s.resync++
			} else {
				s.updated++
			}
			note(object)
		},
		DeleteFunc: func(any) {
			s.lock.Lock()
			defer s.lock.Unlock()
			s.deleted++
		},
	}
}

func (s *seen) are(added, updated, deleted int) func() bool {
	return func() bool {
		s.lock.Lock()
		defer s.lock.Unlock()
		return s.added == added && s.updated == updated && s.deleted == deleted
	}
}

// start runs an informer for the secrets of a namespace until the test ends.
func start(ctx context.Context, t *testing.T, client kubernetes.Interface, namespace string, resync time.Duration) (*seen, informers.SharedInformerFactory) {
	t.Helper()
	factory := informers.NewSharedInformerFactoryWithOptions(client, resync, informers.WithNamespace(namespace))
	seen := &seen{last: map[string]string{}}
	_, err := factory.Core().V1().Secrets().Informer().AddEventHandler(seen.handler())
	must(t, err)
	ctx, cancel := context.WithCancel(ctx)
	t.Cleanup(func() {
		cancel()
		factory.Shutdown()
	})
	factory.Start(ctx.Done())
	for kind, synced := range factory.WaitForCacheSync(ctx.Done()) {
		if !synced {
			t.Fatalf("the cache of %s is not filled", kind)
		}
	}
	return seen, factory
}

// TestInformers: what is there, what comes, changes and goes reaches the handler and the lister.
func TestInformers(t *testing.T) {
	ctx, client, namespace := begin(t)
	api := client.CoreV1().Secrets(namespace)
	for _, name := range []string{"a", "b"} {
		_, err := api.Create(ctx, secret(name, ""), metav1.CreateOptions{})
		must(t, err)
	}
	seen, factory := start(ctx, t, reader(t), namespace, 0)
	lister := factory.Core().V1().Secrets().Lister().Secrets(namespace)
	eventually(ctx, t, "two objects at the start", seen.are(2, 0, 0))

	_, err := api.Create(ctx, secret("c", ""), metav1.CreateOptions{})
	must(t, err)
	changed, err := api.Update(ctx, secret("b", "1"), metav1.UpdateOptions{})
	must(t, err)
	must(t, api.Delete(ctx, "a", metav1.DeleteOptions{}))
	eventually(ctx, t, "one more, one changed, one gone", seen.are(3, 1, 1))

	listed, err := lister.List(labels.SelectorFromSet(labels.Set{"name": "b"}))
	must(t, err)
	if len(listed) != 1 || string(listed[0].Data["x"]) != "1" || listed[0].ResourceVersion != changed.ResourceVersion {
		t.Fatalf("the lister has %v, the server said %v", listed, changed)
	}
	if _, err := lister.Get("a"); !apierrors.IsNotFound(err) {
		t.Fatalf("a deleted object is still listed: %v", err)
	}
}

// TestResync: a handler hears of unchanged objects again, without any request.
func TestResync(t *testing.T) {
	ctx, client, namespace := begin(t)
	_, err := client.CoreV1().Secrets(namespace).Create(ctx, secret("a", ""), metav1.CreateOptions{})
	must(t, err)
	seen, _ := start(ctx, t, client, namespace, time.Second)
	eventually(ctx, t, "a resync", func() bool {
		seen.lock.Lock()
		defer seen.lock.Unlock()
		return seen.resync > 0
	})
	if !seen.are(1, 0, 0)() {
		t.Fatal("a resync is neither an addition nor a change")
	}
}

// TestRelistAfterGone: a watch that asks for a version the server no longer has is told so, and the informer catches up.
func TestRelistAfterGone(t *testing.T) {
	ctx, plain, namespace := begin(t)
	api := plain.CoreV1().Secrets(namespace)
	_, err := api.Create(ctx, secret("a", ""), metav1.CreateOptions{})
	must(t, err)
	forget(ctx, t, plain, namespace)

	cutter := &cutter{}
	config := config(t)
	roundTrip(cutter.see).around(config)
	seen, _ := start(ctx, t, client(t, config), namespace, 0)
	eventually(ctx, t, "the state at the start", seen.are(2, 0, 0))
	// A watch that saw nothing would be taken for a broken one, and not be resumed.
	_, err = api.Update(ctx, secret("a", "1"), metav1.UpdateOptions{})
	must(t, err)
	eventually(ctx, t, "a change before the cut", seen.are(2, 1, 0))

	cutter.cut()
	eventually(ctx, t, "a watch for what is gone", cutter.askedForTooOld)
	_, err = api.Update(ctx, secret("a", "2"), metav1.UpdateOptions{})
	must(t, err)
	eventually(ctx, t, "the change after the relist", seen.are(2, 2, 0))
}

// forget writes until the server no longer has version 1.
func forget(ctx context.Context, t *testing.T, client kubernetes.Interface, namespace string) {
	t.Helper()
	api := client.CoreV1().Secrets(namespace)
	large := secret("large", strings.Repeat("x", 900_000))
	_, err := api.Create(ctx, large, metav1.CreateOptions{})
	must(t, err)
	for n := 0; !isGone(ctx, t, client, namespace); n++ {
		// Rarely asked, because the answer may be all that was written so far.
		for range 40 {
			large.Labels["n"] = strconv.Itoa(n)
			_, err := api.Update(ctx, large, metav1.UpdateOptions{})
			must(t, err)
			n++
		}
	}
}

// isGone asks for everything since version 1. The answer may come as a status or as the first event.
func isGone(ctx context.Context, t *testing.T, client kubernetes.Interface, namespace string) bool {
	t.Helper()
	timeout := int64(1)
	watcher, err := client.CoreV1().Secrets(namespace).Watch(ctx, metav1.ListOptions{ResourceVersion: "1", TimeoutSeconds: &timeout})
	if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
		return true
	}
	must(t, err)
	defer watcher.Stop()
	first := <-watcher.ResultChan()
	return first.Type == watch.Error && apierrors.IsResourceExpired(apierrors.FromObject(first.Object))
}
