//! What a user sees of the inside of a pod, and of what an object owned: logs, exec, delete with dependents.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};

use super::Kubectl;
use super::support::{Cluster, PATIENCE};

const PODS: &str = r#"
apiVersion: v1
kind: Pod
metadata: {name: talker}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: main
    image: host
    command: [/bin/sh, -c, "echo one; echo two; echo three >&2; until test -e /tmp/go; do sleep 0.05; done; echo went; sleep 3600"]
---
apiVersion: v1
kind: Pod
metadata: {name: crasher}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - {name: main, image: host, command: [/bin/sh, -c, "echo a run; exit 3"]}
---
apiVersion: v1
kind: Pod
metadata: {name: pair}
spec:
  restartPolicy: Never
  terminationGracePeriodSeconds: 1
  initContainers:
  - {name: first, image: host, command: [/bin/sh, -c, "echo prepared"]}
  containers:
  - {name: a, image: host, command: [/bin/sh, -c, "printf done"]}
  - {name: b, image: host, command: [/bin/sleep, "3600"]}
---
apiVersion: v1
kind: Pod
metadata: {name: unknown}
spec:
  containers: [{name: main, image: nosuch}]
---
apiVersion: v1
kind: Pod
metadata: {name: chatty}
spec:
  restartPolicy: Never
  containers:
  - {name: main, image: host, command: [/bin/sh, -c, "echo 0; until test -e /tmp/go; do sleep 0.05; done; seq -w 260000"]}
---
apiVersion: v1
kind: Pod
metadata: {name: stuck}
spec:
  nodeSelector: {of: nobody}
  containers: [{name: main, image: host}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: looks}
rules: [{apiGroups: [""], resources: [pods, pods/exec, pods/log], verbs: [get]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: looks}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: looks}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: ann}]
"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_looks_inside() {
    let mut cluster = Cluster::start().await;
    let kubectl = Kubectl(&cluster);
    kubectl.sees_given("apply -f -", PODS, &["talker created", "crasher created", "pair created"]).await;
    kubectl.sees("wait --for=condition=Ready pod/talker pod/chatty --timeout=60s", &["condition met"]).await;
    logs(&kubectl).await;
    follow(&kubectl).await;
    rotation(&kubectl).await;
    exec(&kubectl).await;
    terminal(&kubectl).await;
    refusals(&kubectl).await;
    dependents(&kubectl).await;
    gone_with_the_kubelet(&mut cluster).await;
    Kubectl(&cluster).sees("delete pod --all", &["talker", "crasher", "pair"]).await;
    cluster.assert_nothing_left().await;
}

async fn logs(kubectl: &Kubectl<'_>) {
    said(kubectl, "logs talker", "three").await;
    let all = kubectl.sees("logs talker", &["one\ntwo\n", "three\n"]).await;
    assert_eq!(all.lines().count(), 3, "{all}");
    assert_eq!(kubectl.sees("logs talker --tail=1", &[]).await.lines().count(), 1);
    assert_eq!(kubectl.sees("logs talker --limit-bytes=5", &[]).await, "one\nt");
    let stamped = kubectl.sees("logs talker --timestamps --tail=3", &[]).await;
    assert!(stamped.lines().all(|line| line.starts_with("20") && line.contains("Z ")), "{stamped}");
    kubectl.sees("logs talker --since=1h", &["one"]).await;
    assert_eq!(kubectl.sees("logs talker --since-time=2099-01-01T00:00:00Z", &[]).await, "");
    kubectl
        .refused(
            "logs talker --previous",
            "",
            &["previous terminated container \"main\" in pod \"talker\" not found"],
        )
        .await;

    said(kubectl, "logs crasher", "a run").await;
    kubectl.sees("wait --for=jsonpath={.status.containerStatuses[0].lastState.terminated.exitCode}=3 pod/crasher --timeout=60s", &[]).await;
    kubectl.sees("logs crasher --previous", &["a run\n"]).await;

    said(kubectl, "logs pair -c first", "prepared\n").await;
    said(kubectl, "logs pair -c a", "done").await;
    kubectl
        .refused(
            "logs unknown",
            "",
            &["container \"main\" in pod \"unknown\" is waiting to start: image can't be pulled"],
        )
        .await;
    kubectl.refused("logs pair -c z", "", &["container z is not valid for pod pair"]).await;
    let raw = "get --raw /api/v1/namespaces/default/pods/pair/log";
    kubectl
        .refused(raw, "", &["a container name must be specified for pod pair, choose one of: [first a b]"])
        .await;
    kubectl.refused("logs nosuch", "", &["pods \"nosuch\" not found"]).await;
}

