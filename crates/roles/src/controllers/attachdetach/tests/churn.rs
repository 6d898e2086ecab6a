//! Nodes that come and go.

use std::sync::Arc;

use bowline_api::{Meta, Node, VolumeAttachment};
use bowline_host::fake;
use bowline_machinery::queue::Backoff;
use bowline_machinery::{Change, Context, Journal, Pool, Ports, Queue, Role, client};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::super::model::Key;
use super::super::role::Controller;

async fn controller() -> (Controller, Queue<Key>) {
    let (host, _) = fake::host(1);
    let ports = Ports::new(client::nowhere(), host, Journal::default(), CancellationToken::new());
    let queue = Queue::new(Backoff::VOLUME);
    let (effects, recorder) = (ports.effects("test"), ports.recorder("test"));
    let context = Context { ports, effects, recorder, queue: queue.clone() };
    let role = Controller::start(context, crate::flags(&[]).unwrap()).await.unwrap();
    (role, queue)
}

/// It calls no driver, so no driver can hold it up: attaching and detaching share its workers.
#[tokio::test]
async fn all_volumes_share_the_workers() {
    let (role, _) = controller().await;
    for (volume, node) in [("kubernetes.io/csi/a^1", None), ("kubernetes.io/csi/b^1", Some("n".to_owned()))] {
        let key = Key { volume: volume.to_owned(), node };
        assert_eq!(role.pool(&key), Pool::new("", Controller::WORKERS), "{key}");
    }
}

fn node(name: &str) -> Arc<Node> {
    let node = json!({"metadata": {"name": name, "resourceVersion": "5"}, "status": {"volumesInUse": ["v"]}});
    Arc::new(serde_json::from_value(node).unwrap())
}

#[tokio::test]
async fn nodes_that_are_gone_are_forgotten() {
    let (role, queue) = controller().await;
    for n in 0..100 {
        let node = node(&format!("n{n}"));
        role.node_changed(&Change { old: None, new: Some(node.clone()) }, &queue);
        role.reports.of(&node, "v");
        let name = node.name();
        role.node_changed(&Change { old: Some(node.clone()), new: None }, &queue);
        // A step that was decided before the node went.
        role.reports.change(&role.effects, &role.nodes, name, "v", false).await.unwrap();
    }
    assert_eq!((role.memory.len(), role.reports.len()), ((0, 0), 0), "B21");
}

#[tokio::test]
async fn the_last_words_of_a_node_are_kept_while_something_is_attached_to_it() {
    let (role, queue) = controller().await;
    let spec = json!({"attacher": "d", "nodeName": "n", "source": {"persistentVolumeName": "pv"}});
    let metadata = json!({"name": "a", "uid": "u", "resourceVersion": "5"});
    let attachment: VolumeAttachment =
        serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap();
    role.attachments.note(attachment.clone());
    role.node_changed(&Change { old: Some(node("n")), new: None }, &queue);
    assert_eq!(role.memory.len(), (0, 1));
    assert!(role.memory.in_use_when_gone("n", "v") && !role.memory.in_use_when_gone("n", "w"));
    role.attachments.note_gone(&attachment);
    role.attachment_changed(&Change { old: Some(Arc::new(attachment)), new: None }, &queue);
    assert_eq!(role.memory.len(), (0, 0), "B21");
}
