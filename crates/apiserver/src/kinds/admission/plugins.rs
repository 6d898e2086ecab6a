//! The decisions as admission plugins.

use bowline_api::{PersistentVolumeClaim, StorageClass};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{
    protect_attributes_class, protect_claim, protect_volume, resize_refusal, set_default_class,
    set_service_account, tolerate_lost_nodes,
};
use crate::admission::{Admission, AdmissionRequest, Lister, Operation};
use crate::status::{Resource, Status};

const CLAIMS: &str = "persistentvolumeclaims";
const CLASSES: (&str, &str) = ("storage.k8s.io", "storageclasses");

pub struct ServiceAccounts;
pub struct DefaultTolerations;
pub struct DefaultClass;
pub struct StorageProtection;
pub struct ClaimResize;

/// Runs a decision on the typed object.
fn change<T: Serialize + DeserializeOwned>(
    object: &mut Value,
    decision: impl FnOnce(&mut T),
) -> Result<(), Status> {
    let mut typed: T = typed(object)?;
    decision(&mut typed);
    *object = serde_json::to_value(typed).map_err(Status::internal)?;
    Ok(())
}

fn typed<T: DeserializeOwned>(object: &Value) -> Result<T, Status> {
    T::deserialize(object).map_err(|error| Status::bad_request(error.to_string()))
}

fn creates(request: &AdmissionRequest<'_>, plural: &str) -> bool {
    creates_in(request, "", plural)
}

fn creates_in(request: &AdmissionRequest<'_>, group: &str, plural: &str) -> bool {
    request.operation == Operation::Create && request.is(group, plural)
}

impl Admission for ServiceAccounts {
    fn admit(
        &self,
        request: &AdmissionRequest<'_>,
        object: &mut Value,
        _: &dyn Lister,
    ) -> Result<(), Status> {
        if creates(request, "pods") { change(object, set_service_account) } else { Ok(()) }
    }
}

impl Admission for DefaultTolerations {
    /// On update as well: a client may not drop them by leaving them out.
    fn admit(
        &self,
        request: &AdmissionRequest<'_>,
        object: &mut Value,
        _: &dyn Lister,
    ) -> Result<(), Status> {
        if request.is("", "pods") { change(object, tolerate_lost_nodes) } else { Ok(()) }
    }
}

impl Admission for DefaultClass {
    fn admit(
        &self,
        request: &AdmissionRequest<'_>,
        object: &mut Value,
        lister: &dyn Lister,
    ) -> Result<(), Status> {
        if !creates(request, CLAIMS) {
            return Ok(());
        }
        let listed = lister.list(CLASSES.0, CLASSES.1);
        let classes: Vec<StorageClass> = listed.iter().map(typed).collect::<Result<_, _>>()?;
        change(object, |claim| set_default_class(claim, &classes))
    }
}

impl Admission for StorageProtection {
    fn admit(
        &self,
        request: &AdmissionRequest<'_>,
        object: &mut Value,
        _: &dyn Lister,
    ) -> Result<(), Status> {
        if creates(request, CLAIMS) {
            change(object, protect_claim)
        } else if creates(request, "persistentvolumes") {
            change(object, protect_volume)
        } else if creates_in(request, "storage.k8s.io", "volumeattributesclasses") {
            change(object, protect_attributes_class)
        } else {
            Ok(())
        }
    }
}

impl Admission for ClaimResize {
    fn validate(
        &self,
        request: &AdmissionRequest<'_>,
        object: &Value,
        lister: &dyn Lister,
    ) -> Result<(), Status> {
        let Some(old) = request.old.filter(|_| request.is("", CLAIMS)) else { return Ok(()) };
        let (new, old): (PersistentVolumeClaim, PersistentVolumeClaim) = (typed(object)?, typed(old)?);
        let class = |name: &str| typed(&lister.get(CLASSES.0, CLASSES.1, "", name)?).ok();
        let resource = Resource { group: request.group, plural: request.plural };
        match resize_refusal(&new, &old, class) {
            Some(why) => Err(Status::forbidden(resource, request.name, why)),
            None => Ok(()),
        }
    }
}
