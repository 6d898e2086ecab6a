//! The `Accept` header: JSON in one of three forms.

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

/// The media types a refusal names.
const SERVED: [&str; 1] = ["application/json"];

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

/// The first form the client lists that is served here.
pub fn form(header: Option<&str>) -> Result<Form, Status> {
    let header = header.map(str::trim).filter(|text| !text.is_empty()).unwrap_or("*/*");
    let served = media_types(header).filter(MediaType::is_json).find_map(|media| {
        let meta = (media.parameter("g"), media.parameter("v")) == ("meta.k8s.io", "v1");
        match media.parameter("as") {
            "" => Some(Form::Object),
            "Table" if meta => Some(Form::Table),
            "PartialObjectMetadata" | "PartialObjectMetadataList" if meta => Some(Form::Partial),
            _ => None,
        }
    });
    served.ok_or_else(|| Status::not_acceptable(&SERVED))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table() {
        let kubectl = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";
        let cases = [
            (None, Some(Form::Object)),
            (Some("*/*"), Some(Form::Object)),
            (Some("application/json"), Some(Form::Object)),
            (Some("application/json;stream=watch"), Some(Form::Object)),
            (Some(kubectl), Some(Form::Table)),
            (Some("application/json;as=Table;v=v9;g=meta.k8s.io, application/json"), Some(Form::Object)),
            (Some("application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"), Some(Form::Partial)),
            (Some("application/vnd.kubernetes.protobuf,application/json"), Some(Form::Object)),
            (Some("application/vnd.kubernetes.protobuf"), None),
            (Some("application/json;as=Chart;g=meta.k8s.io;v=v1"), None),
        ];
        for (header, want) in cases {
            assert_eq!(form(header).ok(), want, "{header:?}");
        }
    }
}
