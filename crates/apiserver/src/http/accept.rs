//! The `Accept` header: which of three forms, in JSON or protobuf.

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
        matches!(self.essence, "application/json" | "application/*" | "*/*")
    }
}

/// All entries, in the client's order.
pub fn media_types(header: &str) -> impl Iterator<Item = MediaType<'_>> {
    header.split(',').map(str::trim).filter(|entry| !entry.is_empty()).map(MediaType::parse)
}

/// The first form the client lists that is served here. `binary` says whether the kind travels as protobuf.
pub fn form(header: Option<&str>, binary: bool) -> Result<(Form, Encoding), Status> {
    let header = header.map(str::trim).filter(|text| !text.is_empty()).unwrap_or("*/*");
    let served = media_types(header).find_map(|media| {
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
    served.ok_or_else(|| Status::not_acceptable(&SERVED))
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
        let json = |form| Some((form, Encoding::Json));
        let cases = [
            (None, true, json(Form::Object)),
            (Some("*/*"), true, json(Form::Object)),
            (Some("application/json"), true, json(Form::Object)),
            (Some("application/json;stream=watch"), true, json(Form::Object)),
            (Some(kubectl), true, json(Form::Table)),
            (
                Some("application/json;as=Table;v=v9;g=meta.k8s.io, application/json"),
                true,
                json(Form::Object),
            ),
            (Some(partial), true, json(Form::Partial)),
            (Some(both), true, Some((Form::Object, Encoding::Protobuf))),
            (Some(both), false, json(Form::Object)),
            (Some(binary), true, Some((Form::Object, Encoding::Protobuf))),
            (Some(binary), false, None),
            (Some("application/json;as=Chart;g=meta.k8s.io;v=v1"), true, None),
        ];
        for (header, binary, want) in cases {
            assert_eq!(form(header, binary).ok(), want, "{header:?}");
        }
    }
}
