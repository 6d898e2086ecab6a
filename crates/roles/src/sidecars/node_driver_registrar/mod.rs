//! kubernetes-csi/node-driver-registrar: tells the kubelet that a CSI driver runs on this node.
//!
//! It serves `pluginregistration.Registration` on `<plugin-registration-path>/<driver>-reg.sock`; the kubelet finds the
//! socket, asks who is there and answers whether it took the driver. A refusal ends the role, so that whoever starts it
//! again presents a fresh socket. The socket goes when the role ends, and the kubelet then forgets the driver.
//!
//! It reads and writes no Kubernetes objects, so there is nothing to observe or decide: `serve.rs` answers the kubelet and
//! `run.rs` opens and closes the socket.
//!
//! Differences from upstream: a socket that was removed is made again; a driver that listens and does not answer is asked
//! again until 30 seconds have passed; the socket is removed after a refusal, too, and on SIGINT, which ends every program
//! here as SIGTERM does.

mod run;
mod serve;
#[cfg(test)]
mod tests;

pub use run::{Flags, NAME, Named, run, socket_name};
