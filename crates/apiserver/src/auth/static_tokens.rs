//! `--token-auth-file`: tokens that somebody wrote down, one user per line.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ring::digest::{SHA256, digest};

use super::user::User;

#[derive(Debug, thiserror::Error)]
pub enum TokenFileError {
    #[error("read token file `{path}`: {source}")]
    Read { path: PathBuf, source: std::io::Error },
    #[error("token file `{path}`, line {line}: {why}")]
    Line { path: PathBuf, line: usize, why: &'static str },
}

/// Users by the digest of their token, so that no token stays in memory and none can be guessed by timing.
#[derive(Default)]
pub struct StaticTokens {
    users: HashMap<Vec<u8>, Arc<User>>,
}

impl StaticTokens {
    /// Lines of `token,user,uid` and, quoted, `"group1,group2"`. A token that stands twice belongs to the last line.
    pub fn read(path: &Path) -> Result<Self, TokenFileError> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| TokenFileError::Read { path: path.to_owned(), source })?;
        Self::parse(&text).map_err(|(line, why)| TokenFileError::Line { path: path.to_owned(), line, why })
    }

    fn parse(text: &str) -> Result<Self, (usize, &'static str)> {
        let mut users = HashMap::new();
        for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            let fields = fields(line).ok_or((number + 1, "a quote is not closed"))?;
            let [token, name, uid, rest @ ..] = &fields[..] else {
                return Err((number + 1, "at least a token, a user name and a uid are needed"));
            };
            if token.is_empty() {
                tracing::warn!(line = number + 1, "the token file has a line without a token; it is skipped");
                continue;
            }
            let groups = rest.first().map(String::as_str).unwrap_or_default().split(',').map(str::trim);
            let groups = groups.filter(|group| !group.is_empty()).map(str::to_owned).collect();
            let user = User { name: name.clone(), uid: uid.clone(), groups, ..User::default() };
            if users.insert(key(token), Arc::new(user.authenticated())).is_some() {
                tracing::warn!(line = number + 1, "the token file has a token twice; the later line counts");
            }
        }
        Ok(Self { users })
    }

    pub fn user(&self, token: &str) -> Option<&Arc<User>> {
        if self.users.is_empty() { None } else { self.users.get(&key(token)) }
    }
}

fn key(token: &str) -> Vec<u8> {
    digest(&SHA256, token.as_bytes()).as_ref().to_vec()
}

/// The fields of a line of CSV; a quote inside a quoted field is doubled.
fn fields(line: &str) -> Option<Vec<String>> {
    let (mut fields, mut field, mut quoted) = (Vec::new(), String::new(), false);
    let mut letters = line.trim_end_matches('\r').chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '"' if quoted && letters.peek() == Some(&'"') => {
                letters.next();
                field.push('"');
            }
            '"' => quoted = !quoted,
            ',' if !quoted => fields.push(std::mem::take(&mut field).trim().to_owned()),
            _ => field.push(letter),
        }
    }
    fields.push(field.trim().to_owned());
    (!quoted).then_some(fields)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines() {
        let text = "t1,ann,1\n\n t2 ,bob,2,\"dev,ops\"\r\nt3,\"c,\"\"d\",3,admin\n,nobody,4\nt1,eve,5\n";
        let tokens = StaticTokens::parse(text).unwrap();
        let user = |token: &str| tokens.user(token).map(|user| (user.name.as_str(), user.groups.join("+")));
        assert_eq!(user("t1"), Some(("eve", "system:authenticated".into())));
        assert_eq!(user("t2"), Some(("bob", "dev+ops+system:authenticated".into())));
        assert_eq!(user("t3"), Some(("c,\"d", "admin+system:authenticated".into())));
        assert_eq!((user(""), user("t4")), (None, None));
    }

    #[test]
    fn broken_lines() {
        assert_eq!(StaticTokens::parse("a,b,c\nt,u").err().unwrap().0, 2);
        assert_eq!(StaticTokens::parse("t,u,\"v").err().unwrap().1, "a quote is not closed");
    }
}
