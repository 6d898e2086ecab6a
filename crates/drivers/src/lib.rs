//! CSI plugins. They speak gRPC on one side and `bowline_host` on the other, and know no Kubernetes.

pub mod local;
