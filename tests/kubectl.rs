//! A current, real kubectl against `bowline up`: what a user types, and what they must see.

#![allow(clippy::expect_used, clippy::panic, clippy::print_stdout, reason = "a test fails by panicking")]

mod inside;
mod support;

use std::process::Stdio;

use support::peers::peer;
use support::{Cluster, PATIENCE};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::Command;

struct Kubectl<'a>(&'a Cluster);

struct Answer {
    ok: bool,
    out: String,
    err: String,
}

impl Kubectl<'_> {
    fn command(&self, line: &str) -> Command {
        let mut command = Command::new(peer("kubectl"));
        command.arg("--kubeconfig").arg(self.0.kubeconfig());
        command.args(shell_words(line)).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.env("HOME", self.0.scratch.path()).kill_on_drop(true);
        command
    }

    async fn run(&self, line: &str, input: &str) -> Answer {
        let mut child = self.command(line).spawn().expect("start kubectl");
        let mut stdin = child.stdin.take().expect("piped");
        stdin.write_all(input.as_bytes()).await.expect("write stdin");
        drop(stdin);
        let output = tokio::time::timeout(PATIENCE, child.wait_with_output()).await.expect("kubectl ends");
        let output = output.expect("kubectl ran");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Answer { ok: output.status.success(), out: text(&output.stdout), err: text(&output.stderr) }
    }

    /// Succeeds, and its output has each of these.
    async fn sees(&self, line: &str, wanted: &[&str]) -> String {
        self.sees_given(line, "", wanted).await
    }

    async fn sees_given(&self, line: &str, input: &str, wanted: &[&str]) -> String {
        let answer = self.run(line, input).await;
        assert!(answer.ok, "kubectl {line}\n{}{}", answer.out, answer.err);
        for text in wanted {
            assert!(
                answer.out.contains(text),
                "kubectl {line}\nshould say {text:?}, says:\n{}{}",
                answer.out,
                answer.err
            );
        }
        answer.out
    }

    /// Fails, and says each of these.
    async fn refused(&self, line: &str, input: &str, wanted: &[&str]) {
        let answer = self.run(line, input).await;
        assert!(!answer.ok, "kubectl {line}\nshould fail, says:\n{}", answer.out);
        for text in wanted {
            assert!(answer.err.contains(text), "kubectl {line}\nshould say {text:?}, says:\n{}", answer.err);
        }
    }
}

/// Splits at blanks; single quotes keep blanks inside a word.
fn shell_words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quoted) = (Vec::new(), String::new(), false);
    for character in line.chars().chain([' ']) {
        match character {
            '\'' => quoted = !quoted,
            ' ' if !quoted => {
                if !word.is_empty() {
                    words.push(std::mem::take(&mut word));
                }
            }
            other => word.push(other),
        }
    }
    words
}

const EXAMPLE: &str = include_str!("../examples/pod-with-volume.yaml");

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_with_kubectl() {
    let cluster = Cluster::start().await;
    let kubectl = Kubectl(&cluster);
    discover(&kubectl).await;
    journey(&kubectl).await;
    change(&kubectl).await;
    bad_input(&kubectl).await;
    remove(&kubectl, &cluster).await;
}

async fn discover(kubectl: &Kubectl<'_>) {
    kubectl.sees("version", &["Server Version: v1.36"]).await;
    kubectl
        .sees("api-resources", &["persistentvolumeclaims", "pvc", "storage.k8s.io/v1", "VolumeAttachment"])
        .await;
    kubectl.sees("get namespaces", &["default", "kube-system", "Active"]).await;
    kubectl.sees("get node", &["NAME", "test-node", "Ready"]).await;
    kubectl.sees("get sc", &["local (default)", "WaitForFirstConsumer", "local-immediate", "Delete"]).await;
    kubectl.sees("get csidriver,csinode", &["local.csi.bowline.dev", "test-node"]).await;
    kubectl.sees("describe node test-node", &["Ready", "True", "kubernetes.io/hostname=test-node"]).await;
}

async fn journey(kubectl: &Kubectl<'_>) {
    let watch = kubectl.command("get pvc data -w --no-headers -o custom-columns=PHASE:.status.phase");
    kubectl
        .sees_given("apply -f -", EXAMPLE, &["persistentvolumeclaim/data created", "pod/writer created"])
        .await;
    watch_until(watch, "Bound").await;
    kubectl.sees("wait --for=condition=Ready pod/writer --timeout=60s", &["condition met"]).await;
    kubectl
        .sees("wait --for=jsonpath='{.status.phase}'=Bound pvc/data --timeout=60s", &["condition met"])
        .await;
    kubectl.sees("get pod writer -o wide", &["1/1", "Running", "test-node"]).await;
    kubectl.sees("get pvc data", &["Bound", "pvc-", "1Gi", "RWO", "local"]).await;
    kubectl.sees("get pv", &["1Gi", "RWO", "Delete", "Bound", "default/data", "local"]).await;
    kubectl.sees("get volumeattachment", &["local.csi.bowline.dev", "test-node", "true"]).await;
    kubectl.sees("describe pvc data", &["Bound", "Used By:", "writer", "ProvisioningSucceeded"]).await;
    kubectl.sees("describe pod writer", &["/data from data", "SuccessfulAttachVolume", "Started"]).await;
    kubectl.sees("describe sc local", &["IsDefaultClass:", "Yes", "local.csi.bowline.dev"]).await;
    kubectl.sees("describe pv", &["local.csi.bowline.dev", "VolumeHandle", "default/data"]).await;
    kubectl.sees("get events", &["ProvisioningSucceeded", "Scheduled"]).await;
    kubectl.sees("get pvc data -o yaml", &["pv.kubernetes.io/bind-completed: \"yes\"", "phase: Bound"]).await;
    kubectl.sees("get pods -A --field-selector spec.nodeName=test-node -o name", &["pod/writer"]).await;
    // As with upstream's server: volumes that admission added make kubectl send the order of those in the file.
    kubectl
        .sees_given("apply -f -", EXAMPLE, &["persistentvolumeclaim/data unchanged", "pod/writer configured"])
        .await;
}

