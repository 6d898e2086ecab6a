//! As whom the parts of this process ask the API server.

use bowline_apiserver::Server;
use bowline_apiserver::auth::User;
use bowline_machinery::client::{Client, in_process};
use http::Request;
use kube::client::Body;
use tower::Service;

/// The group of kubelets.
pub const NODES: &str = "system:nodes";
/// In everybody's groups who was recognised.
const AUTHENTICATED: &str = "system:authenticated";

/// The user name of a node's kubelet.
pub fn node_user(name: &str) -> String {
    format!("system:node:{name}")
}

/// A client with the rights of a node and no more: the Node authorizer and NodeRestriction see its requests.
pub fn node(server: &Server, name: &str) -> Client {
    let groups = vec![NODES.to_owned(), AUTHENTICATED.to_owned()];
    as_user(server, User { name: node_user(name), groups, ..User::default() })
}

fn as_user(server: &Server, user: User) -> Client {
    let server = server.clone();
    in_process(tower::service_fn(move |mut request: Request<Body>| {
        request.extensions_mut().insert(user.clone());
        server.clone().call(request)
    }))
}
