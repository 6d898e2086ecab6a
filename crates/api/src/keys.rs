//! Annotations, finalizers, labels and taints: each string of upstream's exactly once in the tree.

/// On a claim: the link to its volume is complete. Presence counts, not the value.
pub const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
/// On a claim or volume: the controller made the link, not the user.
pub const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";
/// Value of the two annotations above.
pub const YES: &str = "yes";
/// On a volume: the provisioner that made it.
pub const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";
/// On a volume or claim of an in-tree plugin: the CSI driver that took over.
pub const MIGRATED_TO: &str = "pv.kubernetes.io/migrated-to";
/// On a claim: the provisioner that is asked for a volume.
pub const STORAGE_PROVISIONER: &str = "volume.kubernetes.io/storage-provisioner";
/// The same, as older provisioners read it.
pub const STORAGE_PROVISIONER_BETA: &str = "volume.beta.kubernetes.io/storage-provisioner";
/// On a claim: the node that the scheduler chose for a `WaitForFirstConsumer` claim.
pub const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
/// Class of a claim or volume, before the field existed; wins over the field.
pub const STORAGE_CLASS_BETA: &str = "volume.beta.kubernetes.io/storage-class";
/// On a class: claims that name no class get this one.
pub const DEFAULT_CLASS: &str = "storageclass.kubernetes.io/is-default-class";
/// The same, as older versions spell it.
pub const DEFAULT_CLASS_BETA: &str = "storageclass.beta.kubernetes.io/is-default-class";
/// On a volume: the secret that DeleteVolume needs; empty means none.
pub const DELETION_SECRET_NAME: &str = "volume.kubernetes.io/provisioner-deletion-secret-name";
pub const DELETION_SECRET_NAMESPACE: &str = "volume.kubernetes.io/provisioner-deletion-secret-namespace";
/// In volumeAttributes of a provisioned volume: which provisioner process made it.
pub const PROVISIONER_IDENTITY: &str = "storage.kubernetes.io/csiProvisionerIdentity";
/// Label and annotation of a Lease in the provisioner's namespace: of which driver, and which, CreateVolume it stores.
pub const CREATE_VOLUME: &str = "csi.bowline.dev/create-volume";
/// On a VolumeAttachment: the driver's name for the node, kept for when the CSINode is gone.
pub const ATTACHMENT_NODE_ID: &str = "csi.alpha.kubernetes.io/node-id";
/// On a VolumeAttachment: the driver's name for the volume, kept for when the PersistentVolume is gone.
pub const ATTACHMENT_VOLUME_HANDLE: &str = "csi.bowline.dev/volume-handle";
/// On a node: JSON map of driver to node id.
pub const CSI_NODE_ID: &str = "csi.volume.kubernetes.io/nodeid";
/// On a node: attach and detach are the controller's job.
pub const CONTROLLER_MANAGED_ATTACH: &str = "volumes.kubernetes.io/controller-managed-attach-detach";
/// On a CSINode: in-tree plugins that CSI has replaced.
pub const MIGRATED_PLUGINS: &str = "storage.alpha.kubernetes.io/migrated-plugins";

/// On a volume: mount options, before the field existed.
pub const MOUNT_OPTIONS_BETA: &str = "volume.beta.kubernetes.io/mount-options";
/// On a token secret: the account it belongs to.
pub const SERVICE_ACCOUNT_NAME: &str = "kubernetes.io/service-account.name";

/// On any object: what client-side apply sent last.
pub const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// On a service account: its pods may only mount secrets that it names.
pub const ENFORCE_SECRETS: &str = "kubernetes.io/enforce-mountable-secrets";
/// The ConfigMap of each namespace with the certificate of the API server's authority.
pub const ROOT_CA_MAP: &str = "kube-root-ca.crt";
/// On a daemon set: how many templates it has had.
pub const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

/// Labels of a job's pods: its name and its UID, under their names of today and of before labels had prefixes.
pub const JOB_NAME: &str = "batch.kubernetes.io/job-name";
pub const JOB_NAME_BARE: &str = "job-name";
pub const CONTROLLER_UID: &str = "batch.kubernetes.io/controller-uid";
pub const CONTROLLER_UID_BARE: &str = "controller-uid";