/// Runs until a line of its output has the text.
async fn watch_until(mut command: Command, text: &str) {
    let mut child = command.spawn().expect("start kubectl");
    let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    let seen = async {
        while let Ok(Some(line)) = lines.next_line().await {
            if line.contains(text) {
                return true;
            }
        }
        false
    };
    assert!(tokio::time::timeout(PATIENCE, seen).await.expect("in time"), "the watch ended without {text:?}");
}

async fn change(kubectl: &Kubectl<'_>) {
    kubectl.sees("label pvc data tier=gold", &["labeled"]).await;
    kubectl.sees("get pvc -l tier=gold -o name", &["persistentvolumeclaim/data"]).await;
    let none = kubectl.sees("get pvc -l 'tier notin (gold)' -o name", &[]).await;
    assert_eq!(none, "");
    kubectl.sees("annotate pvc data note=kept", &["annotated"]).await;
    kubectl
        .sees(r#"patch pvc data --type=merge -p '{"metadata":{"labels":{"tier":null}}}'"#, &["patched"])
        .await;
    let patch =
        r#"patch sc local --type=json -p '[{"op":"add","path":"/allowVolumeExpansion","value":true}]'"#;
    kubectl.sees(patch, &["patched"]).await;
    kubectl.sees("get sc local -o jsonpath='{.allowVolumeExpansion}'", &["true"]).await;
    let settings = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {a: \"1\"}";
    kubectl.sees_given("create -f -", settings, &["created"]).await;
    kubectl.sees(r#"patch configmap settings -p '{"data":{"b":"2"}}'"#, &["patched"]).await;
    kubectl.sees("get configmap settings -o jsonpath='{.data}'", &[r#"{"a":"1","b":"2"}"#]).await;
    kubectl
        .sees_given("create -f -", "apiVersion: v1\nkind: Namespace\nmetadata: {name: other}", &["created"])
        .await;
    let secret = "apiVersion: v1\nkind: Secret\nmetadata: {name: key}\nstringData: {x: secret}";
    kubectl.sees_given("create -n other -f -", secret, &["created"]).await;
    kubectl.sees("get secret -n other", &["Opaque", "key"]).await;
    kubectl.sees("delete namespace other", &["deleted"]).await;
}

async fn bad_input(kubectl: &Kubectl<'_>) {
    let claim = |body: &str| {
        format!("apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {{name: bad}}\nspec: {body}")
    };
    let table = [
        ("{resources: {requests: {storage: 1Gi}}}", "spec.accessModes: Required value"),
        ("{accessModes: [ReadWriteOnce]}", "spec.resources[storage]: Required value"),
        (
            "{accessModes: [Sometimes], resources: {requests: {storage: 1Gi}}}",
            "spec.accessModes: Unsupported value",
        ),
        (
            "{accessModes: [ReadWriteOnce], resources: {requests: {storage: 0}}}",
            "spec.resources[storage]: Invalid value",
        ),
    ];
    for (body, text) in table {
        kubectl.refused("create -f -", &claim(body), &["is invalid", text]).await;
    }
    let unknown = "{accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}, size: 3}";
    kubectl.refused("create -f -", &claim(unknown), &["unknown field \"spec.size\""]).await;
    kubectl.refused("get pvc bad", "", &["persistentvolumeclaims \"bad\" not found"]).await;
    kubectl
        .refused(
            "patch sc local -p '{\"provisioner\":\"other\"}'",
            "",
            &["provisioner: Invalid value", "field is immutable"],
        )
        .await;
    kubectl.refused("get widgets", "", &["doesn't have a resource type"]).await;
    kubectl.refused("delete pvc nosuch", "", &["not found"]).await;
}

async fn remove(kubectl: &Kubectl<'_>, cluster: &Cluster) {
    kubectl.sees("delete pod writer --grace-period=1", &["pod \"writer\" deleted"]).await;
    kubectl.sees("delete pvc data --wait=false", &["deleted"]).await;
    kubectl.run("wait --for=delete pvc/data --timeout=60s", "").await;
    kubectl.run("wait --for=delete pv --all --timeout=60s", "").await;
    let left = kubectl.sees("get pod,pvc,pv,volumeattachment -o name", &[]).await;
    assert_eq!(left, "");
    assert_eq!(cluster.images().len(), 0);
    cluster.assert_nothing_left();
}
