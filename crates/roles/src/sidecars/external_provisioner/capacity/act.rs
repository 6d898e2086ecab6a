//! One effect per action.

use bowline_api::{CSIStorageCapacity, keys, quantity_of};
use bowline_machinery::csi::{Classes, call};
use bowline_machinery::effect::{EffectError, Part};
use bowline_proto::csi::v1::{GetCapacityRequest, Topology};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};

use super::model::{Action, Key, Measured, Observed, Pair, Segment};
use super::role::CapacityPublisher;

impl CapacityPublisher {
    pub(super) async fn perform(&self, key: Key, action: Action, seen: Observed) -> Result<(), EffectError> {
        match (key, action, seen) {
            (_, Action::Delete(object), _) => self.effects.delete(object.as_ref(), None).await,
            (_, Action::Update(object), _) => {
                self.effects.replace(Part::Main, object.as_ref()).await.map(drop)
            }
            (Key::Pair { class, segment }, Action::Create(measured), _) => {
                self.create(class, segment, measured).await
            }
            (key @ Key::Pair { .. }, Action::Ask, Observed::Pair(seen)) => self.ask(key, &seen).await,
            (_, Action::Adopt, Observed::Topology { known, now }) => {
                self.segments.set(now.clone());
                let changed = known.symmetric_difference(&now).cloned();
                changed.for_each(|segment| self.refresh_segment(&segment));
                Ok(())
            }
            (key, action, _) => Err(EffectError::refused(format!("{action:?} does not belong to {key}"))),
        }
    }

    /// All parameters of the class are passed on, also those with the prefix that CreateVolume does not get.
    async fn ask(&self, key: Key, seen: &Pair) -> Result<(), EffectError> {
        let Key::Pair { segment, .. } = &key else { return Ok(()) };
        let parameters = seen.class.as_ref().and_then(|class| class.parameters.clone()).unwrap_or_default();
        let request = GetCapacityRequest {
            parameters,
            accessible_topology: Some(Topology { segments: segment.clone() }),
            ..GetCapacityRequest::default()
        };
        let at = self.ports.host.uptime.uptime();
        let send = |request| async move { self.driver.controller().get_capacity(request).await };
        let (rpc, object, classes) = ("GetCapacity", "driver", Classes::Provisioner);
        let answer = call(&self.effects, rpc, object, self.timeout, classes, request, send).await?;
        let measured =
            Measured { bytes: answer.available_capacity, largest_volume: answer.maximum_volume_size };
        self.answers.set(key, at, measured);
        Ok(())
    }

    async fn create(&self, class: String, segment: Segment, measured: Measured) -> Result<(), EffectError> {
        let settings = &self.settings;
        let labels = [
            (keys::CAPACITY_DRIVER.to_owned(), settings.driver.clone()),
            (keys::CAPACITY_MANAGED_BY.to_owned(), settings.managed_by.clone()),
        ];
        let metadata = ObjectMeta {
            generate_name: Some("csisc-".to_owned()),
            namespace: Some(settings.namespace.clone()),
            labels: Some(labels.into()),
            owner_references: settings.owner.clone().map(|owner| vec![owner]),
            ..ObjectMeta::default()
        };
        let match_labels = (!segment.is_empty()).then_some(segment);
        let object = CSIStorageCapacity {
            metadata,
            storage_class_name: class,
            node_topology: Some(LabelSelector { match_labels, match_expressions: None }),
            capacity: Some(quantity_of(measured.bytes)),
            maximum_volume_size: measured.largest_volume.map(quantity_of),
        };
        self.effects.create(&object).await.map(drop)
    }
}