/// Waits until a command says something.
async fn said(kubectl: &Kubectl<'_>, line: &str, text: &str) {
    let waiting = async {
        while !kubectl.run(line, "").await.out.contains(text) {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(PATIENCE, waiting)
        .await
        .unwrap_or_else(|_| panic!("kubectl {line} never says {text:?}"));
}

/// A log that is followed goes on when the container does, and ends with it.
async fn follow(kubectl: &Kubectl<'_>) {
    let mut following = kubectl.command("logs -f talker --tail=1").spawn().expect("start kubectl");
    let mut output = following.stdout.take().expect("piped");
    let mut heard = String::new();
    read_until(&mut output, &mut heard, "\n").await;
    assert_eq!(heard.lines().count(), 1, "{heard}");
    kubectl.sees("exec talker -- touch /tmp/go", &[]).await;
    read_until(&mut output, &mut heard, "went\n").await;
    assert!(following.try_wait().expect("a child").is_none(), "the container still runs");
    // Whether it ends before the container takes it along is not ours to say.
    kubectl.run("exec talker -- sh -c 'kill 1'", "").await;
    let ended =
        tokio::time::timeout(PATIENCE, following.wait()).await.expect("the log ends with its container");
    assert!(ended.expect("kubectl ran").success());
    kubectl
        .sees(
            "wait --for=jsonpath={.status.containerStatuses[0].restartCount}=1 pod/talker --timeout=60s",
            &[],
        )
        .await;
    kubectl.sees("wait --for=condition=Ready pod/talker --timeout=60s", &["condition met"]).await;
    kubectl.sees("logs talker --previous", &["went\n"]).await;
}

/// A log that is put aside when it is large goes on for whoever follows it.
async fn rotation(kubectl: &Kubectl<'_>) {
    let mut following = kubectl.command("logs -f chatty").spawn().expect("start kubectl");
    let mut output = following.stdout.take().expect("piped");
    let mut all = String::new();
    // Who comes only now would miss what is put aside.
    read_until(&mut output, &mut all, "0\n").await;
    kubectl.sees("exec chatty -- touch /tmp/go", &[]).await;
    let rest = tokio::time::timeout(PATIENCE, output.read_to_string(&mut all)).await.expect("the log ends");
    rest.expect("digits");
    let ended = tokio::time::timeout(PATIENCE, following.wait()).await.expect("kubectl ends");
    assert!(ended.expect("kubectl ran").success());
    let wrong = all.lines().zip(0..).find(|(line, number)| line.parse() != Ok(*number));
    assert_eq!((wrong, all.lines().count()), (None, 260_001));
    let rest = kubectl.sees("logs chatty", &["260000\n"]).await;
    assert!(rest.lines().count() < 260_000, "only the newest file is shown to those who come later");
}

async fn read_until(output: &mut (impl AsyncReadExt + Unpin), heard: &mut String, text: &str) {
    let reading = async {
        while !heard.contains(text) {
            let mut buffer = [0; 1024];
            let length = output.read(&mut buffer).await.expect("kubectl's output");
            assert!(length > 0, "ended after {heard:?}");
            heard.push_str(&String::from_utf8_lossy(&buffer[..length]));
        }
    };
    tokio::time::timeout(PATIENCE, reading).await.expect("in time");
}

async fn exec(kubectl: &Kubectl<'_>) {
    assert_eq!(kubectl.sees("exec talker -- hostname", &[]).await, "talker\n");
    assert_eq!(kubectl.sees_given("exec -i talker -- cat", "in and out", &[]).await, "in and out");
    let both = kubectl.run("exec talker -- sh -c 'echo out; echo err >&2'", "").await;
    assert_eq!((both.out.as_str(), both.err.as_str()), ("out\n", "err\n"));
    assert_eq!(code(kubectl, "exec talker -- sh -c 'exit 7'").await, 7);
    assert_eq!(code(kubectl, "exec talker -- true").await, 0);
    assert_eq!(code(kubectl, "exec talker -- nosuch").await, 127);
    kubectl.refused("exec talker -- sh -c 'exit 7'", "", &["command terminated with exit code 7"]).await;

    let many = kubectl.sees("exec talker -- head -c 5000000 /dev/zero", &[]).await;
    assert_eq!(many.len(), 5_000_000);
    let input = "x".repeat(3_000_000);
    assert_eq!(kubectl.sees_given("exec -i talker -- wc -c", &input, &[]).await.trim(), "3000000");
    assert_eq!(kubectl.sees("exec talker -- echo -- -c --help", &[]).await, "-- -c --help\n");
    unwanted_input(kubectl, &input).await;

    kubectl.refused("exec pair -c a -- true", "", &["container not found (\"a\")"]).await;
    kubectl.refused("exec talker -c z -- true", "", &["container z is not valid for pod talker"]).await;
    kubectl.refused("exec nosuch -- true", "", &["pods \"nosuch\" not found"]).await;
    gone_with_its_client(kubectl).await;
}

async fn code(kubectl: &Kubectl<'_>, line: &str) -> i32 {
    // Its output is read: kubectl dies of a closed pipe.
    let output = tokio::time::timeout(PATIENCE, kubectl.command(line).output()).await.expect("in time");
    output.expect("kubectl ran").status.code().expect("an exit code")
}

/// What a program does not read does not keep its outcome from its client.
async fn unwanted_input(kubectl: &Kubectl<'_>, input: &str) {
    let path = kubectl.0.scratch.path().join("input");
    std::fs::write(&path, input).expect("write a file");
    let mut command = kubectl.command("exec -i talker -- sh -c 'echo no thanks; exit 5'");
    command.stdin(std::fs::File::open(&path).expect("just written"));
    let output = tokio::time::timeout(PATIENCE, command.output()).await.expect("in time");
    let output = output.expect("kubectl ran");
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(5), b"no thanks\n".as_slice()));
}

