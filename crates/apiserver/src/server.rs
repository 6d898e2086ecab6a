//! The API server as a `tower` service: the same for connections and for callers in this process.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Poll};

use bowline_api::ObjectKey;
use bowline_host::{Clock, Disk, Random};
use futures::future::BoxFuture;
use http::header::{ACCEPT, CONTENT_TYPE, USER_AGENT};
use http::request::Parts;
use http::{HeaderMap, Method, Request, Response, StatusCode};
use hyper::upgrade::OnUpgrade;
use jiff::Timestamp;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::admission::AdmissionNotes;
use crate::auth::{Access, Identity, Settings, User, extension, rbac, token};
use crate::core::Core;
use crate::custom::{self, Writing};
use crate::discovery;
use crate::exchange::{Exchange, Held};
use crate::http::accept::{self, MediaType, Offer, Wanted};
use crate::http::body::{self, Body};
use crate::http::path::{self, Path, ResourcePath};
use crate::http::query::Query;
use crate::kinds::priorityclass::system_classes;
use crate::limits::{Limits, Seat};
use crate::metadata;
use crate::output;
use crate::protobuf;
use crate::proxy::{self, Connection, NodeProxy};
use crate::registry::{Kind, Registry};
use crate::selector;
use crate::status::Status;
use crate::store::Store;
use crate::verbs::{self, Call, Reply};

/// Namespaces every cluster has.
const NAMESPACES: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];

/// Who is on the other end of a connection; put into the extensions of its requests.
///
/// A request without this comes from inside the process and is trusted.
#[derive(Debug, Clone)]
pub struct Peer {
    pub identity: Identity,
    pub address: Option<SocketAddr>,
    /// Ends its watches.
    pub closing: CancellationToken,
}

/// The API server. Cheap to clone.
#[derive(Clone)]
pub struct Server {
    core: Arc<Core>,
}

impl Server {
    pub fn new(store: Store, registry: Registry, clock: Arc<dyn Clock>, random: Arc<dyn Random>) -> Self {
        Self::guarded(store, registry, clock, random, Settings::default())
    }

    /// The same with other ideas of who may do what.
    pub fn guarded(
        store: Store,
        registry: Registry,
        clock: Arc<dyn Clock>,
        random: Arc<dyn Random>,
        settings: Settings,
    ) -> Self {
        let limits = settings.limits.clone();
        let access = Access::new(settings, &store);
        Self { core: Arc::new(Core::new(store, registry, access, limits, clock, random)) }
    }

    /// Creates what every cluster starts with, unless it is there, and ends what a crash interrupted.
    pub async fn bootstrap(&self) -> Result<(), Status> {
        let Some(kind) = self.core.registry().kind("", "v1", "namespaces").cloned() else { return Ok(()) };
        for name in NAMESPACES {
            let object = json!({
                "apiVersion": "v1", "kind": "Namespace",
                "metadata": {"name": name, "labels": {(bowline_api::keys::NAMESPACE_NAME_LABEL): name}},
            });
            self.unless_full(name, verbs::ensure(&self.core, kind.as_ref(), "", object).await)?;
        }
        self.unless_full("the default roles", rbac::bootstrap(&self.core).await)?;
        if let Some(kind) = self.core.registry().kind("scheduling.k8s.io", "v1", "priorityclasses") {
            for class in system_classes() {
                self.unless_full(
                    "a priority class",
                    verbs::ensure(&self.core, kind.as_ref(), "", class).await,
                )?;
            }
        }
        custom::catch_up(&self.core).await?;
        self.unless_full("the rest of a namespace", verbs::resume(&self.core).await)
    }

    /// A store that is full keeps no server that has run before from starting: else nothing could be deleted. What is
    /// missing comes with a start that finds room.
    fn unless_full(&self, what: &str, done: Result<(), Status>) -> Result<(), Status> {
        let old = || self.core.store.get("namespaces", &ObjectKey::cluster("kube-system")).is_some();
        match done {
            Err(status) if status.code == StatusCode::INSUFFICIENT_STORAGE.as_u16() && old() => {
                tracing::warn!(why = status.message, "{what} is not written: start again when there is room");
                Ok(())
            }
            done => done,
        }
    }

    /// Lets the set of kinds follow the definitions in the store, also those that others write, until `stop`.
    pub async fn follow_definitions(&self, stop: CancellationToken) {
        custom::follow(&self.core, stop).await;
    }

