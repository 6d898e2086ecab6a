//! Plain `kubectl` and a server for it.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use bowline_apiserver::certs::Authority;
use bowline_apiserver::kubeconfig::write_kubeconfig;
use bowline_apiserver::{Server, tls};
use bowline_host::Clock;
use tokio::io::AsyncWriteExt;
use tokio::process::Command;
use tokio_util::sync::CancellationToken;

use super::peers::peer;

/// A client of one server.
pub struct Kubectl {
    kubeconfig: PathBuf,
    cache: PathBuf,
    /// What commands read from `-f -`.
    input: &'static str,
}

impl Kubectl {
    pub fn command(&self, arguments: &str) -> Command {
        let mut command = Command::new(peer("kubectl"));
        command.env("KUBECONFIG", &self.kubeconfig).arg("--cache-dir").arg(&self.cache);
        command.args(arguments.split_whitespace()).kill_on_drop(true);
        command
    }

    /// Runs to the end; whether it succeeded, and all it said.
    pub async fn run(&self, arguments: &str, input: &str) -> (bool, String) {
        let mut command = self.command(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).await.unwrap();
        let output = child.wait_with_output().await.unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8(text).unwrap())
    }

    pub async fn ok(&self, arguments: &str) -> String {
        let (success, text) = self.run(arguments, self.input).await;
        assert!(success, "kubectl {arguments}: {text}");
        text
    }
}

/// Puts a server on a port, until it is told to end.
pub async fn serve(server: Server, dir: &Path, input: &'static str) -> (Kubectl, CancellationToken) {
    let now = super::Now.now();
    let authority = Authority::ephemeral(now).unwrap();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let kubectl = Kubectl { kubeconfig: dir.join("kubeconfig"), cache: dir.join("cache"), input };
    let address = format!("https://{}", listener.local_addr().unwrap());
    let admin = authority.issue_admin(now).unwrap();
    write_kubeconfig(&kubectl.kubeconfig, &address, &authority, &admin).unwrap();
    let config = tls::config(&authority, &authority.issue_server(&[], now).unwrap()).unwrap();
    let shutdown = CancellationToken::new();
    tokio::spawn(tls::serve(listener, server, config, shutdown.clone()));
    (kubectl, shutdown)
}