/// In `spec.finalizers` of a namespace: its content is still there.
pub const NAMESPACE_FINALIZER: &str = "kubernetes";
/// Keeps an object until its dependents have lost their references to it.
pub const ORPHAN_DEPENDENTS: &str = "orphan";
/// Keeps an object until the dependents that block it are gone.
pub const FOREGROUND_DELETION: &str = "foregroundDeletion";
/// Keeps a claim while pods use it.
pub const PVC_PROTECTION: &str = "kubernetes.io/pvc-protection";
/// Keeps a volume while it is bound.
pub const PV_PROTECTION: &str = "kubernetes.io/pv-protection";
/// Keeps an attributes class while volumes and claims name it.
pub const VAC_PROTECTION: &str = "kubernetes.io/vac-protection";
/// Keeps a volume object until the backend volume is deleted.
pub const PROVISIONER_FINALIZER: &str = "external-provisioner.volume.kubernetes.io/finalizer";
/// Keeps a claim while its volume is being cloned.
pub const CLONING_PROTECTION: &str = "provisioner.storage.kubernetes.io/cloning-protection";
/// Keeps a snapshot while a volume is being restored from it.
pub const RESTORE_PROTECTION: &str = "provisioner.storage.kubernetes.io/volumesnapshot-as-source-protection";
/// Prefix of the attacher's finalizer on volumes and attachments; the sanitised driver name follows.
pub const ATTACHER_FINALIZER_PREFIX: &str = "external-attacher/";

/// Keeps a volume of an in-tree plugin until the controller has deleted the backend volume.
pub const PV_CONTROLLER_FINALIZER: &str = "kubernetes.io/pv-controller";
/// On a volume: its size before an offline expansion began; the claim's status shows this one.
pub const PRE_RESIZE_CAPACITY: &str = "volume.alpha.kubernetes.io/pre-resize-capacity";

/// On a claim of an in-tree plugin: the CSI driver that expands it.
pub const STORAGE_RESIZER: &str = "volume.kubernetes.io/storage-resizer";
/// On a claim: the last expansion was complete without the node.
pub const NODE_EXPANSION_NOT_REQUIRED: &str = "volume.kubernetes.io/node-expansion-not-required";

/// In-tree plugins and the CSI drivers that took over: all of them have.
pub const MIGRATED: [(&str, &str); 7] = [
    ("kubernetes.io/aws-ebs", "ebs.csi.aws.com"),
    ("kubernetes.io/gce-pd", "pd.csi.storage.gke.io"),
    ("kubernetes.io/azure-disk", "disk.csi.azure.com"),
    ("kubernetes.io/azure-file", "file.csi.azure.com"),
    ("kubernetes.io/cinder", "cinder.csi.openstack.org"),
    ("kubernetes.io/vsphere-volume", "csi.vsphere.vmware.com"),
    ("kubernetes.io/portworx-volume", "pxd.portworx.com"),
];

pub const HOSTNAME_LABEL: &str = "kubernetes.io/hostname";
pub const OS_LABEL: &str = "kubernetes.io/os";
pub const ARCH_LABEL: &str = "kubernetes.io/arch";
/// Label of a node; what follows is one of its roles.
pub const NODE_ROLE_PREFIX: &str = "node-role.kubernetes.io/";
/// Older label of a node whose value is its role.
pub const NODE_ROLE: &str = "kubernetes.io/role";
/// Node labels that got a new name, old one first: a volume's affinity may move from one to the other.
pub const RENAMED_NODE_LABELS: [(&str, &str); 5] = [
    ("beta.kubernetes.io/arch", ARCH_LABEL),
    ("beta.kubernetes.io/os", OS_LABEL),
    ("beta.kubernetes.io/instance-type", "node.kubernetes.io/instance-type"),
    ("failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region"),
    ("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone"),
];
/// Whether a kubelet may set this label on its own Node: all but those with Kubernetes' own prefixes, and of these the ones
/// that describe a machine. Others could draw pods to a node that is not meant for them.
pub fn is_kubelet_label(key: &str) -> bool {
    let Some((domain, _)) = key.split_once('/') else { return true };
    let below =
        |root: &str| domain == root || domain.strip_suffix(root).is_some_and(|rest| rest.ends_with('.'));
    let kubernetes = below("kubernetes.io") || below("k8s.io");
    let renamed = RENAMED_NODE_LABELS.iter().any(|(old, new)| *old == key || *new == key);
    let machine = below("kubelet.kubernetes.io") || below("node.kubernetes.io");
    // It is below kubernetes.io, and never the kubelet's, whatever stands before it.
    let reserved = below("node-restriction.kubernetes.io");
    !reserved && (!kubernetes || renamed || machine || key == HOSTNAME_LABEL)
}

