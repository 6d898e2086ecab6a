//! What a list or a watch may ask for, judged before anything is read.

use crate::field::Invalid;
use crate::http::query::Query;
use crate::status::Status;

const MATCH: &str = "resourceVersionMatch";
const EXACT: &str = "Exact";
const NOT_OLDER_THAN: &str = "NotOlderThan";
const INITIAL: &str = "sendInitialEvents";

pub fn check_list(query: &Query) -> Result<(), Status> {
    check_numbers(query)?;
    let mut errors = Vec::new();
    let (wanted, version) = (query.get(MATCH), query.get("resourceVersion"));
    if !wanted.is_empty() {
        if version.is_empty() {
            let why = "resourceVersionMatch is forbidden unless resourceVersion is provided";
            errors.push(Invalid::forbidden(MATCH, why));
        }
        errors.extend(continued(query));
        match wanted {
            EXACT if version == "0" => {
                let why = r#"resourceVersionMatch "exact" is forbidden for resourceVersion "0""#;
                errors.push(Invalid::forbidden(MATCH, why));
            }
            EXACT | NOT_OLDER_THAN => {}
            other => errors.push(unsupported(other, &[EXACT, NOT_OLDER_THAN, ""])),
        }
    }
    if query.has(INITIAL) {
        errors.push(Invalid::forbidden(INITIAL, "sendInitialEvents is forbidden for list"));
    }
    judged(&errors)
}

pub fn check_watch(query: &Query) -> Result<(), Status> {
    check_numbers(query)?;
    let mut errors = Vec::new();
    let wanted = query.get(MATCH);
    if query.has(INITIAL) && wanted != NOT_OLDER_THAN {
        let why = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
        errors.push(Invalid::forbidden(MATCH, why));
    }
    if !wanted.is_empty() {
        if !query.has(INITIAL) {
            let why = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
            errors.push(Invalid::forbidden(MATCH, why));
        }
        if wanted != NOT_OLDER_THAN {
            errors.push(unsupported(wanted, &[NOT_OLDER_THAN]));
        }
    }
    errors.extend(continued(query));
    judged(&errors)
}

/// Also those that only the other verb uses.
fn check_numbers(query: &Query) -> Result<(), Status> {
    ["limit", "timeoutSeconds"].iter().try_for_each(|name| query.count(name).map(drop))
}

fn continued(query: &Query) -> Option<Invalid> {
    let why = "resourceVersionMatch is forbidden when continue is provided";
    (!query.get("continue").is_empty()).then(|| Invalid::forbidden(MATCH, why))
}

/// Upstream lists these in its own order.
fn unsupported(found: &str, supported: &[&str]) -> Invalid {
    let quoted: Vec<String> = supported.iter().map(|value| format!("{value:?}")).collect();
    let detail = format!("supported values: {}", quoted.join(", "));
    Invalid { detail, ..Invalid::not_supported(MATCH, found, &[]) }
}

fn judged(errors: &[Invalid]) -> Result<(), Status> {
    match errors {
        [] => Ok(()),
        _ => Err(Status::invalid("meta.k8s.io", "ListOptions", "", errors)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(query: &str) -> Result<(), String> {
        check_list(&Query::parse(query)).map_err(|status| status.message)
    }

    fn watch(query: &str) -> Result<(), String> {
        check_watch(&Query::parse(query)).map_err(|status| status.message)
    }

    /// As upstream's server answered.
    #[test]
    fn what_goes_together() {
        let invalid = |why: &str| Err(format!("ListOptions.meta.k8s.io \"\" is invalid: {why}"));
        assert_eq!(list("resourceVersion=5&resourceVersionMatch=Exact"), Ok(()));
        let unless = "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided";
        assert_eq!(list("resourceVersionMatch=Exact"), invalid(unless));
        let zero = "resourceVersionMatch: Forbidden: resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"";
        assert_eq!(list("resourceVersion=0&resourceVersionMatch=Exact"), invalid(zero));
        let sideways = "resourceVersionMatch: Unsupported value: \"Sideways\": supported values: \"Exact\", \"NotOlderThan\", \"\"";
        assert_eq!(list("resourceVersion=5&resourceVersionMatch=Sideways"), invalid(sideways));
        let initial = "sendInitialEvents: Forbidden: sendInitialEvents is forbidden for list";
        assert_eq!(list("sendInitialEvents=true"), invalid(initial));

        let number = Err("strconv.ParseInt: parsing \"x\": invalid syntax".to_owned());
        assert_eq!((list("timeoutSeconds=x"), watch("limit=x")), (number.clone(), number));

        assert_eq!(watch("sendInitialEvents=true&resourceVersionMatch=NotOlderThan"), Ok(()));
        let continued =
            "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden when continue is provided";
        assert_eq!(watch("continue=x"), invalid(continued));
        let requires = "resourceVersionMatch: Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
        assert_eq!(watch("sendInitialEvents=true"), invalid(requires));
        let unless = "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
        assert_eq!(watch("resourceVersionMatch=NotOlderThan&resourceVersion=5"), invalid(unless));
    }
}