    /// Whoever writes a definition can use the kind once the answer is there.
    async fn follow_once(&self) {
        if let Err(status) = custom::catch_up(&self.core).await {
            // What is stored stands; whoever follows it tries again.
            tracing::warn!(why = status.message, "custom resources do not follow their definitions yet");
        }
    }

    /// Lets this server ask kubelets for what only they know.
    pub fn set_node_proxy(&self, proxy: NodeProxy) {
        self.core.set_node_proxy(proxy);
    }

    /// Lets pods have privileged containers; without this they are refused, as by upstream's server.
    pub fn set_allow_privileged(&self, allow: bool) {
        self.core.set_allow_privileged(allow);
    }

    /// Keeps roles that are made of others up to date, until `stop`.
    pub async fn follow_aggregation(&self, stop: CancellationToken) {
        rbac::follow_aggregation(&self.core, stop).await;
    }

    /// Lets namespaces go that are being deleted, whatever became of the requests for that, until `stop`.
    pub async fn follow_namespaces(&self, stop: CancellationToken) {
        verbs::follow_namespaces(&self.core, stop).await;
    }

    /// Tells other servers in the cluster whose client certificates they may believe.
    pub async fn publish_client_authorities(&self, pem: &str) -> Result<(), Status> {
        self.unless_full("the list of authorities", extension::publish(&self.core, pem).await)
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.core.limits
    }

    /// Counts a connection that is closed because there are too many; says whether that is worth a line in the log.
    pub(crate) fn refused_connection(&self) -> bool {
        self.core.metrics.refused_connection()
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.core.clock.now()
    }

    /// Lets `/metrics` tell of memory, time and files of this process.
    pub fn read_process_through(&self, disk: Arc<dyn Disk>) {
        self.core.metrics.read_process_through(disk);
    }

    pub fn store(&self) -> &Store {
        &self.core.store
    }

    /// Answers one request.
    pub async fn handle<B>(&self, request: Request<B>) -> Response<Body>
    where
        B: http_body::Body,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let (mut head, body) = request.into_parts();
        let notes = Arc::new(AdmissionNotes::default());
        head.extensions.insert(notes.clone());
        let exchange = Exchange::begin(&self.core, &head);
        let mut held = Held::of(&head);
        let accepted = header(&head.headers, ACCEPT).unwrap_or_default();
        let (wanted, wanted_of_errors) = (accept::wanted(accepted), accept::wanted_of_errors(accepted));
        let access = &self.core.access;
        let mut audited = access.audit().map(|audit| audit.begin(&head, exchange.audit_id()));
        let admitted = access.admit(&head, self.core.clock.now());
        if let Some(audited) = &mut audited {
            audited.received(admitted.as_ref()).await;
        }
        let answer = match admitted {
            Ok(admitted) => {
                let served = async {
                    held.seat = exchange.enter(&admitted.user).await?.map(Arc::new);
                    self.answer(head, body, admitted.user, held.seat.clone()).await
                };
                exchange.in_time(served).await
            }
            Err(refused) => Err(refused.status),
        };
        let failure = answer.as_ref().err().cloned();
        let response = match answer {
            Ok(response) if wanted == Wanted::Yaml => output::yaml(response),
            Ok(response) => response,
            Err(status) => output::status(&status, wanted_of_errors),
        };
        let response = exchange.finish(response, held);
        match audited {
            None => response,
            Some(audited) => audited.answered(response, failure.as_ref(), &notes).await,
        }
    }

    async fn answer<B>(
        &self,
        mut head: Parts,
        body: B,
        user: Arc<User>,
        seat: Option<Arc<Seat>>,
    ) -> Result<Response<Body>, Status>
    where
        B: http_body::Body,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let upgrade = head.extensions.remove::<OnUpgrade>();
        let closing = head.extensions.get::<Peer>().map(|peer| peer.closing.clone()).unwrap_or_default();
        let registry = self.core.registry();
        let resource = match path::parse(head.uri.path()) {
            Path::Resource(resource) => resource,
            other => {
                if let Some(document) = token::document(&self.core.access, &head.method, &other) {
                    return Ok(document);
                }
                return discovery::run(&self.core, &registry, &head, &other).await;
            }
        };
        if !registry.has_group_version(&resource.group, &resource.version) {
            return discovery::missing(&registry, &Path::Resource(resource));
        }
        // Who asks there was let in because they may watch: nothing else is to be had.
        if resource.watch && head.method != Method::GET {
            return Err(Status::method_not_allowed());
        }
        let body = body::read_in_time(body).await?;
        let resource = legacy_binding(resource, &head.method, &body);
        let (resource, query) = legacy_watch(resource, head.uri.query().unwrap_or_default());
        let (kind, writing) = self.kind(&resource, &head.method).await?;
        let info = kind.info();
        let offer = match protobuf::knows(&info.api_version, &info.kind) {
            false => Offer::Custom,
            true if head.method == Method::GET && resource.name.is_none() => Offer::BuiltInList,
            true => Offer::BuiltIn,
        };
        let (form, encoding) = accept::form(header(&head.headers, ACCEPT), offer)?;
        let content_type = header(&head.headers, CONTENT_TYPE).unwrap_or_default();
        let content_type = MediaType::parse(content_type).essence.to_owned();
        let call = Call {
            kind: kind.clone(),
            namespace: resource.namespace,
            name: resource.name,
            subresource: resource.subresource,
            query,
            form,
            encoding,
            content_type,
            body,
            user,
            notes: head.extensions.remove().unwrap_or_default(),
            user_agent: header(&head.headers, USER_AGENT).unwrap_or_default().to_owned(),
            closing,
        };
        if proxy::applies(&call) {
            let connection = Connection { headers: &head.headers, upgrade, seat };
            return proxy::run(&self.core, &head.method, &call, connection).await;
        }
        let accepted = header(&head.headers, ACCEPT).unwrap_or_default();
        if call.query.flag("watch") && call.name.is_none() && accept::wanted(accepted) == Wanted::Yaml {
            return Err(accept::stream_refusal());
        }
        let include = call.query.get("includeObject").to_owned();
        let mut reply = match writing {
            None => verbs::run(&self.core, &head.method, call).await?,
            Some(writing) => self.write_custom(head.method.clone(), call, writing).await?,
        };
        reply.warnings.extend(kind.custom().and_then(|custom| custom.deprecation.clone()));
        if *info.table == *custom::TABLE && head.method != Method::GET {
            self.follow_once().await;
        }
        Ok(output::reply(&kind, (form, encoding), &include, reply, self.core.clock.now()))
    }

    /// The kind of a request whose body is there: kinds may have come and gone while it was on its way. One that a
    /// client defined comes with the right to write its objects.
    async fn kind(
        &self,
        resource: &ResourcePath,
        method: &Method,
    ) -> Result<(Arc<dyn Kind>, Option<Writing>), Status> {
        let find = || {
            let registry = self.core.registry();
            let kind = registry.kind(&resource.group, &resource.version, &resource.plural).cloned();
            kind.ok_or_else(Status::no_such_resource)
        };
        let kind = find()?;
        if *method == Method::GET || kind.custom().is_none() {
            return Ok((kind, None));
        }
        let writing = self.core.definitions.writing().await;
        Ok((find()?, Some(writing)))
    }

    /// A write that was begun is not left half-way by a client that goes away: its definition waits for its end.
    async fn write_custom(&self, method: Method, call: Call, writing: Writing) -> Result<Reply, Status> {
        let core = self.core.clone();
        let run = async move {
            let reply = verbs::run(&core, &method, call).await;
            drop(writing);
            reply
        };
        tokio::spawn(run).await.map_err(Status::internal)?
    }
}

fn header(headers: &HeaderMap, name: http::HeaderName) -> Option<&str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

/// `GET …/watch/…/<name>` is the older spelling of `GET …/?watch=true&fieldSelector=metadata.name=<name>`.
fn legacy_watch(mut resource: ResourcePath, query: &str) -> (ResourcePath, Query) {
    let mut query = Query::parse(query);
    if resource.watch {
        // In front of what the client asks for, so that the path decides.
        if let Some(name) = resource.name.take() {
            query.put_first("fieldSelector", selector::of_name(&name));
        }
        query.put_first("watch", "true".into());
    }
    (resource, query)
}

/// `POST …/bindings` is the older spelling of `POST …/pods/<name>/binding`.
fn legacy_binding(mut resource: ResourcePath, method: &Method, body: &[u8]) -> ResourcePath {
    let legacy = resource.group.is_empty() && resource.plural == "bindings" && resource.name.is_none();
    if legacy && *method == Method::POST {
        let binding = body::parse(body).unwrap_or_default();
        resource.plural = "pods".into();
        resource.name = Some(metadata::name(&binding).to_owned());
        resource.subresource = Some("binding".into());
    }
    resource
}

impl<B> tower::Service<Request<B>> for Server
where
    B: http_body::Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let server = self.clone();
        Box::pin(async move { Ok(server.handle(request).await) })
    }
}
