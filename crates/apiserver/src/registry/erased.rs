//! Turns the typed [`Rules`] of a kind into calls on JSON, so that verbs need to know no kind.

use std::borrow::Cow;
use std::marker::PhantomData;

use bowline_api::span::without_record;
use jiff::Timestamp;
use k8s_openapi::Resource as _;
use k8s_openapi::schemars::{JsonSchema as _, SchemaGenerator};
use serde::Deserialize;
use serde_json::Value;

use super::info::{KindInfo, KindNames, Text};
use super::view::ViewKey;
use crate::custom::CustomKind;
use crate::field::{Invalid, Reason};
use crate::kinds::{Deletion, Dependents, Rules, StoredAs, warnings};
use crate::schema::{Accepted, Schema, TypeId};
use crate::status::Resource;

/// A body that passed its type.
pub struct Decoded {
    /// Defaulted, without unknown fields, with `apiVersion` and `kind`.
    pub object: Value,
    /// Paths of fields that were dropped.
    pub unknown: Vec<String>,
    /// Its defaults would make it larger than any object may be, and were not all filled in.
    pub oversized: bool,
}

/// An object ready to be stored, if there are no errors.
pub struct Prepared {
    pub object: Value,
    pub errors: Vec<Invalid>,
}

/// Which part of an object a write is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    Main,
    Status,
    /// The assignment of a pod to a node, which the server itself makes.
    Binding,
    /// Containers to look around with in a pod.
    EphemeralContainers,
    /// Sizes of the containers of a pod.
    Resize,
}

impl Part {
    /// As it stands in a path.
    pub fn subresource(self) -> &'static str {
        match self {
            Self::Main => "",
            Self::Status => "status",
            Self::Binding => "binding",
            Self::EphemeralContainers => "ephemeralcontainers",
            Self::Resize => "resize",
        }
    }

    /// The part that clients may read and change under a name in a path.
    pub fn named(subresource: &str) -> Option<Self> {
        [Self::EphemeralContainers, Self::Resize].into_iter().find(|part| part.subresource() == subresource)
    }

    /// Whether a change of this part is a change of what the object asks for.
    pub fn is_content(self) -> bool {
        matches!(self, Self::Main | Self::EphemeralContainers | Self::Resize)
    }
}

/// The rules of one kind on JSON. The error of a decoding step is its text.
pub trait Kind: Send + Sync + 'static {
    fn info(&self) -> &KindInfo;
    fn decode(&self, input: &Value) -> Result<Decoded, String>;
    fn prepare_create(&self, object: Value, now: Timestamp) -> Result<Prepared, String>;
    fn prepare_update(&self, new: Value, old: &Value, part: Part, now: Timestamp)
    -> Result<Prepared, String>;
    fn name_errors(&self, name: &str) -> Vec<String> {
        bowline_api::name::subdomain_errors(name)
    }
    fn deletion(&self, _object: &Value, _requested: Option<i64>) -> Result<Deletion, String> {
        Ok(Deletion::Now)
    }
    /// What becomes of what objects of this kind own, unless a deletion says otherwise.
    fn dependents(&self) -> Dependents {
        Dependents::Background
    }
    /// Why this object may not be deleted at all.
    fn delete_refusal(&self, _object: &Value) -> Result<Option<&'static str>, String> {
        Ok(None)
    }
    fn cells(&self, json: &[u8], now: Timestamp) -> Result<Vec<Value>, String>;
    fn field_labels(&self, json: &[u8]) -> Result<Vec<(Text, String)>, String>;

    /// The key of this kind's view of its table, if objects are stored in a form that differs from this kind's.
    /// Without a view objects are served as the bytes that are stored.
    fn view(&self) -> Option<&ViewKey> {
        None
    }
    /// From the stored form to this kind's.
    #[expect(clippy::wrong_self_convention, reason = "the object is converted, not the kind")]
    fn from_stored(&self, stored: Value) -> Value {
        stored
    }
    /// From this kind's form to the stored one.
    fn to_stored(&self, object: Value) -> Value {
        object
    }

    /// Adds the schema of the Rust type behind this kind, and all it refers to; returns its name in OpenAPI.
    fn describe(&self, _generator: &mut SchemaGenerator) -> Option<Text> {
        None
    }
    /// What is allowed in an object that a client sends, and still not a good idea. `old` is what it replaces, and the
    /// part of it that may change.
    fn warnings(&self, new: &Value, old: Option<(&Value, Part)>) -> Vec<String> {
        let resource = self.info().resource();
        match old {
            None => warnings::of(resource, new),
            Some((old, part)) => warnings::of_update(resource, part, old, new),
        }
    }
    /// How the end of an object is announced first, for kinds that have their own way.
    fn announce_end(&self, _object: &Value, _now: Timestamp) -> Option<Value> {
        None
    }
    /// This kind, if a client defined it.
    fn custom(&self) -> Option<&CustomKind> {
        None
    }
    /// The version in which objects of a kind that a client defined are stored; none for kinds of this build.
    fn storage_version(&self) -> Option<&str> {
        None
    }
    /// The OpenAPI v3 schema of a kind that a client defined: its documentation, and how its fields divide among managers.
    fn structural_schema(&self) -> Option<&Value> {
        None
    }
}

