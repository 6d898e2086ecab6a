//! The `Accept` header: which of three forms, in JSON (which may go out as YAML) or protobuf.

use std::cmp::Reverse;

use super::yaml;
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
const SERVED: [&str; 3] = ["application/json", yaml::MEDIA_TYPE, protobuf::MEDIA_TYPE];
const STREAMS: [&str; 2] =
    ["application/json;stream=watch", "application/vnd.kubernetes.protobuf;stream=watch"];
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

/// What a client wants most of what is served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    Json,
    Yaml,
    Protobuf,
}

pub fn wanted(header: &str) -> Wanted {
    preferred(header).iter().find_map(known).unwrap_or(Wanted::Json)
}

/// The same for errors, which have one form only: entries that ask for another one do not count.
pub fn wanted_of_errors(header: &str) -> Wanted {
    let plain = |media: &&MediaType<'_>| media.parameter("as").is_empty();
    preferred(header).iter().filter(plain).find_map(known).unwrap_or(Wanted::Json)
}

fn known(media: &MediaType<'_>) -> Option<Wanted> {
    match media.essence {
        yaml::MEDIA_TYPE => Some(Wanted::Yaml),
        protobuf::MEDIA_TYPE => Some(Wanted::Protobuf),
        _ if media.is_json() => Some(Wanted::Json),
        _ => None,
    }
}

/// Events go out one by one, for which YAML has no form.
pub fn stream_refusal() -> Status {
    Status::not_acceptable(&STREAMS)
}

/// The client takes nothing of what there is.
pub fn refusal() -> Status {
    Status::not_acceptable(&SERVED)
}

/// What there is behind a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Offer {
    /// Built-in kinds travel as protobuf, too.
    BuiltIn,
    /// Lists of theirs can also be watched.
    BuiltInList,
    Custom,
}

/// The form the client wants most of what is offered.
pub fn form(header: Option<&str>, offer: Offer) -> Result<(Form, Encoding), Status> {
    let header = header.map(str::trim).filter(|text| !text.is_empty()).unwrap_or(ANYTHING);
    let all = preferred(header);
    // Upstream's router looks first, and knows neither half wildcards nor custom resources.
    if !all.iter().any(|media| media.essence == ANYTHING || SERVED.contains(&media.essence)) {
        match offer {
            Offer::BuiltIn => return Err(Status::no_representation(&SERVED)),
            Offer::BuiltInList => return Err(Status::no_representation(&[&SERVED[..], &STREAMS].concat())),
            Offer::Custom => {}
        }
    }
    let served = all.into_iter().find_map(|media| {
        let encoding = match media.essence {
            protobuf::MEDIA_TYPE if offer != Offer::Custom => Encoding::Protobuf,
            yaml::MEDIA_TYPE => Encoding::Json,
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
    fn what_is_wanted_most() {
        let cases = [
            ("", Wanted::Json),
            ("*/*", Wanted::Json),
            ("text/plain", Wanted::Json),
            ("application/yaml", Wanted::Yaml),
            ("application/json,application/yaml", Wanted::Json),
            ("application/json;q=0.1,application/yaml", Wanted::Yaml),
            ("application/vnd.kubernetes.protobuf,application/json", Wanted::Protobuf),
        ];
        for (header, want) in cases {
            assert_eq!((wanted(header), wanted_of_errors(header)), (want, want), "{header}");
        }
    }

    #[test]
    fn errors_have_one_form() {
        let cases = [
            ("application/yaml;as=Table;v=v1;g=meta.k8s.io", Wanted::Yaml, Wanted::Json),
            (
                "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
                Wanted::Protobuf,
                Wanted::Json,
            ),
            (
                "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;v=v1;g=meta.k8s.io,application/yaml",
                Wanted::Protobuf,
                Wanted::Yaml,
            ),
            ("application/vnd.kubernetes.protobuf;stream=watch", Wanted::Protobuf, Wanted::Protobuf),
        ];
        for (header, whole, errors) in cases {
            assert_eq!((wanted(header), wanted_of_errors(header)), (whole, errors), "{header}");
        }
    }

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
            (None, Offer::BuiltIn, json(Form::Object)),
            (Some("*/*"), Offer::BuiltIn, json(Form::Object)),
            (Some(""), Offer::BuiltIn, json(Form::Object)),
            (Some("application/json"), Offer::BuiltIn, json(Form::Object)),
            (Some("application/json;stream=watch"), Offer::BuiltIn, json(Form::Object)),
            (Some("application/json;q=0"), Offer::BuiltIn, json(Form::Object)),
            (Some("text/html, application/xhtml+xml, */*;q=0.1"), Offer::BuiltIn, json(Form::Object)),
            (Some(kubectl), Offer::BuiltIn, json(Form::Table)),
            (
                Some("application/json;as=Table;v=v9;g=meta.k8s.io, application/json"),
                Offer::BuiltIn,
                json(Form::Object),
            ),
            (Some(partial), Offer::BuiltIn, json(Form::Partial)),
            (Some(both), Offer::BuiltIn, proto),
            (Some(both), Offer::Custom, json(Form::Object)),
            (Some(weighed), Offer::BuiltIn, proto),
            (Some("*/*, application/vnd.kubernetes.protobuf"), Offer::BuiltIn, proto),
            (Some(binary), Offer::BuiltIn, proto),
            (Some(binary), Offer::Custom, None),
            (Some("application/*"), Offer::BuiltIn, None),
            (Some("application/*"), Offer::Custom, json(Form::Object)),
            (Some("garbage"), Offer::BuiltIn, None),
            (Some("application/json;as=Chart;g=meta.k8s.io;v=v1"), Offer::BuiltIn, None),
        ];
        for (header, offer, want) in cases {
            assert_eq!(form(header, offer).ok(), want, "{header:?}");
        }
    }

    #[test]
    fn refusals_are_worded_by_whoever_refuses() {
        let router = form(Some("application/xml"), Offer::BuiltIn).unwrap_err();
        assert!(
            router.message.starts_with("406: Not Acceptable\n\nAvailable representations: application/json")
        );
        let list = form(Some("application/xml"), Offer::BuiltInList).unwrap_err();
        assert!(list.message.ends_with(
            "application/vnd.kubernetes.protobuf, application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch"
        ));
        let custom = form(Some("application/xml"), Offer::Custom).unwrap_err();
        assert_eq!(custom, refusal());
        let negotiation = form(Some("application/json;as=Chart"), Offer::BuiltIn).unwrap_err();
        assert!(
            negotiation.message.starts_with("only the following media types are accepted: application/json")
        );
        assert_eq!(negotiation.to_json().get("details"), None);
    }
}
