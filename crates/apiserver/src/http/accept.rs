//! The `Accept` header: which of three forms, in JSON or protobuf.

use std::cmp::Reverse;

use crate::protobuf;
use crate::status::Status;

/// What an answer looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    Object,
    /// Rows for printing.
    Table,
    /// Only metadata.
    Partial,
}

/// How an answer is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    Json,
    Protobuf,
}

/// The media types a refusal names.
const SERVED: [&str; 2] = ["application/json", protobuf::MEDIA_TYPE];
const ANYTHING: &str = "*/*";

/// One entry of the header.
pub struct MediaType<'a> {
    pub essence: &'a str,
    parameters: Vec<(&'a str, &'a str)>,
}

impl<'a> MediaType<'a> {
    pub fn parse(text: &'a str) -> Self {
        let mut parts = text.split(';').map(str::trim);
        let essence = parts.next().unwrap_or_default();
        let parameters = parts.filter_map(|part| part.split_once('=')).collect();
        Self { essence, parameters }
    }

    pub fn parameter(&self, name: &str) -> &'a str {
        self.parameters.iter().find(|(known, _)| *known == name).map_or("", |(_, value)| value)
    }

    pub fn is_json(&self) -> bool {
        matches!(self.essence, "application/json" | "application/*" | ANYTHING)
    }

    /// How much the client wants it, in thousandths. What cannot be read counts as fully wanted.
    fn weight(&self) -> u16 {
        let weight: f32 = self.parameter("q").parse().unwrap_or(1.0);
        (weight.clamp(0.0, 1.0) * 1000.0) as u16
    }

    fn wildcards(&self) -> usize {
        self.essence.matches('*').count()
    }
}

/// All entries, in the client's order.
pub fn media_types(header: &str) -> impl Iterator<Item = MediaType<'_>> {
    header.split(',').map(str::trim).filter(|entry| !entry.is_empty()).map(MediaType::parse)
}

/// All entries, the most wanted first; of equals the more exact, then the earlier one.
pub fn preferred(header: &str) -> Vec<MediaType<'_>> {
    let mut all: Vec<MediaType<'_>> = media_types(header).collect();
    if all.len() > 1 {
        all.sort_by_key(|media| (Reverse(media.weight()), media.wildcards()));
    }
    all
}

/// The client takes nothing of what there is.
pub fn refusal() -> Status {
    Status::not_acceptable(&SERVED)
}

/// The form the client wants most that is served here. `binary` says whether the kind travels as protobuf.
pub fn form(header: Option<&str>, binary: bool) -> Result<(Form, Encoding), Status> {
    let header = header.map(str::trim).filter(|text| !text.is_empty()).unwrap_or(ANYTHING);
    let all = preferred(header);
    // Upstream's router looks first, and knows no half wildcards.
    if !all.iter().any(|media| media.essence == ANYTHING || SERVED.contains(&media.essence)) {
        return Err(Status::no_representation(&SERVED));
    }
    let served = all.into_iter().find_map(|media| {
        let encoding = match media.essence {
            protobuf::MEDIA_TYPE if binary => Encoding::Protobuf,
            _ if media.is_json() => Encoding::Json,
            _ => return None,
        };
        let meta = (media.parameter("g"), media.parameter("v")) == ("meta.k8s.io", "v1");
        let form = match (media.parameter("as"), encoding) {
            ("", _) => Form::Object,
            // Rows are made of JSON.
            ("Table", Encoding::Json) if meta => Form::Table,
            ("PartialObjectMetadata" | "PartialObjectMetadataList", _) if meta => Form::Partial,
            _ => return None,
        };
        Some((form, encoding))
    });
    served.ok_or_else(refusal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table() {
        let kubectl = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";
        let binary = "application/vnd.kubernetes.protobuf";
        let both = "application/vnd.kubernetes.protobuf,application/json";
        let partial = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
        let weighed = "application/json;q=0.1,application/vnd.kubernetes.protobuf;q=0.5";
        let json = |form| Some((form, Encoding::Json));
        let proto = Some((Form::Object, Encoding::Protobuf));
        let cases = [
            (None, true, json(Form::Object)),
            (Some("*/*"), true, json(Form::Object)),
            (Some(""), true, json(Form::Object)),
            (Some("application/json"), true, json(Form::Object)),
            (Some("application/json;stream=watch"), true, json(Form::Object)),
            (Some("application/json;q=0"), true, json(Form::Object)),
            (Some("text/html, application/xhtml+xml, */*;q=0.1"), true, json(Form::Object)),
            (Some(kubectl), true, json(Form::Table)),
            (
                Some("application/json;as=Table;v=v9;g=meta.k8s.io, application/json"),
                true,
                json(Form::Object),
            ),
            (Some(partial), true, json(Form::Partial)),
            (Some(both), true, proto),
            (Some(both), false, json(Form::Object)),
            (Some(weighed), true, proto),
            (Some("*/*, application/vnd.kubernetes.protobuf"), true, proto),
            (Some(binary), true, proto),
            (Some(binary), false, None),
            (Some("application/*"), true, None),
            (Some("garbage"), true, None),
            (Some("application/json;as=Chart;g=meta.k8s.io;v=v1"), true, None),
        ];
        for (header, binary, want) in cases {
            assert_eq!(form(header, binary).ok(), want, "{header:?}");
        }
    }

    #[test]
    fn refusals_are_worded_by_whoever_refuses() {
        let router = form(Some("application/xml"), true).unwrap_err();
        assert!(
            router.message.starts_with("406: Not Acceptable\n\nAvailable representations: application/json")
        );
        let negotiation = form(Some("application/json;as=Chart"), true).unwrap_err();
        assert!(
            negotiation.message.starts_with("only the following media types are accepted: application/json")
        );
        assert_eq!(negotiation.to_json().get("details"), None);
    }
}