/// [`Kind`] for any [`Rules`].
pub struct Erased<R> {
    info: KindInfo,
    view: Option<(ViewKey, StoredAs)>,
    shape: Option<TypeId>,
    rules: PhantomData<fn() -> R>,
}

impl<R: Rules> Erased<R> {
    pub fn new() -> Self {
        let resource = Resource { group: R::Object::GROUP, plural: R::NAMES.plural };
        let texts = |all: &[&'static str]| all.iter().copied().map(Cow::Borrowed).collect::<Vec<Text>>();
        let view = R::stored_as().map(|view| (ViewKey::default(), view));
        let info = KindInfo {
            group: R::Object::GROUP.into(),
            version: R::Object::VERSION.into(),
            kind: R::Object::KIND.into(),
            api_version: R::Object::API_VERSION.into(),
            table: view.as_ref().map_or_else(|| resource.to_string().into(), |(_, view)| view.table.into()),
            names: KindNames {
                plural: R::NAMES.plural.into(),
                singular: R::NAMES.singular.into(),
                short: texts(R::NAMES.short),
                categories: texts(R::NAMES.categories),
            },
            namespaced: R::NAMESPACED,
            verbs: R::VERBS,
            status: R::STATUS,
            scale: R::scale(),
            subresources: R::SUBRESOURCES,
            unconditional_update: R::UNCONDITIONAL_UPDATE,
            create_on_update: R::CREATE_ON_UPDATE,
            generation: R::GENERATION,
            delete_reply: R::DELETE_REPLY,
            columns: Cow::Borrowed(R::columns()),
            field_labels: texts(R::FIELD_LABELS),
        };
        let shape = Schema::get().kind(&info.api_version, &info.kind);
        Self { info, view, shape, rules: PhantomData }
    }

    /// Every kind of this build is in the schema; a test looks.
    fn shape(&self) -> Result<TypeId, String> {
        self.shape.ok_or_else(|| format!("kind `{}` is not in the schema of this build", self.info.kind))
    }

    fn encode(object: &R::Object) -> Result<Value, String> {
        serde_json::to_value(object).map_err(|error| error.to_string())
    }

    /// What is stored, in upstream's notation.
    fn rendered(&self, object: &R::Object) -> Result<Value, String> {
        let mut value = Self::encode(object)?;
        Schema::get().render(self.shape()?, &mut value);
        Ok(value)
    }

    /// An object in which absent and empty are one wherever they are one to upstream, so that two of them compare.
    fn settled(&self, mut object: Value) -> Result<R::Object, String> {
        Schema::get().render(self.shape()?, &mut object);
        typed(&object)
    }
}

fn typed<'de, T: Deserialize<'de>>(value: &'de Value) -> Result<T, String> {
    T::deserialize(value).map_err(|error| error.to_string())
}

fn parsed<'de, T: Deserialize<'de>>(json: &'de [u8]) -> Result<T, String> {
    serde_json::from_slice(json).map_err(|error| error.to_string())
}

impl<R: Rules> Kind for Erased<R> {
    fn info(&self) -> &KindInfo {
        &self.info
    }

