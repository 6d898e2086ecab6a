//! The table.

use super::{Row, cells, defaults, errors};
use crate::kinds::DeleteReply::Object;
use crate::kinds::{Names, column};

const fn names(
    plural: &'static str,
    singular: &'static str,
    short: &'static [&'static str],
    categories: &'static [&'static str],
) -> Names {
    Names { plural, singular, short, categories }
}

const DEVICES: (&str, &str) = ("resource.k8s.io", "v1");

pub const ROWS: &[Row] = &[
    Row {
        create_on_update: true,
        defaults: defaults::endpoints,
        errors: errors::endpoints,
        columns: &[column::NAME, column::text("Endpoints", "Addresses behind the service."), column::AGE],
        cells: cells::endpoints,
        ..Row::new("", "v1", "Endpoints", names("endpoints", "endpoints", &["ep"], &[]))
    },
    Row {
        create_on_update: true,
        defaults: defaults::limit_range,
        ..Row::new("", "v1", "LimitRange", names("limitranges", "limitrange", &["limits"], &[]))
    },
    Row {
        status: true,
        delete_reply: Object,
        columns: &[
            column::NAME,
            column::text("Request", "What is asked for, of what may be."),
            column::text("Limit", "What is allowed to be used, of what may be."),
            column::AGE,
        ],
        cells: cells::quota,
        ..Row::new("", "v1", "ResourceQuota", names("resourcequotas", "resourcequota", &["quota"], &[]))
    },
    Row {
        errors: errors::revision,
        fixed: &["data"],
        columns: &[
            column::NAME,
            column::text("Controller", "Whose revision it is."),
            column::text("Revision", "Number of the revision."),
            column::AGE,
        ],
        cells: cells::revision,
        ..Row::new(
            "apps",
            "v1",
            "ControllerRevision",
            names("controllerrevisions", "controllerrevision", &[], &[]),
        )
    },
    Row {
        status: true,
        defaults: defaults::autoscaler,
        columns: &[
            column::NAME,
            column::text("Reference", "What is scaled."),
            column::text("Targets", "What is measured, and how much of it is aimed at."),
            column::text("MinPods", "Fewest pods."),
            column::text("MaxPods", "Most pods."),
            column::text("Replicas", "Pods there are."),
            column::AGE,
        ],
        cells: cells::autoscaler,
        ..Row::new(
            "autoscaling",
            "v2",
            "HorizontalPodAutoscaler",
            names("horizontalpodautoscalers", "horizontalpodautoscaler", &["hpa"], &["all"]),
        )
    },
    Row {
        generation: true,
        fixed: &["addressType"],
        defaults: defaults::endpoint_slice,
        columns: &[
            column::NAME,
            column::text("AddressType", "What kind of addresses it lists."),
            column::text("Ports", "Ports of the endpoints."),
            column::text("Endpoints", "Addresses."),
            column::AGE,
        ],
        cells: cells::endpoint_slice,
        ..Row::new(
            "discovery.k8s.io",
            "v1",
            "EndpointSlice",
            names("endpointslices", "endpointslice", &[], &[]),
        )
    },
    Row {
        namespaced: false,
        create_on_update: true,
        unconditional_update: false,
        errors: errors::runtime_class,
        fixed: &["handler"],
        columns: &[column::NAME, column::text("Handler", "Configuration of the runtime."), column::AGE],
        cells: cells::runtime_class,
        ..Row::new("node.k8s.io", "v1", "RuntimeClass", names("runtimeclasses", "runtimeclass", &[], &[]))
    },
    Row {
        namespaced: false,
        generation: true,
        delete_reply: Object,
        columns: &[column::NAME, column::AGE],
        cells: cells::name_and_age,
        ..Row::new(DEVICES.0, DEVICES.1, "DeviceClass", names("deviceclasses", "deviceclass", &[], &[]))
    },
    Row {
        status: true,
        delete_reply: Object,
        fixed: &["spec"],
        defaults: defaults::resource_claim,
        columns: &[column::NAME, column::text("State", "How far the claim is."), column::AGE],
        cells: cells::resource_claim,
        ..Row::new(DEVICES.0, DEVICES.1, "ResourceClaim", names("resourceclaims", "resourceclaim", &[], &[]))
    },
    Row {
        delete_reply: Object,
        fixed: &["spec"],
        defaults: defaults::resource_claim_template,
        columns: &[column::NAME, column::AGE],
        cells: cells::name_and_age,
        ..Row::new(
            DEVICES.0,
            DEVICES.1,
            "ResourceClaimTemplate",
            names("resourceclaimtemplates", "resourceclaimtemplate", &[], &[]),
        )
    },
    Row {
        namespaced: false,
        generation: true,
        delete_reply: Object,
        field_labels: &["spec.nodeName", "spec.driver"],
        columns: &[
            column::NAME,
            column::text("Node", "Where the devices are."),
            column::text("Driver", "Who offers them."),
            column::text("Pool", "Which of the driver's pools they are in."),
            column::AGE,
        ],
        cells: cells::resource_slice,
        ..Row::new(DEVICES.0, DEVICES.1, "ResourceSlice", names("resourceslices", "resourceslice", &[], &[]))
    },
];
