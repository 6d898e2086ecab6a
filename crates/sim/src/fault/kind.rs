//! The kinds of faults, and where each can strike.

use tonic::Code;

/// A moment at which a fault may strike.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Opportunity {
    /// A request that writes arrives at the API server's door.
    Write,
    /// A request that reads.
    Read,
    /// A list that fills a cache, and that a server which is behind would answer differently.
    LaggingList,
    /// A watch begins.
    Watch,
    /// A call arrives at a driver's or registrar's door.
    Call,
    /// A process is about to do something.
    Before,
    /// It has done it and knows.
    After,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// The connection breaks before the request is sent.
    LostRequest,
    /// The write lands, the answer does not come back.
    LostAnswer,
    Conflict,
    TooMany,
    ServerError,
    /// The write lands, a proxy answers 504.
    GatewayTimeout,
    /// The write lands long after the caller has given up.
    LateLanding,
    /// A list comes from a server that is behind.
    Lagging,
    CutWatch,
    /// 410 in a watch.
    Gone,
    SlowWatch,
    /// The connection to the driver breaks before the call is delivered.
    CsiRefused,
    /// The driver does it; the connection breaks before the answer.
    CsiLostAnswer,
    /// The answer comes after the caller has given up.
    CsiSlow,
    /// The driver does it, and something between answers UNAVAILABLE or DEADLINE_EXCEEDED.
    CsiDoneButCode,
    /// The driver stands still for longer than any caller waits.
    DriverStall,
    /// The driver's side answers with this code and does nothing.
    Code(CodeOrd),
    CrashBefore,
    CrashAfter,
    /// The process stands still for longer than a lease lasts.
    Stall,
    /// The process and the API server cannot reach each other for a while.
    Partition,
    DriverRestart,
    /// No process reaches the API server for a while.
    ApiOutage,
    /// The machine of all nodes loses power.
    Reboot,
    /// One node loses power and starts again at once: mounts, devices and processes go, its disk stays.
    NodeReboot,
    /// One node has no power for a while.
    NodeDeath,
    /// The API servers die before the write is synced, or before it is answered, and start with what the disk has.
    ServerCrash,
    /// A person gives the lease to another candidate: two lead for a moment.
    StolenLease,
    /// The wall clock of one machine is set by an hour.
    ClockStep,
    /// A person annotates every object that there is.
    Edited,
    /// A person deletes a pod at once.
    Deleted,
}

/// tonic's codes have no order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(i32)]
pub enum CodeOrd {
    Unknown = Code::Unknown as i32,
    InvalidArgument = Code::InvalidArgument as i32,
    DeadlineExceeded = Code::DeadlineExceeded as i32,
    PermissionDenied = Code::PermissionDenied as i32,
    ResourceExhausted = Code::ResourceExhausted as i32,
    FailedPrecondition = Code::FailedPrecondition as i32,
    Aborted = Code::Aborted as i32,
    Internal = Code::Internal as i32,
    Unavailable = Code::Unavailable as i32,
    Unauthenticated = Code::Unauthenticated as i32,
}

use CodeOrd::{
    Aborted, DeadlineExceeded, FailedPrecondition, Internal, InvalidArgument, PermissionDenied,
    ResourceExhausted, Unauthenticated, Unavailable, Unknown,
};

impl Kind {
    pub const ALL: &'static [Self] = &[
        Self::LostRequest,
        Self::LostAnswer,
        Self::Conflict,
        Self::TooMany,
        Self::ServerError,
        Self::GatewayTimeout,
        Self::LateLanding,
        Self::Lagging,
        Self::CutWatch,
        Self::Gone,
        Self::SlowWatch,
        Self::CsiRefused,
        Self::CsiLostAnswer,
        Self::CsiSlow,
        Self::CsiDoneButCode,
        Self::DriverStall,
        Self::Code(Unknown),
        Self::Code(InvalidArgument),
        Self::Code(DeadlineExceeded),
        Self::Code(PermissionDenied),
        Self::Code(ResourceExhausted),
        Self::Code(FailedPrecondition),
        Self::Code(Aborted),
        Self::Code(Internal),
        Self::Code(Unavailable),
        Self::Code(Unauthenticated),
        Self::CrashBefore,
        Self::CrashAfter,
        Self::Stall,
        Self::Partition,
        Self::DriverRestart,
        Self::ApiOutage,
        Self::Reboot,
        Self::NodeReboot,
        Self::NodeDeath,
        Self::ServerCrash,
        Self::StolenLease,
        Self::ClockStep,
        Self::Edited,
        Self::Deleted,
    ];

    pub fn name(self) -> String {
        match self {
            Self::Code(code) => format!("code {code:?}"),
            other => {
                let mut words = String::new();
                for letter in format!("{other:?}").chars() {
                    if letter.is_uppercase() && !words.is_empty() {
                        words.push(' ');
                    }
                    words.extend(letter.to_lowercase());
                }
                words
            }
        }
    }

    /// Done by the cluster, not by the line.
    pub fn is_upset(self) -> bool {
        matches!(
            self,
            Self::Stall
                | Self::DriverStall
                | Self::Partition
                | Self::DriverRestart
                | Self::ApiOutage
                | Self::Reboot
                | Self::NodeReboot
                | Self::NodeDeath
                | Self::StolenLease
                | Self::ClockStep
                | Self::Edited
                | Self::Deleted
        )
    }

    /// Done by a person, before what it strikes lands: what was decided before is then out of date.
    pub fn is_by_hand(self) -> bool {
        matches!(self, Self::Edited | Self::Deleted | Self::StolenLease)
    }

    /// Whether the fault can strike at this moment.
    pub fn fits(self, opportunity: Opportunity) -> bool {
        use Opportunity::{After, Before, Call, LaggingList, Read, Watch, Write};
        match self {
            Self::LostRequest | Self::ServerError => {
                matches!(opportunity, Write | Read | LaggingList | Watch)
            }
            Self::TooMany => matches!(opportunity, Write | Read | LaggingList),
            Self::LostAnswer
            | Self::Conflict
            | Self::GatewayTimeout
            | Self::LateLanding
            | Self::ServerCrash => opportunity == Write,
            Self::Lagging => opportunity == LaggingList,
            Self::CutWatch | Self::Gone | Self::SlowWatch => opportunity == Watch,
            Self::CsiRefused
            | Self::CsiLostAnswer
            | Self::CsiSlow
            | Self::CsiDoneButCode
            | Self::DriverStall
            | Self::Code(_) => opportunity == Call,
            Self::CrashBefore => opportunity == Before,
            Self::CrashAfter => opportunity == After,
            _ => matches!(opportunity, Write | Call),
        }
    }
}
