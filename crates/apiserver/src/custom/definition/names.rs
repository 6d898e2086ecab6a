//! Names of a kind: what they may look like.

use bowline_api::name::label_1035_errors;

use super::Names;
use crate::field::Invalid;

/// Those that every definition has.
pub fn missing(names: &Names, path: &str) -> Vec<Invalid> {
    let required = [
        ("plural", &names.plural),
        ("singular", &names.singular),
        ("kind", &names.kind),
        ("listKind", &names.list_kind),
    ];
    let missing = required.into_iter().filter(|(_, name)| name.is_empty());
    missing.map(|(field, _)| Invalid::required(format!("{path}.{field}"), "")).collect()
}

pub fn errors(names: &Names, path: &str) -> Vec<Invalid> {
    const MIXED: &str = "may have mixed case, but should otherwise match: ";
    let check = |field: &str, name: &str, mixed: bool| {
        let wrong = label_1035_errors(&if mixed { name.to_lowercase() } else { name.to_owned() });
        if name.is_empty() || wrong.is_empty() {
            return None;
        }
        let prefix = if mixed { MIXED } else { "" };
        Some(Invalid::invalid(format!("{path}.{field}"), name, format!("{prefix}{}", wrong.join(","))))
    };
    let each = |field: &'static str, all: &[String]| -> Vec<Invalid> {
        let wrong = |name: &String| Some(label_1035_errors(name)).filter(|wrong| !wrong.is_empty());
        let found = all.iter().enumerate().filter_map(|(index, name)| Some((index, name, wrong(name)?)));
        found
            .map(|(index, name, wrong)| {
                Invalid::invalid(format!("{path}.{field}[{index}]"), name.as_str(), wrong.join(","))
            })
            .collect()
    };
    let mut errors: Vec<Invalid> = [
        check("plural", &names.plural, false),
        check("singular", &names.singular, false),
        check("kind", &names.kind, true),
        check("listKind", &names.list_kind, true),
    ]
    .into_iter()
    .flatten()
    .collect();
    errors.extend(each("shortNames", &names.short_names));
    if !names.kind.is_empty() && names.kind == names.list_kind {
        let why = "kind and listKind may not be the same";
        errors.push(Invalid::invalid(format!("{path}.listKind"), names.list_kind.as_str(), why));
    }
    errors.extend(each("categories", &names.categories));
    errors
}