/// Label of every namespace with its own name.
pub const NAMESPACE_NAME_LABEL: &str = "kubernetes.io/metadata.name";

/// The taint that `kubectl cordon` stands for.
pub const TAINT_UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";
pub const TAINT_NOT_READY: &str = "node.kubernetes.io/not-ready";
pub const TAINT_UNREACHABLE: &str = "node.kubernetes.io/unreachable";
/// A person vouches that the node is down: its volumes may be detached.
pub const TAINT_OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";

/// Class parameters with this prefix are the provisioner's, not the driver's.
pub const CLASS_PARAMETER_PREFIX: &str = "csi.storage.k8s.io/";
pub const FSTYPE_PARAMETER: &str = "csi.storage.k8s.io/fstype";
/// Prefix of upstream's own names: native resources and in-tree plugins. A provisioner without it is external.
pub const NATIVE_PREFIX: &str = "kubernetes.io/";
/// The provisioner that never provisions.
pub const NO_PROVISIONER: &str = "kubernetes.io/no-provisioner";

/// The CSI volume plugin, as it appears in unique volume names and paths.
pub const CSI_PLUGIN: &str = "kubernetes.io/csi";
/// The same in a directory name.
pub const CSI_PLUGIN_ESCAPED: &str = "kubernetes.io~csi";

/// The emptyDir volume plugin in a directory name.
pub const EMPTY_DIR_PLUGIN_ESCAPED: &str = "kubernetes.io~empty-dir";
pub const CONFIG_MAP_PLUGIN_ESCAPED: &str = "kubernetes.io~configmap";
pub const SECRET_PLUGIN_ESCAPED: &str = "kubernetes.io~secret";
pub const DOWNWARD_API_PLUGIN_ESCAPED: &str = "kubernetes.io~downward-api";
pub const PROJECTED_PLUGIN_ESCAPED: &str = "kubernetes.io~projected";

/// Keys that the kubelet adds to the volume context when the driver asks for pod information.
pub const POD_NAME: &str = "csi.storage.k8s.io/pod.name";
pub const POD_NAMESPACE: &str = "csi.storage.k8s.io/pod.namespace";
pub const POD_UID: &str = "csi.storage.k8s.io/pod.uid";
pub const POD_SERVICE_ACCOUNT: &str = "csi.storage.k8s.io/serviceAccount.name";
pub const POD_EPHEMERAL: &str = "csi.storage.k8s.io/ephemeral";
/// Tokens of the pod's account by audience, in the volume context or among the secrets.
pub const POD_TOKENS: &str = "csi.storage.k8s.io/serviceAccount.tokens";

/// The CSI driver that took over an in-tree plugin.
pub fn migrated_driver(plugin: &str) -> Option<&'static str> {
    MIGRATED.iter().find(|(old, _)| *old == plugin).map(|(_, driver)| *driver)
}

/// Finalizer of the external-attacher for one driver.
pub fn attacher_finalizer(driver: &str) -> String {
    format!("{ATTACHER_FINALIZER_PREFIX}{}", crate::name::sanitized(driver))
}

/// The same as [`SELECTED_NODE`], as older schedulers wrote it.
pub const SELECTED_NODE_ALPHA: &str = "volume.alpha.kubernetes.io/selected-node";
/// On a volume: the secret that ControllerModifyVolume needs.
pub const MODIFY_SECRET_NAME: &str = "volume.kubernetes.io/controller-modify-secret-name";
pub const MODIFY_SECRET_NAMESPACE: &str = "volume.kubernetes.io/controller-modify-secret-namespace";
/// Labels of a CSIStorageCapacity: whose room it tells of, and which provisioner writes it.
pub const CAPACITY_DRIVER: &str = "csi.storage.k8s.io/drivername";
pub const CAPACITY_MANAGED_BY: &str = "csi.storage.k8s.io/managed-by";
/// Parameters that `--extra-create-metadata` adds for the driver.
pub const CLAIM_NAME_PARAMETER: &str = "csi.storage.k8s.io/pvc/name";
pub const CLAIM_NAMESPACE_PARAMETER: &str = "csi.storage.k8s.io/pvc/namespace";
pub const VOLUME_NAME_PARAMETER: &str = "csi.storage.k8s.io/pv/name";
/// Value of [`MIGRATED_PLUGINS`]: sorted, as upstream writes it.
pub const MIGRATED_PLUGIN_NAMES: &str = "kubernetes.io/aws-ebs,kubernetes.io/azure-disk,kubernetes.io/azure-file,kubernetes.io/cinder,kubernetes.io/gce-pd,kubernetes.io/portworx-volume,kubernetes.io/vsphere-volume";
/// Namespace of the leases by which nodes show that they live.
pub const NODE_LEASE_NAMESPACE: &str = "kube-node-lease";

