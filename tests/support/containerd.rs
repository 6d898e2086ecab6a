//! containerd from Debian's packages, in namespaces and with directories of its own, and the image that pods use.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::PATIENCE;
use super::namespaces::Namespaces;
use super::peers::peer;
use super::program::Program;

/// For sandboxes and for containers; `scripts/fetch-containerd` makes it.
pub const IMAGE: &str = "bowline.dev/tests/busybox:1";
/// The only network of a pod is the host's, and without a configuration the node would never be ready.
const NETWORK: &str = r#"{"cniVersion": "0.4.0", "name": "none", "plugins": [{"type": "loopback"}]}"#;
/// Others would need file systems, devices or directories of the machine.
const DISABLED: &str = r#""io.containerd.internal.v1.opt", "io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.zfs", "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.aufs", "io.containerd.tracing.processor.v1.otlp", "io.containerd.internal.v1.tracing""#;

/// Runs in the namespaces of a node and ends with them.
pub struct Containerd {
    folder: PathBuf,
    socket: PathBuf,
    program: Program,
}

impl Containerd {
    /// Returns when it answers and has the image.
    pub async fn start(dir: &Path, namespaces: &Namespaces) -> Self {
        let folder = std::path::absolute(peer("containerd")).expect("a path");
        let config = dir.join("containerd.toml");
        std::fs::create_dir(dir.join("cni")).expect("a folder");
        std::fs::write(dir.join("cni/none.conflist"), NETWORK).expect("a network");
        std::fs::write(&config, configuration(dir, &folder)).expect("a configuration");
        // Its shim is found by this.
        let path = format!("{}:{}", folder.display(), std::env::var("PATH").expect("a path"));
        let words = ["--config", config.to_str().expect("text")];
        let program =
            namespaces.program(dir, "containerd", folder.join("containerd"), &words, &[("PATH", &path)]);
        let mut started = Self { socket: dir.join("containerd.sock"), folder, program };
        started.ready().await;
        let image = started.folder.join("image.tar");
        let import = ["images", "import", "--snapshotter", "native", image.to_str().expect("text")];
        started.ctr(namespaces, &import);
        started
    }

    /// One that cannot start here says why in its log, which is shown.
    async fn ready(&mut self) {
        let patience = Instant::now() + PATIENCE;
        while !self.program.log().contains("containerd successfully booted") {
            assert!(self.program.is_running(), "containerd does not start on this machine: see its log");
            assert!(Instant::now() < patience, "containerd is not ready in time");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let log = self.program.log();
        let cri = log.lines().find(|line| line.contains("failed to load plugin io.containerd.grpc.v1.cri"));
        assert!(cri.is_none(), "containerd cannot run pods on this machine: {cri:?}");
    }

    pub fn endpoint(&self) -> String {
        format!("unix://{}", self.socket.display())
    }

    /// Identities of containers whose processes are there, sandboxes included.
    pub fn tasks(&self, namespaces: &Namespaces) -> Vec<String> {
        self.ctr(namespaces, &["tasks", "list", "--quiet"]).lines().map(str::to_owned).collect()
    }

    fn ctr(&self, namespaces: &Namespaces, words: &[&str]) -> String {
        let place = ["--address", self.socket.to_str().expect("text"), "--namespace", "k8s.io"];
        namespaces.run(self.folder.join("ctr"), &[place.as_slice(), words].concat())
    }
}

fn configuration(dir: &Path, folder: &Path) -> String {
    let (dir, folder) = (dir.display(), folder.display());
    format!(
        r#"version = 2
root = "{dir}/containerd/root"
state = "{dir}/containerd/state"
disabled_plugins = [{DISABLED}]
[grpc]
address = "{dir}/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "{IMAGE}"
# Without CAP_SYS_RESOURCE no process may get a lower score than its parent has.
restrict_oom_score_adj = true
[plugins."io.containerd.grpc.v1.cri".cni]
conf_dir = "{dir}/cni"
bin_dir = "{dir}/cni"
[plugins."io.containerd.grpc.v1.cri".containerd]
snapshotter = "native"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
BinaryName = "{folder}/runc"
"#
    )
}
