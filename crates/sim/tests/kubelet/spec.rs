//! What a pod's spec asks for, from the API to the machine and back.

use std::net::SocketAddr;
use std::time::Duration;

use bowline_api::{Meta, Pod, Secret, build};
use bowline_host::fake::Program;
use k8s_openapi::api::core::v1::ContainerStatus;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::world::{KUBELET_DIR, World};

async fn world() -> World {
    let mut world = World::new(11).await;
    world.start_kubelet().await;
    world
}

/// A pod whose container has these fields as well.
fn pod(spec: Value, own: Value) -> Pod {
    let pod = build::pod("p").shell("run").restart_policy("Always").grace_seconds(5).build();
    let mut whole = serde_json::to_value(pod).unwrap();
    let mut merge = |at: &str, patch: &Value| {
        let into = whole.pointer_mut(at).unwrap().as_object_mut().unwrap();
        into.extend(patch.as_object().unwrap().clone());
    };
    merge("/spec", &spec);
    merge("/spec/containers/0", &own);
    serde_json::from_value(whole).unwrap()
}

fn main_of(world: &World) -> Option<ContainerStatus> {
    world.live_pod("p").status?.container_statuses?.first().cloned()
}

fn waits_with(world: &World, reason: &str) -> bool {
    let state = main_of(world).and_then(|main| main.state?.waiting);
    state.is_some_and(|waiting| waiting.reason.as_deref() == Some(reason) && waiting.message.is_some())
}

fn program(code: i32, output: &str) -> Program {
    Program { code, output: output.into(), ..Program::default() }
}

/// S4.
#[tokio::test(start_paused = true)]
async fn the_runtime_gets_user_groups_and_limits() {
    let world = world().await;
    let own = json!({"securityContext": {"capabilities": {"drop": ["ALL"]}}, "resources": {"limits": {"memory": "32Mi"}}});
    let shared = json!({"securityContext": {"runAsUser": 1000, "runAsGroup": 1000, "fsGroup": 7, "runAsNonRoot": true}});
    let uid = world.pod(pod(shared, own)).await.uid().to_owned();
    world.until("running", |w| w.phase("p") == "Running").await;
    let spec = world.fake.container_spec(&format!("{uid}/main/0")).unwrap();
    assert_eq!((spec.security.uid, spec.security.gid, spec.security.groups), (1000, 1000, vec![7]));
    assert!(spec.security.capabilities.is_empty());
    assert_eq!(spec.resources.memory_max, Some(32 << 20));
    world.fake.out_of_memory(&format!("{uid}/main/0"));
    let killed = |w: &World| main_of(w)?.last_state?.terminated?.reason;
    world.until("shown", |w| killed(w).as_deref() == Some("OOMKilled")).await;
    world.until("and told", |w| w.events("OOMKilling").len() == 1).await;
}

