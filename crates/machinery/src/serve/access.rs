//! Who may read a page.

use async_trait::async_trait;
use http::request::Parts;

/// Why a request is not answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Denied {
    /// The credentials are wrong.
    Unauthorized,
    /// This user may not.
    Forbidden { user: String },
    /// The question could not be answered, for this reason.
    Unknown(String),
}

/// Decides about a request before its page is made.
#[async_trait]
pub trait Access: Send + Sync {
    async fn allow(&self, request: &Parts) -> Result<(), Denied>;
}

/// Everyone may: sidecars serve without authentication, as upstream's do.
pub struct Everyone;

#[async_trait]
impl Access for Everyone {
    async fn allow(&self, _: &Parts) -> Result<(), Denied> {
        Ok(())
    }
}

/// These paths are open (`--authorization-always-allow-paths`); for the others `reviewer` is asked. Without a reviewer
/// they are forbidden, as upstream does without `--authorization-kubeconfig`.
pub struct AllowedPaths {
    pub paths: Vec<String>,
    pub reviewer: Option<Box<dyn Access>>,
}

#[async_trait]
impl Access for AllowedPaths {
    async fn allow(&self, request: &Parts) -> Result<(), Denied> {
        let asked = request.uri.path();
        let open = |path: &String| match path.strip_suffix('*') {
            Some(prefix) => asked.starts_with(prefix),
            None => asked == path,
        };
        match &self.reviewer {
            _ if self.paths.iter().any(open) => Ok(()),
            Some(reviewer) => reviewer.allow(request).await,
            None => Err(Denied::Forbidden { user: "system:anonymous".to_owned() }),
        }
    }
}
