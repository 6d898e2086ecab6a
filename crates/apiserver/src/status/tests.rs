use super::*;

const PVC: Resource<'static> = Resource { group: "", plural: "persistentvolumeclaims" };
const SC: Resource<'static> = Resource { group: "storage.k8s.io", plural: "storageclasses" };

#[test]
fn phrases() {
    let required = Invalid::required("spec.a", "");
    let unsupported = Invalid::not_supported("spec.b", "X", &["B", "A"]);
    let table = [
        (Status::not_found(PVC, "x"), 404, "NotFound", r#"persistentvolumeclaims "x" not found"#),
        (Status::not_found(SC, "x"), 404, "NotFound", r#"storageclasses.storage.k8s.io "x" not found"#),
        (
            Status::already_exists(PVC, "x"),
            409,
            "AlreadyExists",
            r#"persistentvolumeclaims "x" already exists"#,
        ),
        (
            Status::modified(SC, "x"),
            409,
            "Conflict",
            r#"Operation cannot be fulfilled on storageclasses.storage.k8s.io "x": the object has been modified; please apply your changes to the latest version and try again"#,
        ),
        (
            Status::invalid("", "PersistentVolumeClaim", "x", std::slice::from_ref(&required)),
            422,
            "Invalid",
            r#"PersistentVolumeClaim "x" is invalid: spec.a: Required value"#,
        ),
        (
            Status::invalid(
                "storage.k8s.io",
                "StorageClass",
                "x",
                &[required.clone(), unsupported, required],
            ),
            422,
            "Invalid",
            r#"StorageClass.storage.k8s.io "x" is invalid: [spec.a: Required value, spec.b: Unsupported value: "X": supported values: "A", "B"]"#,
        ),
        (
            Status::forbidden(PVC, "x", "no"),
            403,
            "Forbidden",
            r#"persistentvolumeclaims "x" is forbidden: no"#,
        ),
        (
            Status::not_acceptable(&["application/json"]),
            406,
            "NotAcceptable",
            "only the following media types are accepted: application/json",
        ),
        (
            Status::version_too_large(9, 5),
            504,
            "Timeout",
            "Timeout: Too large resource version: 9, current: 5",
        ),
        (
            Status::too_large("limit is 3145728"),
            413,
            "RequestEntityTooLarge",
            "Request entity too large: limit is 3145728",
        ),
        (Status::internal("disk full"), 500, "InternalError", "Internal error occurred: disk full"),
        (Status::unauthorized(), 401, "Unauthorized", "Unauthorized"),
    ];
    for (status, code, reason, message) in table {
        let json = status.to_json();
        assert_eq!(json["code"], code, "{message}");
        assert_eq!(json["reason"], reason);
        assert_eq!(json["message"], message);
        assert_eq!(json["status"], "Failure");
    }
}

#[test]
fn causes_name_the_fields() {
    let errors = [Invalid::invalid("spec.a", 3, "too small")];
    let json = Status::invalid("storage.k8s.io", "StorageClass", "x", &errors).to_json();
    let want = json!({
        "name": "x", "group": "storage.k8s.io", "kind": "StorageClass",
        "causes": [{"reason": "FieldValueInvalid", "message": "Invalid value: 3: too small", "field": "spec.a"}],
    });
    assert_eq!(json["details"], want);
}

#[test]
fn a_deleted_object_is_a_success_without_code() {
    let json = Status::deleted(Resource { group: "", plural: "configmaps" }, "x", "u-1").to_json();
    let want = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
        "details": {"name": "x", "kind": "configmaps", "uid": "u-1"},
    });
    assert_eq!(json, want);
}