/// C9: not only in the status, which `kubectl describe` does not show the message of.
#[tokio::test(start_paused = true)]
async fn what_is_refused_waits_and_has_an_event() {
    let table = [
        (
            json!({}),
            json!({"image": "nginx"}),
            "ErrImagePull",
            "Failed",
            "Failed to pull image of container main: image \"nginx\": only the built-in image \"host\" can run here yet",
        ),
        (
            json!({}),
            json!({"image": "UPPER"}),
            "InvalidImageName",
            "InspectFailed",
            "Failed to apply default image tag \"UPPER\": couldn't parse image name \"UPPER\": invalid reference format",
        ),
        (
            json!({"hostPID": true}),
            json!({}),
            "CreateContainerConfigError",
            "Failed",
            "Error: hostPID is not supported here",
        ),
        (
            json!({"securityContext": {"runAsNonRoot": true}}),
            json!({}),
            "CreateContainerConfigError",
            "Failed",
            "image will run as root",
        ),
    ];
    for (spec, own, reason, event, text) in table {
        let world = world().await;
        world.pod(pod(spec, own)).await;
        world.until(reason, |w| waits_with(w, reason)).await;
        world.until(text, |w| w.events(event).iter().any(|message| message.contains(text))).await;
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!((world.running().len(), world.events(event).len()), (0, 1), "{text}");
        world.delete(&world.live_pod("p"), None).await;
        world.until("gone", |w| w.phase("p") == "gone").await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_container_starts_when_its_secret_is_there() {
    let world = world().await;
    let env = json!([{"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]);
    let uid = world.pod(pod(json!({}), json!({"env": env}))).await.uid().to_owned();
    world.until("told", |w| w.events("Failed") == ["Error: secret \"s\" not found"]).await;
    assert!(waits_with(&world, "CreateContainerConfigError"));
    let secret = json!({"metadata": {"name": "s", "namespace": "default"}, "stringData": {"k": "v"}});
    world.effects().create::<Secret>(&serde_json::from_value(secret).unwrap()).await.unwrap();
    world.until("running", |w| w.phase("p") == "Running").await;
    let spec = world.fake.container_spec(&format!("{uid}/main/0")).unwrap();
    assert!(spec.env.contains(&("KEY".into(), "v".into())));
}

#[tokio::test(start_paused = true)]
async fn a_container_that_fails_its_liveness_probe_is_restarted() {
    let world = world().await;
    world.fake.set_program("check", program(0, ""));
    let probe = json!({"exec": {"command": ["check"]}, "periodSeconds": 2, "failureThreshold": 2});
    let uid = world.pod(pod(json!({}), json!({"livenessProbe": probe}))).await.uid().to_owned();
    world.until("running", |w| w.phase("p") == "Running").await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!((main_of(&world).unwrap().restart_count, world.events("Unhealthy").len()), (0, 0));
    assert!(world.fake.executed().len() >= 14, "asked every two seconds: {}", world.fake.executed().len());
    world.fake.set_program("check", program(1, "broken"));
    world.until("restarted", |w| w.running() == [format!("{uid}/main/1")]).await;
    assert_eq!(world.events("Unhealthy"), ["Liveness probe failed: broken"]);
    let text = "Container main failed liveness probe, will be restarted";
    assert_eq!(world.events("Killing"), [text]);
}

#[tokio::test(start_paused = true)]
async fn a_container_without_an_answer_is_not_ready() {
    let world = world().await;
    let address: SocketAddr = "127.0.0.1:8080".parse().unwrap();
    let probe =
        json!({"httpGet": {"path": "/ready", "port": "web"}, "periodSeconds": 1, "failureThreshold": 1});
    let ports = json!([{"name": "web", "containerPort": 8080}]);
    world.pod(pod(json!({}), json!({"readinessProbe": probe, "ports": ports}))).await;
    let refused = "Readiness probe failed: Get \"http://127.0.0.1:8080/ready\": dial tcp 127.0.0.1:8080: connect: connection refused";
    world.until("told", |w| w.events("Unhealthy") == [refused]).await;
    assert!(!main_of(&world).unwrap().ready);
    let (_, mut listener) = world.host.net.listen_tcp(&address.to_string()).await.unwrap();
    let serving = tokio::spawn(async move {
        for answer in ["200 OK", "302 Found", "500 Oops"].into_iter().chain(std::iter::repeat("503 Later")) {
            let mut stream = listener.accept().await.unwrap();
            let mut request = vec![0; 1024];
            let length = stream.read(&mut request).await.unwrap();
            let request = String::from_utf8(request[..length].to_vec()).unwrap();
            assert!(request.starts_with("GET /ready HTTP/1.1\r\n"), "{request}");
            let answer = format!("HTTP/1.1 {answer}\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok");
            stream.write_all(answer.as_bytes()).await.unwrap();
        }
    });
    world.until("ready", |w| main_of(w).is_some_and(|main| main.ready)).await;
    world.until("not ready", |w| main_of(w).is_some_and(|main| !main.ready)).await;
    let text = "Readiness probe failed: HTTP probe failed with statuscode: 500".to_owned();
    assert!(world.events("Unhealthy").contains(&text), "{:?}", world.events("Unhealthy"));
    assert_eq!(main_of(&world).unwrap().restart_count, 0);
    serving.abort();
}

#[tokio::test(start_paused = true)]
async fn a_probe_that_hangs_fails_and_does_not_hold_up_the_end_of_its_pod() {
    let world = world().await;
    world.fake.set_program("hang", Program { takes: Duration::from_secs(3600), ..Program::default() });
    let probe = json!({"exec": {"command": ["hang"]}, "timeoutSeconds": 3});
    let pod = world.pod(pod(json!({}), json!({"readinessProbe": probe}))).await;
    let text = "Readiness probe failed: command timed out: \"hang\" timed out after 3s";
    world.until("late", |w| w.events("Unhealthy") == [text]).await;
    world.until("asked again", |w| w.fake.executed().len() == 2).await;
    world.delete(&pod, None).await;
    world.until("gone", |w| w.phase("p") == "gone").await;
}

#[tokio::test(start_paused = true)]
async fn hooks_run_after_the_start_and_before_the_end() {
    let world = world().await;
    world.fake.set_program("warm up", Program { takes: Duration::from_secs(4), ..Program::default() });
    world.fake.set_program("say goodbye", Program { takes: Duration::from_secs(2), ..program(1, "no") });
    let hooks = json!({"postStart": {"exec": {"command": ["warm", "up"]}}, "preStop": {"exec": {"command": ["say", "goodbye"]}}});
    let pod = world.pod(pod(json!({}), json!({"lifecycle": hooks}))).await;
    world.until("started", |w| w.running().len() == 1).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(main_of(&world).is_some_and(|main| !main.ready), "not before its hook is over");
    world.until("ready", |w| main_of(w).is_some_and(|main| main.ready)).await;
    world.delete(&pod, None).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(world.running().len(), 1, "it runs as long as its hook does");
    assert_eq!(
        world.events("Killing"),
        ["Stopping container main"],
        "told of before the hook, as upstream does"
    );
    world.until("gone", |w| w.phase("p") == "gone").await;
    let id = format!("{}/main/0", pod.uid());
    assert_eq!(world.fake.executed(), [(id.clone(), "warm up".into()), (id, "say goodbye".into())]);
    assert_eq!(world.events("FailedPreStopHook"), ["preStop hook failed: no"]);
}

#[tokio::test(start_paused = true)]
async fn a_hook_has_no_more_time_than_its_pod() {
    let world = world().await;
    world.fake.set_program("hang", Program { takes: Duration::from_secs(3600), ..Program::default() });
    let hooks = json!({"preStop": {"exec": {"command": ["hang"]}}});
    let pod = world.pod(pod(json!({}), json!({"lifecycle": hooks}))).await;
    world.until("running", |w| w.phase("p") == "Running").await;
    world.delete(&pod, None).await;
    tokio::time::sleep(Duration::from_secs(4)).await;
    assert_eq!(world.running().len(), 1);
    tokio::time::sleep(Duration::from_secs(6)).await;
    assert_eq!(world.phase("p"), "gone");
}

/// C9.
#[tokio::test(start_paused = true)]
async fn a_pod_past_its_deadline_fails() {
    let world = world().await;
    world.pod(pod(json!({"activeDeadlineSeconds": 20}), json!({}))).await;
    world.until("running", |w| w.phase("p") == "Running").await;
    tokio::time::sleep(Duration::from_secs(15)).await;
    assert_eq!(world.phase("p"), "Running");
    world.until("failed", |w| w.phase("p") == "Failed").await;
    let status = world.live_pod("p").status.unwrap();
    assert_eq!(status.reason.as_deref(), Some("DeadlineExceeded"));
    assert_eq!((world.running().len(), world.events("DeadlineExceeded").len()), (0, 1));
}

/// C9: whatever a pod waits for, it says so within seconds.
#[tokio::test(start_paused = true)]
async fn a_wait_of_ten_seconds_has_an_event() {
    let world = world().await;
    world.bound_claim("data", false, "ReadWriteOnce").await;
    // The driver of the claim is not there.
    world.pod(build::pod("p").shell("run").mount("data", "/data").build()).await;
    tokio::time::sleep(Duration::from_secs(15)).await;
    let events = world.events("FailedMount");
    assert!(events.iter().any(|text| text.contains("unmounted volumes=[data]")), "{events:?}");
}

#[tokio::test(start_paused = true)]
async fn the_status_of_a_container_that_failed_shows_the_end_of_its_log() {
    let world = world().await;
    let pod = world.pod(pod(json!({}), json!({"terminationMessagePolicy": "FallbackToLogsOnError"}))).await;
    world.until("running", |w| w.phase("p") == "Running").await;
    let log = format!("{KUBELET_DIR}/pod-logs/default_p_{}/main/0.log", pod.uid());
    world.host.disk.write_atomic(log.as_ref(), b"t stderr F out of ideas\n", 0o600).await.unwrap();
    world.fake.exit(&format!("{}/main/0", pod.uid()), 3);
    let message = |w: &World| main_of(w)?.last_state?.terminated?.message;
    world.until("shown", |w| message(w).as_deref() == Some("out of ideas\n")).await;
}

#[tokio::test(start_paused = true)]
async fn the_status_of_a_container_shows_the_message_that_it_left() {
    let world = world().await;
    let own =
        json!({"terminationMessagePath": "/tmp/why", "terminationMessagePolicy": "FallbackToLogsOnError"});
    let id = format!("{}/main/0", world.pod(pod(json!({}), own)).await.uid());
    world.until("running", |w| w.phase("p") == "Running").await;
    assert_eq!(world.fake.container_spec(&id).unwrap().message_path, Some("/tmp/why".into()));
    world.fake.leave_message(&id, "all done");
    world.fake.exit(&id, 0);
    let message = |w: &World| main_of(w)?.last_state?.terminated?.message;
    world.until("shown", |w| message(w).as_deref() == Some("all done")).await;
}

/// The hook asks a server that never answers.
#[tokio::test(start_paused = true)]
async fn a_hook_that_hangs_ends_with_its_container() {
    let world = world().await;
    let (_, mut listener) = world.host.net.listen_tcp("127.0.0.1:8080").await.unwrap();
    let hook = json!({"postStart": {"httpGet": {"port": 8080}}});
    let pod = world.pod(pod(json!({}), json!({"lifecycle": hook}))).await;
    let mut asked = listener.accept().await.unwrap();
    let mut request = vec![0; 1024];
    assert!(asked.read(&mut request).await.unwrap() > 0);
    world.delete(&pod, None).await;
    world.until("gone", |w| w.phase("p") == "gone").await;
    let closed = tokio::time::timeout(Duration::from_secs(60), asked.read(&mut request)).await;
    assert_eq!(closed.expect("the connection is closed").unwrap_or(0), 0);
}

/// What a probe says may be different each time, a time of day for example.
#[tokio::test(start_paused = true)]
async fn a_probe_that_keeps_failing_does_not_flood_events() {
    let world = world().await;
    world.fake.set_program("check", program(1, "0"));
    let probe = json!({"exec": {"command": ["check"]}, "periodSeconds": 1});
    world.pod(pod(json!({}), json!({"readinessProbe": probe}))).await;
    for second in 0..200 {
        world.fake.set_program("check", program(1, &second.to_string()));
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    let told = world.events("Unhealthy").len();
    assert!((10..=25).contains(&told), "{told} events of one pod");
}
