// Package client drives an API server through client-go as programs do: informers, leader election, server-side apply,
// protobuf, pages. KUBECONFIG names the server; each test works in a namespace of its own. READER_KUBECONFIG may name a
// second server of the same cluster, at which informers hear of what is written to the first one.
package client

import (
	"context"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Longest wait for anything: generous for a loaded machine, never used up on a good run.
const patience = 2 * time.Minute

// config is a fresh copy, so that a test may change it. The limits of client-go would only slow the tests down.
func config(t *testing.T) *rest.Config {
	t.Helper()
	return configFrom(t, os.Getenv("KUBECONFIG"))
}

func configFrom(t *testing.T, path string) *rest.Config {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", path)
	must(t, err)
	config.QPS = -1
	return config
}

// reader is a client of the server that is only read from, the same one unless another is named.
func reader(t *testing.T) *kubernetes.Clientset {
	t.Helper()
	if path := os.Getenv("READER_KUBECONFIG"); path != "" {
		return client(t, configFrom(t, path))
	}
	return client(t, config(t))
}

func client(t *testing.T, config *rest.Config) *kubernetes.Clientset {
	t.Helper()
	client, err := kubernetes.NewForConfig(config)
	must(t, err)
	return client
}

// begin makes what a test starts with: a bounded time, a client, and a namespace called like the test.
func begin(t *testing.T) (context.Context, *kubernetes.Clientset, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	client := client(t, config(t))
	namespace := strings.ToLower(t.Name())
	_, err := client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
	must(t, err)
	return ctx, client, namespace
}

// number is a version as the server that gave it counts.
func number(t *testing.T, version string) uint64 {
	t.Helper()
	number, err := strconv.ParseUint(version, 10, 64)
	must(t, err)
	return number
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// eventually waits for a condition, and says what it waited for.
func eventually(ctx context.Context, t *testing.T, what string, holds func() bool) {
	t.Helper()
	for !holds() {
		select {
		case <-ctx.Done():
			t.Fatalf("not in time: %s", what)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// secret is the kind that most tests use, because no controller makes any of its own accord.
func secret(name, data string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"name": name}}, Data: map[string][]byte{"x": []byte(data)}}
}

// roundTrip sees every request on its way to the server.
type roundTrip func(request *http.Request, next http.RoundTripper) (*http.Response, error)

func (see roundTrip) around(config *rest.Config) {
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(request *http.Request) (*http.Response, error) { return see(request, next) })
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }
