//! Clients of service accounts, with tokens that the API server issues on request (TokenRequest).
//!
//! The program's own credentials only obtain the tokens. An account that is missing is made, as upstream does.

use std::time::Duration;

use bowline_api::ServiceAccount;
use http::HeaderValue;
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{Api, PostParams};
use kube::config::AuthInfo;
use kube::{Client, Config};
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::subject::{Clients, Subject};
use super::token::{Bearer, header};
use super::transport::Shown;
use super::{ClientError, Line, Source, one_line, transport};

/// Where the accounts of controllers are.
pub const NAMESPACE: &str = "kube-system";
/// Asked for; the server may grant another.
const LIFETIME_SECONDS: i64 = 3600;
/// Part of its lifetime after which a token is replaced, as upstream does.
const RENEW_AFTER: f64 = 0.8;
/// While no new token is to be had, the old one is used this long before the next request for one.
const RETRY: Duration = Duration::from_secs(10);

/// Clients for the service accounts of one API server.
pub struct Accounts {
    root: Client,
    config: Config,
    line: Line,
}

impl Accounts {
    /// For the server of `source`; `root` asks for the tokens.
    pub async fn open(source: &Source, line: Line, root: Client) -> Result<Self, ClientError> {
        let mut config = source.load().await?;
        // A server that is shown a certificate as well takes the name in it.
        config.auth_info = AuthInfo::default();
        Ok(Self { root, config, line })
    }
}

impl Clients for Accounts {
    fn client(&self, subject: &Subject) -> Result<Client, ClientError> {
        match subject {
            Subject::ServiceAccount(name) => {
                let token = AccountToken::new(self.root.clone(), (*name).to_owned());
                let shown = Shown { token: Some(Bearer::Account(token)), certificate: None };
                transport::client_with(&self.config, self.line.clone(), shown)
            }
            // Users and nodes are who their credentials say: the program has only its own.
            Subject::User(_) | Subject::Node(_) => Ok(self.root.clone()),
        }
    }
}

/// A token of one account, obtained with the first request and replaced before it expires.
pub(super) struct AccountToken {
    root: Client,
    account: String,
    kept: Mutex<Option<Kept>>,
}

struct Kept {
    value: HeaderValue,
    renew: Instant,
    expires: Instant,
}

impl AccountToken {
    pub fn new(root: Client, account: String) -> Self {
        Self { root, account, kept: Mutex::default() }
    }

    /// The value of the `Authorization` header.
    pub async fn header(&self) -> Result<HeaderValue, String> {
        let mut kept = self.kept.lock().await;
        let now = Instant::now();
        if let Some(kept) = kept.as_ref().filter(|kept| now < kept.renew) {
            return Ok(kept.value.clone());
        }
        match (self.request(now).await, kept.as_mut()) {
            (Ok(new), _) => {
                let value = new.value.clone();
                *kept = Some(new);
                Ok(value)
            }
            (Err(why), Some(old)) if now < old.expires => {
                tracing::warn!(account = self.account, why, "keeping the token until a new one is issued");
                old.renew = now + RETRY;
                Ok(old.value.clone())
            }
            (Err(why), _) => Err(why),
        }
    }

    /// The server refused it: the next request asks for another.
    pub async fn refused(&self) {
        *self.kept.lock().await = None;
    }

    async fn request(&self, now: Instant) -> Result<Kept, String> {
        let wrong = |what: &str, why: String| format!("{what} `{NAMESPACE}/{}`: {why}", self.account);
        let issued = match self.issue().await {
            Err(error) if code(&error) == Some(404) => {
                self.create().await.map_err(|e| wrong("create service account", one_line(&e)))?;
                self.issue().await
            }
            issued => issued,
        };
        let issued = issued.map_err(|e| wrong("obtain a token of service account", one_line(&e)))?;
        let seconds = issued.spec.and_then(|spec| spec.expiration_seconds).unwrap_or(LIFETIME_SECONDS);
        let lifetime = Duration::from_secs(u64::try_from(seconds).unwrap_or_default());
        let token = issued.status.and_then(|status| status.token).unwrap_or_default();
        let value =
            header(&token).map_err(|why| wrong("obtain a token of service account", why.to_owned()))?;
        Ok(Kept { value, renew: now + lifetime.mul_f64(RENEW_AFTER), expires: now + lifetime })
    }

    fn api(&self) -> Api<ServiceAccount> {
        Api::namespaced(self.root.clone(), NAMESPACE)
    }

    async fn issue(&self) -> kube::Result<TokenRequest> {
        let spec =
            TokenRequestSpec { expiration_seconds: Some(LIFETIME_SECONDS), ..TokenRequestSpec::default() };
        let request = TokenRequest { spec: Some(spec), ..TokenRequest::default() };
        self.api().create_token_request(&self.account, &PostParams::default(), &request).await
    }

    async fn create(&self) -> kube::Result<()> {
        let metadata = ObjectMeta { name: Some(self.account.clone()), ..ObjectMeta::default() };
        let account = ServiceAccount { metadata, ..ServiceAccount::default() };
        match self.api().create(&PostParams::default(), &account).await {
            Err(error) if code(&error) == Some(409) => Ok(()),
            created => created.map(drop),
        }
    }
}

fn code(error: &kube::Error) -> Option<u16> {
    match error {
        kube::Error::Api(status) => Some(status.code),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::fake_api::{self, json_answer, status};

    fn token(text: &str) -> Value {
        json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "metadata": {},
            "spec": {"audiences": ["api"], "expirationSeconds": 1000},
            "status": {"token": text, "expirationTimestamp": "2000-01-01T00:00:00Z"}})
    }

    #[tokio::test(start_paused = true)]
    async fn a_token_is_renewed_by_duration_and_kept_while_the_server_is_away() {
        let answers = std::sync::Mutex::new(vec![
            status(503, "ServiceUnavailable", "starting"),
            json_answer(201, &token("third")),
            status(503, "ServiceUnavailable", "away"),
            status(503, "ServiceUnavailable", "away"),
            json_answer(201, &token("first")),
        ]);
        let (root, seen) = fake_api::client(move |_, _| answers.lock().unwrap().pop());
        let account = AccountToken::new(root, "binder".into());
        let header = async || account.header().await.map(|value| value.to_str().unwrap().to_owned());
        // The time in the answer is another machine's and says nothing.
        assert_eq!(header().await.unwrap(), "Bearer first");
        tokio::time::advance(Duration::from_secs(799)).await;
        assert_eq!(header().await.unwrap(), "Bearer first");
        assert_eq!(seen.lock().unwrap().len(), 1, "not before its time");
        tokio::time::advance(Duration::from_secs(2)).await;
        assert_eq!(header().await.unwrap(), "Bearer first");
        assert_eq!(header().await.unwrap(), "Bearer first");
        assert_eq!(seen.lock().unwrap().len(), 2, "not asked for again at once");
        tokio::time::advance(Duration::from_secs(200)).await;
        assert!(header().await.unwrap_err().contains("kube-system/binder"), "it has expired");
        assert_eq!(header().await.unwrap(), "Bearer third");
        account.refused().await;
        assert!(header().await.is_err(), "asked for again after a refusal");
    }

    #[tokio::test(start_paused = true)]
    async fn a_missing_account_is_made() {
        let made = std::sync::atomic::AtomicBool::new(false);
        let (root, seen) = fake_api::client(move |head, _| {
            use std::sync::atomic::Ordering::SeqCst;
            Some(match head.uri.path().ends_with("/token") {
                true if made.load(SeqCst) => json_answer(201, &token("t")),
                true => status(404, "NotFound", "no such account"),
                false => {
                    made.store(true, SeqCst);
                    // Another replica was faster.
                    status(409, "AlreadyExists", "there is one")
                }
            })
        });
        let account = AccountToken::new(root, "binder".into());
        let value = account.header().await.unwrap();
        assert!(value == "Bearer t" && value.is_sensitive());
        assert_eq!(seen.lock().unwrap().len(), 3);
    }
}