    fn decode(&self, input: &Value) -> Result<Decoded, String> {
        let Accepted { object, unknown } = Schema::get().accept(self.shape()?, input)?;
        let mut object: R::Object = typed(&object)?;
        R::default_fields(&mut object);
        Ok(Decoded { object: Self::encode(&object)?, unknown, oversized: false })
    }

    fn prepare_create(&self, object: Value, now: Timestamp) -> Result<Prepared, String> {
        let mut object: R::Object = typed(&object)?;
        R::prepare_create(&mut object, now);
        let mut errors = R::validate_new(&object);
        errors.extend(R::validate_create(&object));
        Ok(Prepared { errors, object: self.rendered(&object)? })
    }

    fn prepare_update(
        &self,
        new: Value,
        old: &Value,
        part: Part,
        now: Timestamp,
    ) -> Result<Prepared, String> {
        let (mut new, mut old) = (self.settled(new)?, self.settled(old.clone())?);
        // What was stored before a default came, or by somebody who has another one, did not change because of it.
        R::default_fields(&mut old);
        match part {
            Part::Main => R::prepare_update(&mut new, &old),
            Part::Status => R::prepare_status(&mut new, &old, now),
            Part::Binding => {}
            Part::EphemeralContainers | Part::Resize => R::prepare_part(&mut new, &old, part),
        }
        // What is looked at is what will be stored.
        let object = self.rendered(&new)?;
        let new: R::Object = typed(&object)?;
        let mut errors = match part {
            Part::Main => R::validate_change(&new, &old),
            Part::Status => R::validate_status(&new, &old),
            Part::Binding => Vec::new(),
            Part::EphemeralContainers | Part::Resize => R::validate_part(&new, &old, part),
        };
        // What a server no longer allows, but allowed when it was created, must not keep an object from changing and going.
        if errors.iter().any(|error| error.reason == Reason::Disallowed) {
            let stood = R::validate(&old);
            let alike = |a: &Invalid, b: &Invalid| a.reason == b.reason && a.field == b.field;
            let unchanged = |error: &Invalid| stood.iter().any(|before| alike(before, error));
            errors.retain(|error| error.reason != Reason::Disallowed || !unchanged(error));
        }
        Ok(Prepared { errors, object })
    }

    fn name_errors(&self, name: &str) -> Vec<String> {
        R::name_errors(name)
    }

    fn deletion(&self, object: &Value, requested: Option<i64>) -> Result<Deletion, String> {
        Ok(R::deletion(&typed(object)?, requested))
    }

    fn dependents(&self) -> Dependents {
        R::DEPENDENTS
    }

    fn delete_refusal(&self, object: &Value) -> Result<Option<&'static str>, String> {
        Ok(R::delete_refusal(&typed(object)?))
    }

    fn cells(&self, json: &[u8], now: Timestamp) -> Result<Vec<Value>, String> {
        Ok(R::cells(&parsed(&without_record(json))?, now))
    }

    fn field_labels(&self, json: &[u8]) -> Result<Vec<(Text, String)>, String> {
        let labels = R::field_labels(&parsed(&without_record(json))?);
        Ok(labels.into_iter().map(|(name, value)| (name.into(), value)).collect())
    }

    fn view(&self) -> Option<&ViewKey> {
        self.view.as_ref().map(|(key, _)| key)
    }

    fn from_stored(&self, stored: Value) -> Value {
        match &self.view {
            None => stored,
            Some((_, view)) => (view.read)(stored),
        }
    }

    fn to_stored(&self, object: Value) -> Value {
        match &self.view {
            None => object,
            Some((_, view)) => (view.write)(object),
        }
    }

    fn describe(&self, generator: &mut SchemaGenerator) -> Option<Text> {
        generator.subschema_for::<R::Object>();
        Some(R::Object::schema_name())
    }
}
