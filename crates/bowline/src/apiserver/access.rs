//! Flags about who may come in and what they may do, in upstream's words.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, anyhow, bail};
use bowline_apiserver::auth::audit::{Audit, AuditSettings};
use bowline_apiserver::auth::token::{self, SigningKey, TokenSettings};
use bowline_apiserver::auth::{Mode, Settings, StaticTokens};
use bowline_host::Clock;
use clap::ArgAction;

use super::limits::LimitArgs;

/// Who signs service-account tokens unless told otherwise; upstream's installers use the same.
const ISSUER: &str = "https://kubernetes.default.svc.cluster.local";

#[derive(clap::Args, Debug)]
pub struct AccessArgs {
    /// Authorities whose client certificates are believed, beside the server's own (PEM)
    #[arg(long, value_name = "FILE")]
    client_ca_file: Option<PathBuf>,
    /// Tokens that never change: lines of token,user,uid,"group1,group2"
    #[arg(long, value_name = "FILE")]
    token_auth_file: Option<PathBuf>,
    /// Let those who show nothing in as system:anonymous
    #[arg(long, value_name = "BOOL", default_value_t = true, action = ArgAction::Set, num_args = 0..=1,
          require_equals = true, default_missing_value = "true")]
    anonymous_auth: bool,
    /// Who decides, in order: Node, RBAC, AlwaysAllow, AlwaysDeny
    #[arg(long, value_name = "MODES", value_delimiter = ',', default_value = "Node,RBAC")]
    authorization_mode: Vec<String>,

    /// Key that signs service-account tokens (PEM); one is made and kept by default
    #[arg(long, value_name = "FILE")]
    service_account_signing_key_file: Option<PathBuf>,
    /// Further keys that tokens may be signed with (PEM), separated by commas
    #[arg(long, value_name = "FILE", value_delimiter = ',')]
    service_account_key_file: Vec<PathBuf>,
    /// Issuers of service-account tokens, separated by commas; the first one signs
    #[arg(long, value_name = "URL", value_delimiter = ',', default_value = ISSUER)]
    service_account_issuer: Vec<String>,
    /// Whom tokens for this server are for, separated by commas; the issuer by default
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    api_audiences: Vec<String>,
    /// The longest that a token may be asked for, e.g. 24h
    #[arg(long, value_name = "DURATION", value_parser = seconds)]
    service_account_max_token_expiration: Option<i64>,
    /// Let the tokens of pods live on for a year, for clients that never read them again
    #[arg(long, value_name = "BOOL", default_value_t = true, action = ArgAction::Set, num_args = 0..=1,
          require_equals = true, default_missing_value = "true")]
    service_account_extend_token_expiration: bool,
    /// Where others find the public keys; this server by default
    #[arg(long, value_name = "URL")]
    service_account_jwks_uri: Option<String>,

    /// Write every request to this file as JSON (audit.k8s.io/v1, level Metadata); - is standard output
    #[arg(long, value_name = "FILE")]
    audit_log_path: Option<PathBuf>,
    /// Megabytes after which the audit log is put aside; 0 stands for 100
    #[arg(long, value_name = "MEGABYTES", default_value_t = 0)]
    audit_log_maxsize: u64,
    /// How many old audit logs are kept; 0 keeps all
    #[arg(long, value_name = "COUNT", default_value_t = 0)]
    audit_log_maxbackup: usize,
    /// Days after which old audit logs are removed; 0 keeps them
    #[arg(long, value_name = "DAYS", default_value_t = 0)]
    audit_log_maxage: u64,

    #[command(flatten)]
    limits: LimitArgs,
}

impl AccessArgs {
    /// All of it, with files read and opened. Keys of this server's own are kept in `dir`.
    pub fn settings(&self, dir: &Path, address: SocketAddr, clock: Arc<dyn Clock>) -> Result<Settings> {
        let modes: Result<Vec<Mode>, String> =
            self.authorization_mode.iter().map(|mode| mode.parse()).collect();
        let static_tokens = match &self.token_auth_file {
            Some(path) => StaticTokens::read(path)?,
            None => StaticTokens::default(),
        };
        Ok(Settings {
            anonymous: self.anonymous_auth,
            modes: modes.map_err(|why| anyhow!(why))?,
            static_tokens,
            tokens: Some(self.tokens(dir, address)?),
            audit: self.audit(clock)?,
            limits: self.limits.settings(),
        })
    }

    fn tokens(&self, dir: &Path, address: SocketAddr) -> Result<TokenSettings> {
        if self.service_account_issuer.iter().any(String::is_empty) {
            bail!("--service-account-issuer must not be empty: name the URL that tokens are signed for");
        }
        let signing = match &self.service_account_signing_key_file {
            Some(path) => SigningKey::read(path)?,
            None => SigningKey::open(dir)?,
        };
        let mut verifying = Vec::new();
        for path in &self.service_account_key_file {
            verifying.extend(token::read_public(path)?);
        }
        let own = || format!("https://{address}/openid/v1/jwks");
        Ok(TokenSettings {
            issuers: self.service_account_issuer.clone(),
            audiences: self.api_audiences.clone(),
            signing,
            verifying,
            max_expiration_seconds: self.service_account_max_token_expiration,
            extend_expiration: self.service_account_extend_token_expiration,
            jwks_uri: self.service_account_jwks_uri.clone().unwrap_or_else(own),
        })
    }

