//! The kinds of reviews: nothing but names, for decoding and discovery.

use k8s_openapi::api::authentication::v1::{SelfSubjectReview, TokenReview};
use k8s_openapi::api::authorization::v1::{
    LocalSubjectAccessReview, SelfSubjectAccessReview, SelfSubjectRulesReview, SubjectAccessReview,
};
use serde_json::Value;

use crate::field::Invalid;
use crate::kinds::{Column, Names, Rules, column};
use crate::registry::Registry;

const COLUMNS: &[Column] = &[column::NAME];

macro_rules! review {
    ($rules:ident, $object:ty, $plural:literal, $singular:literal, $namespaced:literal) => {
        struct $rules;
        impl Rules for $rules {
            type Object = $object;
            const NAMES: Names = Names { plural: $plural, singular: $singular, short: &[], categories: &[] };
            const NAMESPACED: bool = $namespaced;
            const VERBS: &'static [&'static str] = &["create"];
            fn validate(_: &Self::Object) -> Vec<Invalid> {
                Vec::new()
            }
            fn columns() -> &'static [Column] {
                COLUMNS
            }
            fn cells(_: &Self::Object, _: jiff::Timestamp) -> Vec<Value> {
                vec!["".into()]
            }
        }
    };
}

review!(TokenReviews, TokenReview, "tokenreviews", "tokenreview", false);
review!(SelfReviews, SelfSubjectReview, "selfsubjectreviews", "selfsubjectreview", false);
review!(AccessReviews, SubjectAccessReview, "subjectaccessreviews", "subjectaccessreview", false);
review!(
    LocalReviews,
    LocalSubjectAccessReview,
    "localsubjectaccessreviews",
    "localsubjectaccessreview",
    true
);
review!(
    SelfAccessReviews,
    SelfSubjectAccessReview,
    "selfsubjectaccessreviews",
    "selfsubjectaccessreview",
    false
);
review!(SelfRulesReviews, SelfSubjectRulesReview, "selfsubjectrulesreviews", "selfsubjectrulesreview", false);

pub fn register(registry: &mut Registry) {
    registry.add::<TokenReviews>();
    registry.add::<SelfReviews>();
    registry.add::<AccessReviews>();
    registry.add::<LocalReviews>();
    registry.add::<SelfAccessReviews>();
    registry.add::<SelfRulesReviews>();
}
