package client

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
)

// TestDiscovery: every group, every resource, in one request and in many.
func TestDiscovery(t *testing.T) {
	_, client, _ := begin(t)
	_, lists, err := client.Discovery().ServerGroupsAndResources()
	must(t, err)
	verbs := map[string]int{}
	for _, list := range lists {
		for _, resource := range list.APIResources {
			verbs[list.GroupVersion+" "+resource.Name] = len(resource.Verbs)
		}
	}
	for resource, count := range map[string]int{
		"v1 persistentvolumeclaims": 8, "v1 persistentvolumeclaims/status": 3, "v1 pods/binding": 1, "storage.k8s.io/v1 storageclasses": 8,
		"coordination.k8s.io/v1 leases": 8, "authorization.k8s.io/v1 selfsubjectaccessreviews": 1, "apps/v1 statefulsets/scale": 3,
	} {
		if verbs[resource] != count {
			t.Errorf("%s has %d verbs", resource, verbs[resource])
		}
	}
	version, err := client.Discovery().ServerVersion()
	must(t, err)
	if version.Major != "1" || version.Minor != "36" {
		t.Errorf("version %+v", version)
	}
}

// TestScale: a workload's size through its subresource.
func TestScale(t *testing.T) {
	ctx, client, namespace := begin(t)
	labels := map[string]string{"app": "web"}
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "x"}}}}
	api := client.AppsV1().StatefulSets(namespace)
	_, err := api.Create(ctx, &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec:       appsv1.StatefulSetSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: template},
	}, metav1.CreateOptions{})
	must(t, err)
	scale, err := api.GetScale(ctx, "web", metav1.GetOptions{})
	must(t, err)
	if scale.Spec.Replicas != 1 || scale.Status.Selector != "app=web" {
		t.Fatalf("scale: %+v", scale)
	}
	scale.Spec.Replicas = 4
	_, err = api.UpdateScale(ctx, "web", scale, metav1.UpdateOptions{})
	must(t, err)
	_, err = api.UpdateScale(ctx, "web", scale, metav1.UpdateOptions{})
	if !apierrors.IsConflict(err) {
		t.Fatalf("an old scale: %v", err)
	}
	set, err := api.Get(ctx, "web", metav1.GetOptions{})
	must(t, err)
	if *set.Spec.Replicas != 4 || set.Generation != 2 {
		t.Fatalf("scaled: %+v", set)
	}
}

// TestPods: bound, evicted, and gone when the grace is over.
func TestPods(t *testing.T) {
	ctx, client, namespace := begin(t)
	// A controller would make it; that it is there already is as good.
	_, err := client.CoreV1().ServiceAccounts(namespace).Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	api := client.CoreV1().Pods(namespace)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "x"}}}}
	_, err = api.Create(ctx, pod, metav1.CreateOptions{})
	must(t, err)
	must(t, api.Bind(ctx, &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Target: corev1.ObjectReference{Kind: "Node", Name: "node-a"}}, metav1.CreateOptions{}))
	bound, err := api.Get(ctx, "a", metav1.GetOptions{})
	must(t, err)
	if bound.Spec.NodeName != "node-a" {
		t.Fatalf("bound to %q", bound.Spec.NodeName)
	}
	must(t, api.EvictV1(ctx, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: "a"}, DeleteOptions: &metav1.DeleteOptions{GracePeriodSeconds: ptr.To(int64(7))}}))
	leaving, err := api.Get(ctx, "a", metav1.GetOptions{})
	must(t, err)
	if leaving.DeletionTimestamp == nil || *leaving.DeletionGracePeriodSeconds != 7 {
		t.Fatalf("evicted: %+v", leaving.ObjectMeta)
	}
	must(t, api.Delete(ctx, "a", metav1.DeleteOptions{GracePeriodSeconds: ptr.To(int64(0))}))
	if _, err := api.Get(ctx, "a", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Fatalf("still there: %v", err)
	}
}

// TestTokens: a service account's token says who it is, to the server and to whoever asks it.
func TestTokens(t *testing.T) {
	ctx, admin, namespace := begin(t)
	_, err := admin.CoreV1().ServiceAccounts(namespace).Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "robot"}}, metav1.CreateOptions{})
	must(t, err)
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To(int64(600))}}
	token, err := admin.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, "robot", request, metav1.CreateOptions{})
	must(t, err)

	plain := config(t)
	plain.CertData, plain.KeyData, plain.CertFile, plain.KeyFile = nil, nil, "", ""
	plain.BearerToken = token.Status.Token
	robot := client(t, plain)
	self, err := robot.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	must(t, err)
	if self.Status.UserInfo.Username != "system:serviceaccount:"+namespace+":robot" {
		t.Fatalf("the token says %+v", self.Status.UserInfo)
	}
	if _, err := robot.CoreV1().Secrets(namespace).List(ctx, metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Fatalf("secrets without a role: %v", err)
	}
	review, err := robot.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
		Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "list", Resource: "secrets", Namespace: namespace}},
	}, metav1.CreateOptions{})
	must(t, err)
	if review.Status.Allowed {
		t.Fatal("the review allows what the server refuses")
	}
	must(t, admin.CoreV1().ServiceAccounts(namespace).Delete(ctx, "robot", metav1.DeleteOptions{}))
	eventually(ctx, t, "the token of a deleted account refused", func() bool {
		_, err := robot.CoreV1().Secrets(namespace).List(ctx, metav1.ListOptions{})
		return apierrors.IsUnauthorized(err)
	})
}

// TestEvents: a recorder's events arrive through the new API and are there through the old one.
func TestEvents(t *testing.T) {
	ctx, client, namespace := begin(t)
	object, err := client.CoreV1().Secrets(namespace).Create(ctx, secret("a", ""), metav1.CreateOptions{})
	must(t, err)
	broadcaster := events.NewBroadcaster(&events.EventSinkImpl{Interface: client.EventsV1()})
	must(t, broadcaster.StartRecordingToSinkWithContext(ctx))
	defer broadcaster.Shutdown()
	broadcaster.NewRecorder(scheme.Scheme, "tester").Eventf(object, nil, corev1.EventTypeNormal, "Tested", "Testing", "seen by %s", "a test")
	eventually(ctx, t, "the event", func() bool {
		list, err := client.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.name=a,reason=Tested"})
		must(t, err)
		return len(list.Items) == 1 && list.Items[0].Message == "seen by a test" && list.Items[0].InvolvedObject.UID == object.UID
	})
}