    fn audit(&self, clock: Arc<dyn Clock>) -> Result<Option<Audit>> {
        let Some(path) = self.audit_log_path.clone() else { return Ok(None) };
        let settings = AuditSettings {
            path,
            max_size: self.audit_log_maxsize,
            max_backups: self.audit_log_maxbackup,
            max_age: self.audit_log_maxage,
        };
        Ok(Some(Audit::open(settings, clock)?))
    }

    /// The authorities of the flag, PEM.
    pub fn client_authorities(&self) -> Result<Option<String>> {
        let Some(path) = &self.client_ca_file else { return Ok(None) };
        let read = std::fs::read_to_string(path);
        read.map(Some).with_context(|| format!("read --client-ca-file `{}`", path.display()))
    }
}

/// What `bowline up` has: tokens of its own, everything else as it comes.
pub fn defaults(dir: &Path, address: SocketAddr) -> Result<Settings> {
    let tokens = TokenSettings {
        issuers: vec![ISSUER.into()],
        audiences: Vec::new(),
        signing: SigningKey::open(dir)?,
        verifying: Vec::new(),
        max_expiration_seconds: None,
        extend_expiration: true,
        jwks_uri: format!("https://{address}/openid/v1/jwks"),
    };
    Ok(Settings { tokens: Some(tokens), ..Settings::default() })
}

/// Go's durations, as far as tokens need them: `1h30m`, `90m`, `3600s`.
pub fn seconds(text: &str) -> Result<i64, String> {
    let wrong = || format!("`{text}` is no duration: write e.g. 24h, 90m or 3600s");
    let (mut total, mut number) = (0_i64, String::new());
    for letter in text.chars() {
        let unit = match letter {
            '0'..='9' => {
                number.push(letter);
                continue;
            }
            'h' => 3600,
            'm' => 60,
            's' => 1,
            _ => return Err(wrong()),
        };
        let count: i64 = std::mem::take(&mut number).parse().map_err(|_| wrong())?;
        total = count.checked_mul(unit).and_then(|more| total.checked_add(more)).ok_or_else(wrong)?;
    }
    if number.is_empty() && total > 0 { Ok(total) } else { Err(wrong()) }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    // As on the real command line, where the last of several wins.
    #[derive(Parser)]
    #[command(args_override_self = true)]
    struct Flags {
        #[command(flatten)]
        access: AccessArgs,
    }

    fn parsed(flags: &[&str]) -> AccessArgs {
        Flags::try_parse_from(std::iter::once("x").chain(flags.iter().copied())).unwrap().access
    }

    #[test]
    fn durations() {
        for (text, want) in [("24h", 86_400), ("1h30m", 5400), ("3600s", 3600)] {
            assert_eq!(seconds(text), Ok(want), "{text}");
        }
        for text in ["", "5", "h", "1d", "-1h", "9999999999999999999h"] {
            assert!(seconds(text).is_err(), "{text}");
        }
    }

    #[test]
    fn lists_come_with_commas_or_one_by_one() {
        let access = parsed(&["--service-account-issuer", "a,b", "--authorization-mode=RBAC"]);
        assert_eq!(
            (access.service_account_issuer, access.authorization_mode),
            (vec!["a".into(), "b".into()], vec!["RBAC".into()])
        );
        let access = parsed(&["--service-account-issuer", "a", "--service-account-issuer", "b"]);
        assert_eq!(access.service_account_issuer, ["a", "b"]);
    }

    #[test]
    fn settings_are_made_from_flags() {
        struct Fixed;
        impl Clock for Fixed {
            fn now(&self) -> jiff::Timestamp {
                jiff::Timestamp::UNIX_EPOCH
            }
        }
        let dir = tempfile::tempdir().unwrap();
        let address = SocketAddr::from(([127, 0, 0, 1], 1));
        let made = |flags: &[&str]| parsed(flags).settings(dir.path(), address, Arc::new(Fixed));
        let settings = made(&[]).unwrap();
        assert!(settings.anonymous && settings.audit.is_none());
        assert_eq!(settings.modes, [Mode::Node, Mode::Rbac]);
        assert_eq!(settings.tokens.unwrap().jwks_uri, "https://127.0.0.1:1/openid/v1/jwks");
        assert!(dir.path().join("pki/sa.key").exists());
        assert!(!made(&["--anonymous-auth=false"]).unwrap().anonymous);
        let told = |flags: &[&str]| made(flags).err().unwrap().to_string();
        assert!(told(&["--authorization-mode", "ABAC"]).contains("`ABAC` is not known"));
        assert!(told(&["--token-auth-file", "/nope"]).starts_with("read token file `/nope`"));
        assert!(told(&["--service-account-key-file", "/nope"]).starts_with("read key file `/nope`"));
        assert!(told(&["--service-account-issuer", ""]).contains("must not be empty"));
        let missing = parsed(&["--client-ca-file", "/nope"]).client_authorities().unwrap_err();
        assert!(missing.to_string().contains("--client-ca-file `/nope`"));
    }
}
