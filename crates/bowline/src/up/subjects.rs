//! As whom the roles of this process ask its API server: each as upstream's would, so that the authorizers decide about
//! every effect as in a cluster. Caches are shared by all of them and filled by the process itself.

use bowline_apiserver::Server;
use bowline_apiserver::auth::User;
use bowline_machinery::client::account::NAMESPACE;
use bowline_machinery::client::{Client, ClientError, Clients, Subject, in_process};
use http::Request;
use kube::client::Body;
use tower::Service;

/// The group of kubelets.
pub const NODES: &str = "system:nodes";

/// Clients of the server in this process.
pub struct Subjects(pub Server);

impl Clients for Subjects {
    fn client(&self, subject: &Subject) -> Result<Client, ClientError> {
        let named = |groups| User { name: subject.to_string(), groups, ..User::default() };
        let user = match subject {
            Subject::User(_) => named(Vec::new()),
            Subject::Node(_) => named(vec![NODES.to_owned()]),
            Subject::ServiceAccount(name) => User::service_account(NAMESPACE, name),
        };
        let (server, user) = (self.0.clone(), user.authenticated());
        Ok(in_process(tower::service_fn(move |mut request: Request<Body>| {
            request.extensions_mut().insert(user.clone());
            server.clone().call(request)
        })))
    }
}

#[cfg(test)]
mod tests {
    use bowline_api::{PersistentVolume, PersistentVolumeClaim};
    use bowline_apiserver::auth::Settings;
    use bowline_apiserver::kinds::plugins::Plugins;
    use kube::Api;
    use kube::api::DeleteParams;

    use super::*;
    use crate::apiserver::{Place, open, server};
    use crate::up::bootstrap::bootstrap;

    #[tokio::test]
    async fn roles_may_what_upstreams_may_and_no_more() {
        let (host, _) = bowline_host::fake::host(1);
        let store = open(Place::Memory).await.unwrap();
        let server = server(store, &host, Settings::default(), &Plugins::default()).await.unwrap();
        // Twice: the second start finds everything in its place.
        for _ in 0..2 {
            bootstrap(&in_process(server.clone())).await.unwrap();
        }
        let subjects = Subjects(server);
        let refused = async |subject: &Subject| {
            let client = subjects.client(subject).unwrap();
            let delete = DeleteParams::default();
            let volumes: Api<PersistentVolume> = Api::all(client.clone());
            let claims: Api<PersistentVolumeClaim> = Api::namespaced(client, "default");
            [code(volumes.delete("x", &delete).await), code(claims.delete("x", &delete).await)]
        };
        // Not found: the request was let through.
        assert_eq!(refused(&Subject::ServiceAccount("csi-provisioner")).await, [404, 403]);
        assert_eq!(refused(&Subject::ServiceAccount("csi-attacher")).await, [403, 403]);
        assert_eq!(refused(&Subject::ServiceAccount("csi-resizer")).await, [403, 403]);
        assert_eq!(refused(&Subject::ServiceAccount("persistent-volume-binder")).await, [404, 403]);
        assert_eq!(refused(&Subject::User("system:kube-scheduler")).await, [403, 403]);
        assert_eq!(refused(&Subject::Node("n".into())).await, [403, 403]);
    }

    fn code<T>(answer: kube::Result<T>) -> u16 {
        match answer {
            Err(kube::Error::Api(status)) => status.code,
            _ => 0,
        }
    }
}