/// A program that starts others and stays, with this number in the command line of each.
async fn sleeper(kubectl: &Kubectl<'_>, number: u32) -> Child {
    let script = format!("exec talker -- sh -c 'sleep {number} & sleep {number} & echo up; sleep {number}'");
    let mut sleeper = kubectl.command(&script).spawn().expect("start kubectl");
    read_until(sleeper.stdout.as_mut().expect("piped"), &mut String::new(), "up\n").await;
    sleeper
}

/// A program ends, with all that it started, when nobody is left who asked for it.
async fn gone_with_its_client(kubectl: &Kubectl<'_>) {
    let mut sleeper = sleeper(kubectl, 54321).await;
    sleeper.kill().await.expect("end kubectl");
    let count = "exec talker -- sh -c 'grep -l 5432[1] /proc/[0-9]*/cmdline | wc -l'";
    said(kubectl, count, "0\n").await;
}

/// It does so too when the kubelet is killed, and the container goes on.
async fn gone_with_the_kubelet(cluster: &mut Cluster) {
    let mut sleeper = sleeper(&Kubectl(cluster), 54322).await;
    cluster.restart().await;
    let ended = tokio::time::timeout(PATIENCE, sleeper.wait()).await.expect("kubectl hears of it");
    assert!(!ended.expect("kubectl ran").success());
    let kubectl = Kubectl(cluster);
    let count = "exec talker -- sh -c 'grep -l 5432[2] /proc/[0-9]*/cmdline | wc -l'";
    said(&kubectl, count, "0\n").await;
    let restarts = "get pod talker -o jsonpath={.status.containerStatuses[0].restartCount}";
    assert_eq!(kubectl.sees(restarts, &[]).await, "1", "as before");
}

