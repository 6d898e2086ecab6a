//! What an answer of etcd that is none means.

use tonic::{Code, ConnectError, Status};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// Nothing happened: etcd has no room.
    Full(String),
    /// Nothing happened: the request is larger than etcd takes.
    TooLarge(String),
    /// Nothing happened: the lease is gone.
    NoLease,
    /// Nothing happened: the revision asked for is thrown away.
    Compacted,
    /// Nothing happened, and a repeat will not change that.
    Refused(String),
    /// Nothing happened; another try may do better.
    NotSent(String),
    /// It may have happened.
    Lost(String),
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NoLease => f.write_str("the lease is gone"),
            Self::Compacted => f.write_str("the revision is compacted"),
            Self::Full(why)
            | Self::TooLarge(why)
            | Self::Refused(why)
            | Self::NotSent(why)
            | Self::Lost(why) => f.write_str(why),
        }
    }
}

impl Failure {
    /// etcd's texts are part of its API: several errors share a code.
    pub fn of(status: &Status) -> Self {
        let text = status.message();
        let whole = || text.to_owned();
        match status.code() {
            Code::ResourceExhausted if text.contains("database space exceeded") => Self::Full(whole()),
            Code::ResourceExhausted if text.contains("too many requests") => Self::NotSent(whole()),
            Code::InvalidArgument if text.contains("request is too large") => Self::TooLarge(whole()),
            Code::NotFound if text.contains("lease not found") => Self::NoLease,
            Code::OutOfRange if text.contains("has been compacted") => Self::Compacted,
            Code::InvalidArgument
            | Code::FailedPrecondition
            | Code::NotFound
            | Code::OutOfRange
            | Code::PermissionDenied
            | Code::ResourceExhausted
            | Code::Unauthenticated
            | Code::Unimplemented => Self::Refused(whole()),
            _ if never_connected(status) => Self::NotSent(whole()),
            _ => Self::Lost(whole()),
        }
    }

    /// Whether another member, or the same one later, may answer.
    pub fn may_pass(&self) -> bool {
        matches!(self, Self::NotSent(_) | Self::Lost(_))
    }
}

/// Without a connection nothing was sent.
fn never_connected(status: &Status) -> bool {
    let causes = std::iter::successors(std::error::Error::source(status), |error| error.source());
    causes.into_iter().any(|cause| cause.is::<ConnectError>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_certainly_did_nothing_is_called_so() {
        let text = |text: &str| text.to_owned();
        let table = [
            (
                Code::ResourceExhausted,
                "etcdserver: mvcc: database space exceeded",
                Failure::Full as fn(String) -> Failure,
            ),
            (Code::ResourceExhausted, "etcdserver: too many requests", Failure::NotSent),
            (Code::InvalidArgument, "etcdserver: request is too large", Failure::TooLarge),
            (Code::InvalidArgument, "etcdserver: key is not provided", Failure::Refused),
            (Code::PermissionDenied, "etcdserver: permission denied", Failure::Refused),
            (Code::Unavailable, "etcdserver: request timed out", Failure::Lost),
            (Code::Unavailable, "etcdserver: leader changed", Failure::Lost),
            (Code::Unknown, "transport error", Failure::Lost),
            (Code::Cancelled, "h2 protocol error", Failure::Lost),
            (Code::DeadlineExceeded, "context deadline exceeded", Failure::Lost),
            (Code::Internal, "h2 protocol error", Failure::Lost),
        ];
        for (code, message, expected) in table {
            assert_eq!(Failure::of(&Status::new(code, message)), expected(text(message)), "{message}");
        }
        let gone = Status::not_found("etcdserver: requested lease not found");
        assert_eq!(Failure::of(&gone), Failure::NoLease);
        let old = Status::out_of_range("etcdserver: mvcc: required revision has been compacted");
        assert_eq!(Failure::of(&old), Failure::Compacted);
        let refused = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
        let unsent = Status::from_error(Box::new(ConnectError(refused.into())));
        assert!(matches!(Failure::of(&unsent), Failure::NotSent(_)), "{unsent:?}");
    }
}
