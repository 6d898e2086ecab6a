//! What makes a struct a kind: the names under which it is served, and `apiVersion` and `kind` in what is sent.

/// `kind!(Type, GROUP, API_VERSION, "version", "plural", Namespace|Cluster, [fields], [optional fields])`.
macro_rules! kind {
    (@scope Namespace) => { k8s_openapi::NamespaceResourceScope };
    (@scope Cluster) => { k8s_openapi::ClusterResourceScope };
    ($type:ident, $group:expr, $api_version:expr, $version:literal, $plural:literal, $scope:ident,
     [$($field:ident),*], [$($optional:ident),*]) => {
        impl k8s_openapi::Resource for $type {
            const API_VERSION: &'static str = $api_version;
            const GROUP: &'static str = $group;
            const KIND: &'static str = stringify!($type);
            const VERSION: &'static str = $version;
            const URL_PATH_SEGMENT: &'static str = $plural;
            type Scope = kind!(@scope $scope);
        }

        impl k8s_openapi::Metadata for $type {
            type Ty = ObjectMeta;
            fn metadata(&self) -> &ObjectMeta {
                &self.metadata
            }
            fn metadata_mut(&mut self) -> &mut ObjectMeta {
                &mut self.metadata
            }
        }

        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                use serde::ser::SerializeMap;
                let mut map = serializer.serialize_map(None)?;
                map.serialize_entry("apiVersion", $api_version)?;
                map.serialize_entry("kind", stringify!($type))?;
                map.serialize_entry("metadata", &self.metadata)?;
                $(map.serialize_entry(&crate::snapshot::kind::camel(stringify!($field)), &self.$field)?;)*
                $(if let Some(value) = &self.$optional {
                    map.serialize_entry(&crate::snapshot::kind::camel(stringify!($optional)), value)?;
                })*
                map.end()
            }
        }
    };
}
pub(super) use kind;

/// `deletion_policy` as the wire spells it.
pub(super) fn camel(field: &str) -> String {
    let mut text = String::with_capacity(field.len());
    for (number, word) in field.split('_').enumerate() {
        let (first, rest) = word.split_at(word.len().min(1));
        if number == 0 {
            text.push_str(first)
        } else {
            text.push_str(&first.to_uppercase())
        }
        text.push_str(rest);
    }
    text
}
