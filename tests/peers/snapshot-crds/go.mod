// Only pins the module whose config/crd holds the CRDs of snapshots; nothing here is compiled, so `go mod tidy` would take the line away.
module bowline.dev/tests/peers/snapshot-crds

go 1.26.0

require github.com/kubernetes-csi/external-snapshotter/client/v8 v8.6.0
