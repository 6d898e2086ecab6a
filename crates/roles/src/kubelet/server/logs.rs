//! `GET /containerLogs/…`

use std::io;

use bytes::Bytes;
use futures::stream;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Response, StatusCode};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use k8s_openapi::api::core::v1::ContainerStatus;
use tokio::sync::mpsc;

use super::follow::Reading;
use super::query::Query;
use super::select::{Options, Refusal};
use super::{Body, Node, Target, text};
use crate::kubelet::pods::host_id;

/// Pieces of a log that wait for a slow reader.
const BACKLOG: usize = 4;

pub async fn answer(node: &Node, target: &Target, query: &str) -> Response<Body> {
    let now = node.ports.host.clock.now();
    let options = match Options::parse(&Query::parse(query), now) {
        Ok(options) => options,
        Err(Refusal::Unreadable) => {
            return text(StatusCode::BAD_REQUEST, r#"{"message": "Unable to decode query."}"#);
        }
        Err(Refusal::Invalid) => {
            return text(StatusCode::UNPROCESSABLE_ENTITY, r#"{"message": "Invalid request."}"#);
        }
    };
    let Target { namespace, pod: name, container } = target;
    let Some(pod) = node.pods.pod(namespace, name) else {
        return text(StatusCode::NOT_FOUND, format!("pod {name:?} does not exist\n"));
    };
    let Some(status) = node.pods.status(&pod, container) else {
        return text(StatusCode::NOT_FOUND, format!("container {container:?} not found in pod {name:?}\n"));
    };
    let id = match run_to_show(&status, name, options.previous) {
        Ok(id) => id,
        Err(why) => return text(StatusCode::BAD_REQUEST, why),
    };
    let (Some(path), Some(own)) = (node.pods.log(&pod, &id), host_id(&id)) else {
        return text(StatusCode::BAD_REQUEST, format!("container id {id:?} is not of this node"));
    };
    let host = node.ports.host.clone();
    match host.disk.open_growing(&path).await {
        Ok(file) => {
            let container = own.to_owned();
            stream_of(Reading { host, path, file, options, container })
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            text(StatusCode::BAD_REQUEST, format!("unable to retrieve container logs for {id}"))
        }
        Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, format!("open the log of {id}: {error}")),
    }
}

fn stream_of(reading: Reading) -> Response<Body> {
    let (sender, receiver) = mpsc::channel::<Bytes>(BACKLOG);
    tokio::spawn(reading.run(sender));
    let pieces = stream::unfold(receiver, |mut receiver| async {
        let piece = receiver.recv().await?;
        Some((Ok(Frame::data(piece)), receiver))
    });
    let mut response = Response::new(StreamBody::new(pieces).boxed_unsync());
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    response
}

/// Which run of a container has the log that is asked for, by its id; or why there is none, in upstream's words.
pub fn run_to_show(status: &ContainerStatus, pod: &str, previous: bool) -> Result<String, String> {
    let name = &status.name;
    let state = status.state.clone().unwrap_or_default();
    let last = status.last_state.as_ref().and_then(|state| state.terminated.as_ref());
    let last_id = last.and_then(|last| last.container_id.clone()).filter(|id| !id.is_empty());
    if previous {
        return last_id
            .ok_or_else(|| format!("previous terminated container {name:?} in pod {pod:?} not found"));
    }
    let over = || format!("container {name:?} in pod {pod:?} is terminated");
    if state.running.is_some() {
        return status.container_id.clone().ok_or_else(over);
    }
    if let Some(ended) = state.terminated {
        return ended.container_id.filter(|id| !id.is_empty()).or(last_id).ok_or_else(over);
    }
    if last.is_some() {
        return last_id.ok_or_else(over);
    }
    let why = match state.waiting.and_then(|waiting| waiting.reason) {
        None => return Err(format!("container {name:?} in pod {pod:?} is waiting to start - no logs yet")),
        Some(reason) => match reason.as_str() {
            "ErrImagePull" => "image can't be pulled".to_owned(),
            "ImagePullBackOff" => "trying and failing to pull image".to_owned(),
            _ => reason,
        },
    };
    Err(format!("container {name:?} in pod {pod:?} is waiting to start: {why}"))
}
