//! `/exec/…`: whether a program may be run in a container, and its start.

use std::io;

use bowline_host::containers::ExecSpec;
use http::{Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;

use super::query::Query;
use super::session::{self, Streams};
use super::{Body, Node, Target, text, websocket};
use crate::kubelet::pods::host_id;

pub async fn answer(node: Node, target: Target, mut request: Request<Incoming>) -> Response<Body> {
    let query = Query::parse(request.uri().query().unwrap_or_default());
    let Some(wanted) = wanted(&query) else {
        return text(StatusCode::BAD_REQUEST, "you must specify at least 1 of stdin, stdout, stderr");
    };
    let Target { namespace, pod: name, container } = &target;
    let Some(pod) = node.pods.pod(namespace, name) else {
        return text(StatusCode::NOT_FOUND, "pod does not exist");
    };
    let status = node.pods.status(&pod, container);
    let running = status.filter(|status| status.state.as_ref().is_some_and(|state| state.running.is_some()));
    let id = running.and_then(|status| status.container_id).and_then(|id| host_id(&id).map(str::to_owned));
    let Some(id) = id else {
        return text(StatusCode::INTERNAL_SERVER_ERROR, format!("container not found ({container:?})"));
    };
    let response = match websocket::accept(request.headers()) {
        Ok(response) => response,
        Err(why) => return text(StatusCode::BAD_REQUEST, why),
    };
    let upgrade = hyper::upgrade::on(&mut request);
    let stop = node.ports.stop.clone();
    tokio::spawn(async move {
        let (spec, streams) = wanted;
        let serve = async {
            let socket = upgrade.await.map_err(io::Error::other)?;
            let started = node.ports.host.containers.exec(&id, &spec).await;
            session::serve(started, streams, TokioIo::new(socket)).await
        };
        let served = tokio::select! {
            biased;
            () = stop.cancelled() => return,
            served = serve => served,
        };
        if let Err(error) = served {
            tracing::debug!(container = id, %error, "session ended");
        }
    });
    response
}

/// What to run and what of it to show; `None` if nobody would hear or say anything.
pub fn wanted(query: &Query) -> Option<(ExecSpec, Streams)> {
    let (stdin, tty) = (query.flag("input"), query.flag("tty"));
    // A terminal has one output only.
    let streams = Streams { stdout: query.flag("output"), stderr: query.flag("error") && !tty };
    let argv = query.all("command").map(str::to_owned).collect();
    let any = stdin || streams.stdout || streams.stderr;
    any.then_some((ExecSpec { argv, stdin, tty }, streams))
}
