//! `bundle`: written bundles are valid, and mistakes have the names of operator-sdk.

use std::fs;

use crate::project::{done, run, shop};

#[test]
fn the_bundle_of_a_project_is_valid_and_mistakes_are_named() {
    let (_scratch, folder) = shop();
    let said = done(&folder, &["bundle", "create", "--version", "0.1.0", "--image", "registry.example.org/shop:0.1.0"]);
    assert!(said.contains("next:  kubewright bundle validate ./bundle/0.1.0"), "{said}");
    let validate = ["bundle", "validate", "bundle/0.1.0", "--select-optional", "suite=operatorframework"];
    assert_eq!(done(&folder, &validate), "all validation tests have completed successfully\n");
    let said = done(&folder, &["bundle", "scorecard", "bundle/0.1.0"]);
    assert!(said.lines().count() == 6 && said.lines().all(|line| line.ends_with(": pass")), "{said}");
    let (code, said) = run(&folder, &["bundle", "create", "--version", "0.1.0"]);
    assert!(code == Some(1) && said.contains("exists already, and is left as it is"), "{said}");

    let file = format!("{folder}/bundle/0.1.0/manifests/shop.clusterserviceversion.yaml");
    let csv = fs::read_to_string(&file).expect("it was written");
    for part in [
        "name: shop.v0.1.0",
        "image: registry.example.org/shop:0.1.0",
        "- tokenreviews",
        "serviceAccountName: shop",
        "name: orders.shop.example.org",
    ] {
        assert!(csv.contains(part), "{part}: {csv}");
    }
    for (from, to, told) in [
        (
            "supported: true",
            "supported: false",
            "Error: CSVFileNotValid: (shop.v0.1.0) none of InstallModeTypes are supported",
        ),
        ("minKubeVersion: 1.25.0", "minKubeVersion: new", "csv.Spec.MinKubeVersion has an invalid value: new"),
        (
            "displayName: shop",
            "displayName: ''",
            "Error: FieldNotFound: Field Spec.DisplayName: required field missing",
        ),
        ("version: v1alpha1\n", "version: v9\n", "Error: BundleNotValid: owned CRD"),
        ("capabilities: Basic Install", "capabilities: All", "\"All\" is not a valid capabilities level"),
        ("name: shop.v0.1.0", "name: shop", "Warning: ValidationFailed: csv.metadata.Name shop is not following"),
        ("capabilities: Basic Install", "olm.skiprange: '<1'", "uses wrong case and should be olm.skipRange instead"),
        (
            "\"kind\":\"Order\"",
            "\"kind\":\"Other\"",
            "Error: OperationFailed: Value shop.example.org/v1alpha1, Kind=Other",
        ),
        (
            "image: registry.example.org/shop:0.1.0\n    name: controller",
            "image: Registry//\n    name: controller",
            "invalid image pullspec",
        ),
    ] {
        let broken = csv.replace(from, to);
        assert_ne!(broken, csv, "{from}");
        fs::write(&file, broken).expect("it is writable");
        let (code, said) = run(&folder, &validate);
        assert!(said.contains(told), "{told}: {said}");
        assert_eq!(code, Some(i32::from(!told.starts_with("Warning"))), "{said}");
    }
    fs::write(&file, &csv).expect("it is writable");
    for (from, to, told) in [
        ("\"spec\":{\"image\"", "\"spec\":{\"colour\":1,\"image\"", "unknown field \"spec.colour\""),
        ("path: replicas", "path: copies", "spec.replicas of Order has no descriptor"),
        (
            "      resources:\n      - kind: Deployment\n        name: \"\"\n        version: v1\n",
            "",
            "lists no resources",
        ),
    ] {
        let broken = csv.replace(from, to);
        assert!(broken != csv, "{from}: {csv}");
        fs::write(&file, broken).expect("it is writable");
        let (code, said) = run(&folder, &["bundle", "scorecard", "bundle/0.1.0"]);
        assert!(code == Some(1) && said.contains(told), "{told}: {said}");
    }
    fs::write(&file, &csv).expect("it is writable");
    // The definition is checked by the API server.
    let definition = format!("{folder}/bundle/0.1.0/manifests/orders.shop.example.org.crd.yaml");
    let text = fs::read_to_string(&definition).expect("it was written");
    fs::write(&definition, text.replace("scope: Namespaced", "scope: Nowhere")).expect("it is writable");
    let (code, said) = run(&folder, &validate);
    assert!(code == Some(1) && said.contains("Error: FieldValueNotSupported: Field spec.scope"), "{said}");
    fs::remove_file(format!("{folder}/bundle/0.1.0/metadata/annotations.yaml")).expect("it was written");
    let (code, said) = run(&folder, &validate);
    assert!(code == Some(1) && said.contains("annotations.yaml"), "{said}");
}

#[test]
fn an_upgrade_that_loses_objects_is_refused() {
    let (_scratch, folder) = shop();
    done(&folder, &["bundle", "create", "--version", "0.1.0"]);
    done(&folder, &["bundle", "create", "--version", "0.2.0", "--replaces", "shop.v0.1.0"]);
    let upgrade = ["bundle", "upgrade", "bundle/0.1.0", "bundle/0.2.0"];
    assert_eq!(done(&folder, &upgrade), "shop.v0.1.0 can be upgraded to shop.v0.2.0\n");
    let (code, said) = run(&folder, &["bundle", "upgrade", "bundle/0.2.0", "bundle/0.1.0"]);
    assert!(
        code == Some(1) && said.contains("0.1.0 is not after 0.2.0") && said.contains("neither replaces"),
        "{said}"
    );
    let definition = format!("{folder}/bundle/0.2.0/manifests/orders.shop.example.org.crd.yaml");
    let text = fs::read_to_string(&definition).expect("it was written");
    fs::write(&definition, text.replace("name: v1alpha1", "name: v1")).expect("it is writable");
    let (code, said) = run(&folder, &upgrade);
    assert!(code == Some(1) && said.contains("version v1alpha1: is removed"), "{said}");
    fs::write(&definition, text.replace("minimum: 0", "minimum: 5")).expect("it is writable");
    let (code, said) = run(&folder, &upgrade);
    assert!(code == Some(1) && said.contains("orders.shop.example.org: version v1alpha1: "), "{said}");
}