/// On any object: what it is for, for people.
pub const DESCRIPTION: &str = "kubernetes.io/description";
/// On a pod: the kubelet's picture of one that it runs on its own account.
pub const MIRROR_POD: &str = "kubernetes.io/config.mirror";
/// On a pod: those with lower numbers are given up first when a set shrinks.
pub const POD_DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";
/// On a default role or binding: `false` keeps the server from repairing it.
pub const RBAC_AUTOUPDATE: &str = "rbac.authorization.kubernetes.io/autoupdate";
/// What is known of a user beside name and groups: the credential, and for service accounts the pod and its node.
pub const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";
pub const CREDENTIAL_POD_NAME: &str = "authentication.kubernetes.io/pod-name";
pub const CREDENTIAL_POD_UID: &str = "authentication.kubernetes.io/pod-uid";
pub const CREDENTIAL_NODE_NAME: &str = "authentication.kubernetes.io/node-name";
pub const CREDENTIAL_NODE_UID: &str = "authentication.kubernetes.io/node-uid";
/// In an audit event: whether a request was allowed, and why.
pub const AUDIT_DECISION: &str = "authorization.k8s.io/decision";
pub const AUDIT_REASON: &str = "authorization.k8s.io/reason";

/// On a definition of a custom resource in a group of the Kubernetes community: who approved it.
pub const API_APPROVED: &str = "api-approved.kubernetes.io";
/// Keeps a definition of a custom resource until its objects are gone.
pub const CUSTOM_RESOURCE_CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

/// On a namespace: what PodSecurity refuses, notes in the audit log and warns of; each with the version of its level.
pub const POD_SECURITY_ENFORCE: &str = "pod-security.kubernetes.io/enforce";
pub const POD_SECURITY_ENFORCE_VERSION: &str = "pod-security.kubernetes.io/enforce-version";
pub const POD_SECURITY_AUDIT: &str = "pod-security.kubernetes.io/audit";
pub const POD_SECURITY_AUDIT_VERSION: &str = "pod-security.kubernetes.io/audit-version";
pub const POD_SECURITY_WARN: &str = "pod-security.kubernetes.io/warn";
pub const POD_SECURITY_WARN_VERSION: &str = "pod-security.kubernetes.io/warn-version";
/// In an audit event: the policy that was enforced, what violates the audited one, and why labels could not be read.
pub const POD_SECURITY_AUDIT_POLICY: &str = "pod-security.kubernetes.io/enforce-policy";
pub const POD_SECURITY_AUDIT_VIOLATIONS: &str = "pod-security.kubernetes.io/audit-violations";
pub const POD_SECURITY_AUDIT_ERROR: &str = "pod-security.kubernetes.io/error";
/// On a pod, before the fields existed: profiles of a container, or of the pod. A container's name follows the prefix.
pub const APPARMOR_CONTAINER_PREFIX: &str = "container.apparmor.security.beta.kubernetes.io/";
pub const SECCOMP_POD: &str = "seccomp.security.alpha.kubernetes.io/pod";
pub const SECCOMP_CONTAINER_PREFIX: &str = "container.seccomp.security.alpha.kubernetes.io/";

/// On a snapshot class: snapshots that name no class get this one, if their volume is of its driver. Only `true` counts.
pub const DEFAULT_SNAPSHOT_CLASS: &str = "snapshot.storage.kubernetes.io/is-default-class";
/// Keeps a claim while a snapshot of it is being taken.
pub const SNAPSHOT_SOURCE_CLAIM: &str = "snapshot.storage.kubernetes.io/pvc-as-source-protection";
/// Keeps a snapshot until its content was told that it goes.
pub const SNAPSHOT_AS_SOURCE: &str = "snapshot.storage.kubernetes.io/volumesnapshot-as-source-protection";
/// Keeps a snapshot until its content is gone.
pub const SNAPSHOT_BOUND: &str = "snapshot.storage.kubernetes.io/volumesnapshot-bound-protection";
/// Keeps a member of a group snapshot while the group exists.
pub const SNAPSHOT_IN_GROUP: &str = "snapshot.storage.kubernetes.io/volumesnapshot-in-group-protection";
/// Keeps a content until csi-snapshotter has deleted the backend's snapshot.
pub const SNAPSHOT_CONTENT_BOUND: &str =
    "snapshot.storage.kubernetes.io/volumesnapshotcontent-bound-protection";