/// Where there is nothing to look into, and who may not.
async fn refusals(kubectl: &Kubectl<'_>) {
    assert_eq!(kubectl.sees("logs stuck", &[]).await, "", "nobody runs it, so it has said nothing");
    kubectl.refused("exec stuck -- true", "", &["pod stuck does not have a host assigned"]).await;
    kubectl.refused("exec chatty -- true", "", &["cannot exec into a container in a completed pod"]).await;
    kubectl.sees("logs talker --as ann --tail=1", &["\n"]).await;
    kubectl.refused("logs talker --as ben", "", &["cannot get resource \"pods\""]).await;
    let raw = "get --raw /api/v1/namespaces/default/pods/talker/exec?command=true --as ann";
    kubectl.refused(raw, "", &["pods \"talker\" is forbidden: "]).await;
    kubectl
        .refused("exec talker --as ann -- true", "", &["User \"ann\" cannot create resource \"pods/exec\""])
        .await;
}

/// A person at a terminal.
async fn terminal(kubectl: &Kubectl<'_>) {
    let plain = kubectl.command(
        "exec -it talker -- sh -c 'test -t 1 && until test \"$(stty size)\" = \"33 77\"; do sleep 0.05; done; echo tty; read word; echo got $word; exit 9'",
    );
    let plain = plain.as_std();
    let words = std::iter::once(plain.get_program()).chain(plain.get_args());
    let line: Vec<String> = words.map(|word| format!("'{}'", word.to_string_lossy())).collect();
    let mut command = Command::new("script");
    let line = format!("stty rows 33 cols 77; {}", line.join(" "));
    command.args(["-qec", &line, "/dev/null"]).kill_on_drop(true);
    command.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
    let mut shell = command.spawn().expect("script(1), from util-linux");
    let (mut input, mut output) = (shell.stdin.take().expect("piped"), shell.stdout.take().expect("piped"));
    let mut heard = String::new();
    read_until(&mut output, &mut heard, "tty").await;
    input.write_all(b"this\n").await.expect("type");
    read_until(&mut output, &mut heard, "got this").await;
    let ended = tokio::time::timeout(PATIENCE, shell.wait()).await.expect("in time").expect("script ran");
    assert_eq!(ended.code(), Some(9), "{heard}");
}

/// Owners and what they own, with each kind of propagation.
async fn dependents(kubectl: &Kubectl<'_>) {
    for (cascade, left) in [("background", ""), ("foreground", ""), ("orphan", "configmap/owned\n")] {
        kubectl.sees("create configmap owner", &["created"]).await;
        let uid = kubectl.sees("get configmap owner -o jsonpath={.metadata.uid}", &[]).await;
        let owned = format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: owned, labels: {{of: owner}}, ownerReferences: [{{apiVersion: v1, kind: ConfigMap, name: owner, uid: {uid}, blockOwnerDeletion: true}}]}}"
        );
        kubectl.sees_given("create -f -", &owned, &["created"]).await;
        kubectl
            .sees(&format!("delete configmap owner --cascade={cascade} --timeout=60s"), &["deleted"])
            .await;
        if left.is_empty() {
            kubectl.run("wait --for=delete configmap/owned --timeout=60s", "").await;
        }
        assert_eq!(kubectl.sees("get configmap -l of=owner -o name", &[]).await, left, "{cascade}");
    }
    let references = "get configmap owned -o jsonpath={.metadata.ownerReferences}";
    assert_eq!(kubectl.sees(references, &[]).await, "", "an orphan has no owner");
    kubectl.sees("delete configmap owned", &["deleted"]).await;
}
