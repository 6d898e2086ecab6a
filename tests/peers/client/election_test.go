package client

import (
	"context"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// ballot notes who leads, and complains if two do.
type ballot struct {
	t       *testing.T
	lock    sync.Mutex
	leaders []string
	history []string
}

func (b *ballot) begin(name string) {
	b.lock.Lock()
	defer b.lock.Unlock()
	b.leaders = append(b.leaders, name)
	b.history = append(b.history, name)
	if len(b.leaders) > 1 {
		b.t.Errorf("all of these lead: %v", b.leaders)
	}
}

func (b *ballot) end(name string) {
	b.lock.Lock()
	defer b.lock.Unlock()
	for n, leader := range b.leaders {
		if leader == name {
			b.leaders = append(b.leaders[:n], b.leaders[n+1:]...)
			return
		}
	}
}

func (b *ballot) leader() string {
	b.lock.Lock()
	defer b.lock.Unlock()
	if len(b.leaders) == 0 {
		return ""
	}
	return b.leaders[0]
}

// candidate runs for leadership until cancelled. One that releases hands over at once, another leaves the lease to expire.
func candidate(ctx context.Context, t *testing.T, client kubernetes.Interface, namespace, name string, release bool, ballot *ballot) context.CancelFunc {
	t.Helper()
	ctx, cancel := context.WithCancel(ctx)
	t.Cleanup(cancel)
	lock, err := resourcelock.New(resourcelock.LeasesResourceLock, namespace, "leader", client.CoreV1(), client.CoordinationV1(), resourcelock.ResourceLockConfig{Identity: name})
	must(t, err)
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: lock, Name: name, ReleaseOnCancel: release,
		LeaseDuration: 3 * time.Second, RenewDeadline: 2 * time.Second, RetryPeriod: 200 * time.Millisecond,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { ballot.begin(name) },
			OnStoppedLeading: func() { ballot.end(name) },
		},
	})
	must(t, err)
	go elector.Run(ctx)
	return cancel
}

// TestLeaderElection: two candidates, one lease, never two leaders; handed over, and taken over when it expires.
func TestLeaderElection(t *testing.T) {
	ctx, client, namespace := begin(t)
	ballot := &ballot{t: t}
	stopFirst := candidate(ctx, t, client, namespace, "first", true, ballot)
	eventually(ctx, t, "a first leader", func() bool { return ballot.leader() == "first" })
	// client-go gives the lease back before it says that it no longer leads.
	stopFirst()
	eventually(ctx, t, "the lease given back", func() bool { return ballot.leader() == "" })
	stopSecond := candidate(ctx, t, client, namespace, "second", false, ballot)
	eventually(ctx, t, "the lease handed over", func() bool { return ballot.leader() == "second" })
	candidate(ctx, t, client, namespace, "third", false, ballot)
	stopSecond()
	eventually(ctx, t, "the lease taken over", func() bool { return ballot.leader() == "third" })

	lease, err := client.CoordinationV1().Leases(namespace).Get(ctx, "leader", metav1.GetOptions{})
	must(t, err)
	if *lease.Spec.HolderIdentity != "third" || *lease.Spec.LeaseTransitions < 2 || lease.Spec.RenewTime.IsZero() {
		t.Fatalf("the lease says %+v", lease.Spec)
	}
}