/// On a content: a CreateSnapshot may be running; the content must not be deleted before a final answer.
pub const SNAPSHOT_BEING_CREATED: &str = "snapshot.storage.kubernetes.io/volumesnapshot-being-created";
/// On a content: its snapshot is being deleted, so that the backend's may be, too.
pub const SNAPSHOT_BEING_DELETED: &str = "snapshot.storage.kubernetes.io/volumesnapshot-being-deleted";
/// On a content: the secret that DeleteSnapshot needs.
pub const SNAPSHOT_DELETION_SECRET_NAME: &str = "snapshot.storage.kubernetes.io/deletion-secret-name";
pub const SNAPSHOT_DELETION_SECRET_NAMESPACE: &str =
    "snapshot.storage.kubernetes.io/deletion-secret-namespace";
/// On a content, set by people: a volume of another mode may be restored from it.
pub const SNAPSHOT_ALLOW_MODE_CHANGE: &str = "snapshot.storage.kubernetes.io/allow-volume-mode-change";
/// Label of a content: the node whose csi-snapshotter handles it.
pub const SNAPSHOT_MANAGED_BY: &str = "snapshot.storage.kubernetes.io/managed-by";

/// The same of groups of snapshots.
pub const DEFAULT_GROUP_SNAPSHOT_CLASS: &str = "groupsnapshot.storage.kubernetes.io/is-default-class";
pub const GROUP_SNAPSHOT_BOUND: &str =
    "groupsnapshot.storage.kubernetes.io/volumegroupsnapshot-bound-protection";
pub const GROUP_SNAPSHOT_CONTENT_BOUND: &str =
    "groupsnapshot.storage.kubernetes.io/volumegroupsnapshotcontent-bound-protection";
pub const GROUP_SNAPSHOT_BEING_CREATED: &str =
    "groupsnapshot.storage.kubernetes.io/volumegroupsnapshot-being-created";
pub const GROUP_SNAPSHOT_BEING_DELETED: &str =
    "groupsnapshot.storage.kubernetes.io/volumegroupsnapshot-being-deleted";
pub const GROUP_SNAPSHOT_DELETION_SECRET_NAME: &str =
    "groupsnapshot.storage.kubernetes.io/deletion-secret-name";
pub const GROUP_SNAPSHOT_DELETION_SECRET_NAMESPACE: &str =
    "groupsnapshot.storage.kubernetes.io/deletion-secret-namespace";
/// On the content of a member: the handle of its group.
pub const GROUP_SNAPSHOT_HANDLE: &str = "groupsnapshot.storage.k8s.io/volumeGroupSnapshotHandle";

/// Parameters of a snapshot class that name secrets; name and namespace follow the prefix.
pub const SNAPSHOTTER_SECRET: &str = "csi.storage.k8s.io/snapshotter-secret-";
pub const SNAPSHOTTER_LIST_SECRET: &str = "csi.storage.k8s.io/snapshotter-list-secret-";
pub const GROUP_SNAPSHOTTER_SECRET: &str = "csi.storage.k8s.io/group-snapshotter-secret-";
pub const GROUP_SNAPSHOTTER_GET_SECRET: &str = "csi.storage.k8s.io/group-snapshotter-get-secret-";
/// Parameters that csi-snapshotter's `--extra-create-metadata` adds for the driver.
pub const SNAPSHOT_NAME_PARAMETER: &str = "csi.storage.k8s.io/volumesnapshot/name";
pub const SNAPSHOT_NAMESPACE_PARAMETER: &str = "csi.storage.k8s.io/volumesnapshot/namespace";
pub const SNAPSHOT_CONTENT_NAME_PARAMETER: &str = "csi.storage.k8s.io/volumesnapshotcontent/name";
pub const GROUP_SNAPSHOT_NAME_PARAMETER: &str = "csi.storage.k8s.io/volumegroupsnapshot/name";
pub const GROUP_SNAPSHOT_NAMESPACE_PARAMETER: &str = "csi.storage.k8s.io/volumegroupsnapshot/namespace";
pub const GROUP_SNAPSHOT_CONTENT_NAME_PARAMETER: &str = "csi.storage.k8s.io/volumegroupsnapshotcontent/name";
